"""How are the passes of anybody's Jacobi decoder read, as its loop prints them?

Format `jacobi-passes`: JSON lines, one pass of one request each, in the order of passes:

    {"request": "q1", "tokens": [791, 4320, 374, 11], "same": [true, true, false, false]}

`tokens` are what the pass computed for the positions of its window, `same` whether each of them is
what the pass before left there (of a position that is new to the window, its first guess); a last
token without a guess has none. The first token is right, since all before it is known, and each
further one is right where every token before it was the same: these are known from then on. Optional
are `start`, the position of the first token counted from the end of the prompt (otherwise the first
that is not yet known), and of the first pass of a request `prompt_tokens`, `kind` of the prompt and
`model`. Yields level 1: a step per pass, with the guesses it began from. It cannot know what windows
of another length would have guessed.

Reference: Santilli et al., arXiv 2305.10427, algorithm 2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from traces.importers.files import expect_list, expect_name, expect_whole, json_lines, read_text
from traces.importers.recognition import Format, Sample
from traces.importers.steps import Steps, stepped
from traces.kinds.acceptance import AcceptanceTrace, Provenance

_KEYS = ("request", "tokens", "same")


@dataclass(kw_only=True, slots=True)
class _Request:
    """A request while its passes are read.

    Attributes:
        kind: of its prompt.
        prompt_tokens: as printed; 0: not.
        known: tokens of its text that are settled.
        start: position of the first token of the latest pass.
        tokens: of the latest pass.
        emitted: tokens that each pass settled.
        drafted: guesses that each pass could settle.
        idle: passes that settled nothing.
    """

    kind: str
    prompt_tokens: int
    known: int = 0
    start: int = 0
    tokens: Sequence[int] = ()
    emitted: list[int] = field(default_factory=list)
    drafted: list[int] = field(default_factory=list)
    idle: int = 0


def read(path: str | Path) -> AcceptanceTrace:
    """Read the passes of a Jacobi decoder.

    Args:
        path: JSON lines.

    Returns:
        A trace of level 1. A pass that settles nothing, as the one that finds a block unchanged, is
        no step; its notes say how many there were.

    Raises:
        InputError: a line that is not as described, a window that leaves a gap behind what is
            known, or flags that contradict the tokens of the pass before.
    """
    file, models = str(path), set()
    requests: dict[str, _Request] = {}
    for name, row in json_lines(read_text(path), file):
        if missing := next((key for key in _KEYS if key not in row), None):
            raise InputError("must stand in every pass", file=file, key=f"{name}, {missing}")
        request = expect_name(row["request"], file, f"{name}, request")
        if request not in requests:
            requests[request] = _Request(
                kind=expect_name(row.get("kind", ""), file, f"{name}, kind"),
                prompt_tokens=expect_whole(row.get("prompt_tokens", 0), file, f"{name}, prompt"),
            )
        models.add(expect_name(row.get("model", ""), file, f"{name}, model"))
        _settle(requests[request], row, file, name)
    passes = sum(len(one.emitted) + one.idle for one in requests.values())
    tokens, idle = (
        sum(sum(one.emitted) for one in requests.values()),
        sum(one.idle for one in requests.values()),
    )
    notes = "Passes of Jacobi decoding as a loop printed them."
    if idle:
        notes += (
            f" {idle} of {passes} passes settled nothing and are no steps: with them it is"
            f" {tokens / passes:.4g} tokens per pass."
        )
    return stepped(
        [
            Steps(
                request=request,
                kind=one.kind,
                prompt_tokens=one.prompt_tokens,
                emitted=one.emitted,
                drafted=one.drafted,
            )
            for request, one in requests.items()
        ],
        file,
        Provenance(
            model=", ".join(sorted(models - {""}))[:300],
            method="jacobi-decoding",
            recorder_version="jacobi-passes",
            notes=notes,
        ),
    )


def _settle(one: _Request, row: Mapping[str, Any], file: str, name: str) -> None:
    """Note what a pass of a request settles."""
    tokens = [
        expect_whole(token, file, f"{name}, tokens")
        for token in expect_list(row["tokens"], file, f"{name}, tokens")
    ]
    same = expect_list(row["same"], file, f"{name}, same")
    if not tokens or len(same) not in (len(tokens), len(tokens) - 1):
        rule = f"must have a flag for each of {len(tokens)} tokens, or for all but the last"
        raise InputError(rule, file=file, key=f"{name}, same", value=len(same))
    if any(type(flag) is not bool for flag in same):
        raise InputError("must be true or false", file=file, key=f"{name}, same")
    start = expect_whole(row.get("start", one.known), file, f"{name}, start")
    if start > one.known:
        rule = f"must be at most {one.known}, the first position that is not known"
        raise InputError(rule, file=file, key=f"{name}, start", value=start)
    for at, (token, flag) in enumerate(zip(tokens, same, strict=False), start=start - one.start):
        if 0 <= at < len(one.tokens) and (one.tokens[at] == token) != flag:
            rule = f"must be {str(not flag).lower()}: the pass before left {one.tokens[at]} there"
            raise InputError(rule, file=file, key=f"{name}, same", value=flag)
    right = min(1 + len(list(takewhile(bool, same))), len(tokens))
    settled = start + right - one.known
    if settled > 0:
        one.emitted.append(settled)
        one.drafted.append(start + len(tokens) - one.known - 1)
        one.known += settled
    else:
        one.idle += 1
    one.start, one.tokens = start, tokens


def _claims(sample: Sample) -> bool:
    return sample.holds(*_KEYS)


FORMATS = (Format(name="jacobi-passes", claims=_claims, read=read),)
