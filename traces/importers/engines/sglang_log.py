"""How is acceptance read from SGLang's log?

Format `sglang-log`. Yields level 0: the mean of the printed `accept len` over all `Decode batch`
lines, each weighted by its running requests (every line covers the same number of passes,
`--decode-log-interval`), with the lines kept as windows. It cannot know steps, tokens or rates by
position. The printed `accept rate` tells the draft length, and means two things: until 0.5.4 accept
length over draft tokens with the root, later accepted drafts over draft tokens without it; which
one, and how many draft tokens, follows from the figures of all lines together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hardware_profiles.errors import InputError
from traces.importers.counted import counted
from traces.importers.files import read_text
from traces.importers.recognition import Format
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.summary import Window

_MAX_LINE = 1 << 14
_MOST_DRAFT_TOKENS = 1024
_NUMBER = r"(\d{1,9}(?:\.\d{1,9})?)"
_BATCH = re.compile(r"Decode batch\b.*?#running-req: (\d{1,9})\b", re.ASCII)
_LENGTH = re.compile(rf"(?<!block )\baccept len: {_NUMBER}", re.ASCII)
_RATE = re.compile(rf"\baccept rate: {_NUMBER}", re.ASCII)
# half of the second printed decimal, and a little for what binary fractions round
_ROUNDING = 0.00501


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    running: int
    length: float
    rate: float | None


def read(path: str | Path) -> AcceptanceTrace:
    """Read a log.

    Args:
        path: text of one server's log; lines that say nothing about acceptance are passed over.

    Returns:
        A trace of level 0 whose summary holds the lines as windows.

    Raises:
        InputError: no decode line with an accept length of at least 1.
    """
    file = str(path)
    lines = _lines(read_text(path))
    if not lines:
        raise InputError("holds no decode line with an accept length", file=file)
    weights = [max(line.running, 1) for line in lines]
    mean = math.fsum(
        line.length * weight for line, weight in zip(lines, weights, strict=True)
    ) / sum(weights)
    draft_tokens, notes = _draft_tokens(lines)
    return counted(
        file,
        source="SGLang log",
        mean_tokens_per_step=mean,
        longest_draft=draft_tokens,
        windows=[
            Window(batch_requests=line.running, mean_tokens_per_step=line.length) for line in lines
        ],
        notes=[
            (
                f"Mean of {len(lines)} lines, weighted by running requests: steps and tokens are"
                " not printed."
            ),
            *notes,
        ],
    )


def _lines(text: str) -> list[_Line]:
    lines = []
    for line in text.splitlines():
        if len(line) > _MAX_LINE or (batch := _BATCH.search(line)) is None:
            continue
        length, rate = _LENGTH.search(line), _RATE.search(line)
        if length is not None and float(length[1]) >= 1:
            lines.append(
                _Line(
                    running=int(batch[1]),
                    length=float(length[1]),
                    rate=float(rate[1]) if rate is not None else None,
                )
            )
    return lines


def _draft_tokens(lines: Sequence[_Line]) -> tuple[int, list[str]]:
    """Draft tokens of a step, root excluded, with notes on how they were inferred; 0 where the
    figures do not determine them.
    """
    rated = [line for line in lines if line.rate]
    if not rated:
        return 0, ["The lines print no accept rate: the draft length is unknown."]
    # both meanings of the rate are tried; the one that fits every line tells the draft length
    with_root = _common([(line.length, line.rate or 0.0) for line in rated])
    without = _common([(line.length - 1, line.rate or 0.0) for line in rated])
    levels = sorted({*(total - 1 for total in with_root if total > 1), *without})
    levels = [
        draft for draft in levels if max(line.length for line in rated) <= draft + 1 + _ROUNDING
    ]
    if len(levels) != 1:
        return 0, [
            "The printed rates do not tell one draft length (it changed, or the figures are too"
            " coarse)."
        ]
    generation = "accept length over draft tokens with the root (until 0.5.4)"
    if levels[0] in without:
        generation = "accepted drafts over draft tokens"
    return levels[0], [
        f"Its accept rate is {generation}, which makes {levels[0]} draft tokens per step; "
        "of a tree (topk > 1) those are its nodes, and its levels are fewer."
    ]


def _common(figures: Sequence[tuple[float, float]]) -> list[int]:
    """Whole numbers n for which length / n prints as the rate on every line."""
    low, high = 1.0, float(_MOST_DRAFT_TOKENS)
    for length, rate in figures:
        low = max(low, (length - _ROUNDING) / (rate + _ROUNDING))
        if rate > _ROUNDING:
            high = min(high, (length + _ROUNDING) / (rate - _ROUNDING))
    return list(range(math.ceil(low), math.floor(high) + 1)) if low <= high else []


FORMATS = (
    Format(
        name="sglang-log",
        claims=lambda sample: sample.says(
            r"Decode batch\b.{0,40}#running-req: \d+.{0,400}\baccept len: \d"
        ),
        read=read,
    ),
)
