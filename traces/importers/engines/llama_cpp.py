"""How is acceptance read from llama.cpp's logs and responses?

Formats `llama-cpp-log` and `llama-cpp-timings`. Yields level 0. The log's `statistics <drafter>:`
lines are running totals since the server started (the last of every run counts) and tell drafts,
how often the drafter proposed, and, since June 2026, rates by position; without them the `draft
acceptance` lines of single requests are added up, whose steps follow from the printed mean, or from
the `eval time` line before them. The `timings` of a response count predicted and accepted tokens,
whose difference is the steps. It cannot know positions or batch sizes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardware_profiles.errors import InputError
from traces.importers.counted import counted
from traces.importers.files import expect_whole, read_text
from traces.importers.recognition import Format
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.naming import naming

_METHODS = {
    "ngram": "n-gram",
    "mtp": "mtp",
    "eagle3": "eagle-3",
    "dflash": "dflash",
    "draft": "speculative-decoding",
}
"""Methods by a word of what llama.cpp calls a drafter, the first that fits."""
_MAX_LINE = 1 << 14
_COUNT = r"(\d{1,15})"
_POSITIONS = r"\(([01]\.\d{1,6}(?:, ?[01]\.\d{1,6}){0,1023})\)"
_TOTALS = re.compile(
    rf"statistics +([\w.-]{{1,60}}): #calls(?:\(b,g,a\) = \d{{1,15}} {_COUNT} \d{{1,15}}| ="
    rf" {_COUNT}), "
    rf"#gen drafts = {_COUNT}, #acc drafts = {_COUNT}, #gen tokens = {_COUNT}, #acc tokens ="
    rf" {_COUNT}",
    re.ASCII,
)
_TOTAL_RATES = re.compile(rf"#acc rate/pos = {_POSITIONS}", re.ASCII)
_REQUEST = re.compile(
    rf"draft acceptance(?: rate)? = [\d.]{{1,12}} \( *{_COUNT} accepted / *{_COUNT} generated\)",
    re.ASCII,
)
_MEAN = re.compile(r"mean acceptance length = +(\d{1,4}\.\d{1,6})", re.ASCII)
_RATES = re.compile(rf"acceptance rate per position = {_POSITIONS}", re.ASCII)
_EVAL = re.compile(
    rf"(?<!prompt )eval time = +[\d.]{{1,15}} ms / +{_COUNT} (?:tokens|runs)", re.ASCII
)
_TIMINGS = re.compile(r'"timings"\s*:\s*(\{[^{}]{1,4096}\})')


@dataclass(frozen=True, kw_only=True, slots=True)
class _Drafting:
    """Counts of one request, or of one drafter since the server started; `calls` is 0 where they
    were not counted.
    """

    drafts: int
    proposed: int
    accepted: int
    calls: int = 0
    rates: tuple[float, ...] = ()


def read_log(path: str | Path, *, drafter: str | None = None) -> AcceptanceTrace:
    """Read a log.

    Args:
        path: text of one server's or program's log; lines that say nothing about acceptance are
            passed over.
        drafter: whose statistics to read where the log has those of several.

    Raises:
        InputError: no such line, several drafters and none chosen, or figures that contradict each
            other.
    """
    file = str(path)
    text = read_text(path)
    totals = _running_totals(text, file)
    if drafter is not None and drafter not in totals:
        raise InputError(
            f"must be one of {', '.join(totals)[:300]}", file=file, key="drafter", value=drafter
        )
    if len(totals) > 1 and drafter is None:
        raise InputError(
            f"choose one of the drafters {', '.join(totals)[:300]}", file=file, key="drafter"
        )
    if totals:
        name = drafter or next(iter(totals))
        return _summed(
            totals[name],
            file,
            name,
            ["Running totals of the server's whole life, warm-up included."],
        )
    requests = list(_requests(text, file))
    if not requests:
        raise InputError("holds no draft acceptance or statistics line", file=file)
    counted_requests = [request for request in requests if request.drafts] or requests
    notes = [
        f"{len(counted_requests)} of {len(requests)} requests, of which the steps are known,"
        " added up."
    ]
    return _summed(counted_requests, file, "", notes if counted_requests[0].drafts else [])


def read_timings(path: str | Path) -> AcceptanceTrace:
    """Read the `timings` of responses.

    Args:
        path: any text that holds them: a response, JSON lines of responses, a stream, a log.

    Raises:
        InputError: none with `draft_n`, or a count of another kind.
    """
    file = str(path)
    requests, plain = [], 0
    for match in _TIMINGS.finditer(read_text(path)):
        timings = _object(match[1])
        if "draft_n" not in timings:
            plain += 1
            continue
        predicted, proposed, accepted = (
            expect_whole(timings.get(key), file, f"timings.{key}")
            for key in ("predicted_n", "draft_n", "draft_n_accepted")
        )
        requests.append(
            _Drafting(drafts=max(predicted - accepted, 1), proposed=proposed, accepted=accepted)
        )
    if not requests:
        raise InputError(
            "holds no timings with draft_n: nothing was drafted", file=file, key="timings"
        )
    notes = [
        f"{len(requests)} responses with drafts, {plain} without.",
        "Steps are predicted less accepted tokens, those without a proposal among them.",
    ]
    return _summed(requests, file, "", notes)


def _object(text: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _running_totals(text: str, file: str) -> dict[str, list[_Drafting]]:
    """The last statistics of every run of every drafter; totals that fall begin another run."""
    totals: dict[str, list[_Drafting]] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > _MAX_LINE or (match := _TOTALS.search(line)) is None:
            continue
        several, single, drafts, _, proposed, accepted = match.groups()[1:]
        with naming(file, f"line {number}"):
            now = _Drafting(
                drafts=int(drafts),
                proposed=int(proposed),
                accepted=int(accepted),
                calls=int(several or single),
                rates=_positions(_TOTAL_RATES, line),
            )
            if now.accepted > now.proposed:
                raise InputError(
                    f"must not exceed the {proposed} tokens drafted",
                    key="#acc tokens",
                    value=now.accepted,
                )
        runs = totals.setdefault(match[1], [now])
        # totals that fall are those of another run of the server
        if now.calls < runs[-1].calls or now.proposed < runs[-1].proposed:
            runs.append(now)
        else:
            runs[-1] = now
    return {name: [run for run in runs if run.drafts] or runs for name, runs in totals.items()}


def _requests(text: str, file: str) -> Iterator[_Drafting]:
    predicted = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if len(line) > _MAX_LINE:
            continue
        if (evaluated := _EVAL.search(line)) is not None:
            predicted = int(evaluated[1])
        elif (match := _REQUEST.search(line)) is not None and int(match[2]):
            accepted, proposed = int(match[1]), int(match[2])
            mean = _MEAN.search(line)
            # every step emits one token beside the accepted ones
            drafts = max(predicted - accepted, 0)
            if mean is not None and accepted and float(mean[1]) > 1:
                # the mean is 1 + accepted / drafts; a draft has one token at least
                drafts = min(max(1, round(accepted / (float(mean[1]) - 1))), proposed)
            with naming(file, f"line {number}"):
                if accepted > proposed:
                    raise InputError(
                        f"must not exceed the {proposed} tokens drafted",
                        key="accepted",
                        value=accepted,
                    )
                yield _Drafting(
                    drafts=drafts,
                    proposed=proposed,
                    accepted=accepted,
                    rates=_positions(_RATES, line),
                )
            predicted = 0


def _positions(pattern: re.Pattern[str], line: str) -> tuple[float, ...]:
    match = pattern.search(line)
    return () if match is None else tuple(float(text) for text in match[1].split(","))


def _summed(
    runs: Sequence[_Drafting], file: str, drafter: str, notes: Sequence[str]
) -> AcceptanceTrace:
    drafts, calls = sum(run.drafts for run in runs), sum(run.calls for run in runs)
    rated = [run for run in runs if run.rates and run.drafts]
    rates = np.zeros(max((len(run.rates) for run in rated), default=0))
    for run in rated:
        rates[: len(run.rates)] += np.asarray(run.rates) * run.drafts
    return counted(
        file,
        source="llama.cpp",
        drafts=drafts,
        draft_tokens=sum(run.proposed for run in runs),
        accepted_tokens=sum(run.accepted for run in runs),
        rates=(rates / sum(run.drafts for run in rated)).tolist() if rated else (),
        match_rate=min(drafts / calls, 1.0) if calls else None,
        drafter=drafter,
        method=next((slug for word, slug in _METHODS.items() if word in drafter), ""),
        notes=[*notes, f"The drafter proposed in {drafts} of {calls} steps."] if calls else notes,
    )


FORMATS = (
    Format(
        name="llama-cpp-log",
        claims=lambda sample: sample.says(
            r"draft acceptance(?: rate)? {1,4}= {1,4}[\d.]{1,12} \( *\d+ accepted|statistics"
            r" {1,4}[\w.-]{1,60}: #calls"
        ),
        read=read_log,
    ),
    Format(
        name="llama-cpp-timings",
        claims=lambda sample: sample.says(r'"draft_n"\s{0,4}:'),
        read=read_timings,
    ),
)
