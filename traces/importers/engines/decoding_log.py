"""How is acceptance read from the periodic log lines of vLLM and LMDeploy?

Formats `vllm-log` and `lmdeploy-log`. Yields level 0: vLLM's `SpecDecoding metrics` lines (0.9 and
later; 0.8.x without lengths) or `Speculative metrics` lines (V0 engine, running totals), or
LMDeploy's `Draft acceptance rate: .., Mean acceptance length: ..` lines, pooled, with every window
stored beside the batch size of the neighbouring `Engine ...` line. It cannot know positions, and
drafts only as far as the printed figures pin them down: 0.8.x prints none. Batch sizes are those at
the moment of logging, not the window's mean.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from hardware_profiles.errors import InputError
from traces.importers.counted import counted, falling
from traces.importers.files import read_text
from traces.importers.recognition import Format
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.naming import naming
from traces.kinds.summary import Window

_MAX_LINE = 1 << 14
_NUMBER = r"(\d{1,15}(?:\.\d{1,15})?)"
_COUNT = r"(\d{1,15})"
_STAMP = re.compile(r"\b(\d\d-\d\d \d\d:\d\d:\d\d)\b", re.ASCII)
_RUNNING = re.compile(r"\bAvg generation throughput: .*?\bRunning: (\d{1,9}) reqs", re.ASCII)
_LENGTH = re.compile(rf"Mean acceptance length: {_NUMBER}", re.ASCII)
_ACCEPTED = re.compile(rf"Accepted: {_COUNT} tokens", re.ASCII)
_DRAFTED = re.compile(rf"Drafted: {_COUNT} tokens", re.ASCII)
_RATES = re.compile(
    r"Per-position acceptance rate: \[?((?:[01]\.\d{1,6}(?:, ?)?){1,256})", re.ASCII
)
_WINDOWS = {
    "vLLM": re.compile("SpecDecoding metrics:"),
    "LMDeploy": re.compile(r"Draft acceptance rate: [\d.]+%, Mean acceptance length:", re.ASCII),
}
_TOTALS = re.compile(
    rf"Speculative metrics: .*?Number of speculative tokens: {_COUNT}, Number of accepted tokens:"
    rf" {_COUNT}, "
    rf"Number of draft tokens: {_COUNT}, Number of emitted tokens: {_COUNT}",
    re.ASCII,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    """One line that matters: an engine line (`running`) or a window."""

    stamp: str | None
    running: int | None = None
    window: Window | None = None
    rates: tuple[float, ...] = ()


def read(path: str | Path, *, engine: str = "vLLM") -> AcceptanceTrace:
    """Read a log.

    Args:
        path: text of one server's log; lines that say nothing about acceptance are passed over.
        engine: whose lines: vLLM or LMDeploy.

    Returns:
        A trace of level 0 whose summary holds the windows.

    Raises:
        InputError: no such line, or figures that contradict each other.
    """
    file = str(path)
    lines = _lines(read_text(path), file, _WINDOWS[engine])
    if not any(line.window for line in lines):
        needed = "SpecDecoding or Speculative metrics" if engine == "vLLM" else "acceptance length"
        raise InputError(f"holds no {needed} line", file=file)
    windows = _with_batch(lines)
    rates = [line.rates for line in lines if line.window]
    return _pooled(windows, rates, file, engine)


def _lines(text: str, file: str, marks: re.Pattern[str]) -> list[_Line]:
    lines = []
    before = (0, 0, 0)
    for number, line in enumerate(text.splitlines(), start=1):
        # most lines of a log say nothing of this, and a search for words is much faster than the
        # patterns
        if len(line) > _MAX_LINE or not (
            "throughput" in line or "acceptance rate" in line or "metrics:" in line
        ):
            continue
        match = _STAMP.search(line)
        stamp = match[1] if match else None
        with naming(file, f"line {number}"):
            if running := _RUNNING.search(line):
                lines.append(_Line(stamp=stamp, running=int(running[1])))
            elif marks.search(line):
                if window := _window(line):
                    lines.append(_Line(stamp=stamp, window=window, rates=_rates(line)))
            elif totals := _TOTALS.search(line):
                now = _running_totals(totals)
                # totals that fall are those of another run, which begins at 0
                restarted = any(new < old for new, old in zip(now, before, strict=True))
                gained = (
                    now if restarted else tuple(n - o for n, o in zip(now, before, strict=True))
                )
                before = now
                if gained == (0, 0, 0):
                    continue
                window = Window(drafts=gained[0], draft_tokens=gained[1], accepted_tokens=gained[2])
                lines.append(_Line(stamp=stamp, window=window))
    return lines


def _window(line: str) -> Window | None:
    """The counts of a line of the V1 engine; None where it reports no draft."""
    accepted, drafted = _ACCEPTED.search(line), _DRAFTED.search(line)
    if accepted is None or drafted is None or int(drafted[1]) == 0:
        return None
    length = _LENGTH.search(line)
    drafts = _drafts(
        int(accepted[1]), int(drafted[1]), float(length[1]) if length else None, len(_rates(line))
    )
    return Window(drafts=drafts, draft_tokens=int(drafted[1]), accepted_tokens=int(accepted[1]))


def _drafts(accepted: int, drafted: int, length: float | None, positions: int) -> int:
    """Steps with a proposal, which the line does not print; 0 where its figures do not tell.

    Exact where every draft was full (drafted / positions) and agrees with the printed mean; else
    from the mean, which has two decimals.
    """
    full = drafted // positions if positions and drafted % positions == 0 else 0
    # half of the last printed decimal, and a little for what binary fractions round
    if length is None or (full and abs(1 + accepted / full - length) <= 0.0051):
        return full
    if accepted and length > 1:
        return max(1, round(accepted / (length - 1)))
    return full


def _running_totals(match: re.Match[str]) -> tuple[int, int, int]:
    """Drafts, draft tokens and accepted tokens of the V0 engine so far.

    Its "accepted" also counts tokens after a refused one; the accepted draft tokens are the emitted
    ones less one per draft.
    """
    length, _, drafted, emitted = (int(match[group]) for group in range(1, 5))
    drafts = drafted // length if length else 0
    return drafts, drafted, max(0, emitted - drafts)


def _rates(line: str) -> tuple[float, ...]:
    match = _RATES.search(line)
    return (
        ()
        if match is None
        else falling([float(text) for text in match[1].replace(",", " ").split()], 0.002)
    )


def _with_batch(lines: Sequence[_Line]) -> tuple[Window, ...]:
    """Every window with the running requests of its engine line: beside it, or with the same time
    stamp.
    """
    used: set[int] = set()
    stamped = {line.stamp: at for at, line in enumerate(lines) if line.running is not None}
    windows = []
    for at, line in enumerate(lines):
        if line.window is None:
            continue
        candidates = [at - 1, at + 1, stamped.get(line.stamp, -1) if line.stamp else -1]
        batch = None
        for other in candidates:
            if not 0 <= other < len(lines) or other in used or lines[other].running is None:
                continue
            if (
                line.stamp
                and lines[other].stamp
                and line.stamp[:11] != (lines[other].stamp or "")[:11]
            ):
                continue
            used.add(other)
            batch = lines[other].running
            break
        windows.append(replace(line.window, batch_requests=batch))
    return tuple(windows)


def _pooled(
    windows: Sequence[Window], rates: Sequence[tuple[float, ...]], file: str, engine: str
) -> AcceptanceTrace:
    """Counts added up over the windows whose drafts are known (over all of them where none is)."""
    with_drafts = [at for at, window in enumerate(windows) if window.drafts]
    counted_windows = [windows[at] for at in with_drafts] or list(windows)
    drafts = sum(window.drafts for window in counted_windows)
    by_depth = np.zeros(max((len(vector) for vector in rates), default=0))
    pooled = [at for at in with_drafts if rates[at]]
    for at in pooled:
        by_depth[: len(rates[at])] += np.asarray(rates[at]) * windows[at].drafts
    # a window whose drafts are unknown has no weight among the rates either
    weight = sum(windows[at].drafts for at in pooled)
    return counted(
        file,
        source=f"{engine} log",
        drafts=drafts,
        draft_tokens=sum(window.draft_tokens for window in counted_windows),
        accepted_tokens=sum(window.accepted_tokens for window in counted_windows),
        rates=(by_depth / weight).tolist() if weight else (),
        windows=windows,
        notes=_notes(windows, rates),
    )


def _notes(windows: Sequence[Window], rates: Sequence[tuple[float, ...]]) -> list[str]:
    notes = ["Drafts are inferred from printed figures."]
    if len({len(vector) for vector in rates}) > 1:
        notes.append(
            "Windows differ in draft length: acceptance by depth pools those that print it, and"
            " counts"
        )
        notes.append("shorter drafts as refused below their end.")
    unknown = sum(not window.drafts for window in windows)
    if unknown:
        notes.append(
            f"{unknown} of {len(windows)} windows do not tell their drafts and are not pooled with"
            " the rest."
        )
    alone = sum(window.batch_requests is None for window in windows)
    if alone:
        notes.append(
            f"{alone} of {len(windows)} windows have no engine line beside them: batch size"
            " unknown."
        )
    return notes


FORMATS = (
    Format(
        name="vllm-log",
        claims=lambda sample: sample.says("SpecDecoding metrics:|Speculative metrics:"),
        read=read,
    ),
    Format(
        name="lmdeploy-log",
        claims=lambda sample: sample.says(
            r"Draft acceptance rate: [\d.]+%, Mean acceptance length:"
        ),
        read=partial(read, engine="LMDeploy"),
    ),
)
