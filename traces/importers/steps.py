"""How do recorded steps become a trace of level 1?

A step that emitted L tokens at a position tells what steps that start there emit. A step that would
start inside it is taken to emit what was left of it, so a walk with the draft length in use plays
exactly the recorded steps, and shorter drafts are a lower bound. Leaves out where the steps come
from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace, Provenance
from traces.kinds.naming import naming
from traces.kinds.summary import Summary

_MOST_TOKENS = int(np.iinfo(np.int16).max)
_LOWER_BOUND = (
    "Level 1 from recorded steps: lengths only, so chains but no trees. A step that starts inside a"
    " recorded one is taken to emit what was left of it: shorter drafts than those in use are a"
    " lower bound."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """The steps of one request.

    Attributes:
        request: its name.
        kind: its kind of prompt.
        emitted: tokens of every step, bonus included; steps without any are left out.
        drafted: tokens that every step drafted; None: not recorded.
        prompt_tokens: of its prompt, 0 where unknown.
    """

    request: str
    emitted: Sequence[int]
    kind: str = ""
    drafted: Sequence[int] | None = None
    prompt_tokens: int = 0


def stepped(
    requests: Sequence[Steps], file: str, provenance: Provenance, *, first_step_position: int = 0
) -> AcceptanceTrace:
    """A trace of level 1, with the counts of its steps as its summary.

    Args:
        requests: at least one with a step.
        file: name for messages.
        provenance: where it comes from; what such a trace cannot know is put before its notes.
        first_step_position: tokens of every request before its first step, which are no step's.

    Raises:
        InputError: no step, a length beyond 32767, or more accepted than drafted.
    """
    lengths = [_checked(request.emitted, file, request.request) for request in requests]
    has_drafted = all(request.drafted is not None for request in requests)
    drafted = (
        [_checked(request.drafted or (), file, request.request) for request in requests]
        if has_drafted
        else None
    )
    if drafted is not None and any(a.size != b.size for a, b in zip(lengths, drafted, strict=True)):
        raise InputError("must list as many drafted lengths as steps", file=file, key="drafted")
    if drafted is not None:
        drafted = [drafts[tokens > 0] for drafts, tokens in zip(drafted, lengths, strict=True)]
    idle = sum(int((tokens == 0).sum()) for tokens in lengths)
    lengths = [tokens[tokens > 0] for tokens in lengths]
    steps = np.concatenate(lengths) if lengths else np.zeros(0, np.int64)
    if not steps.size:
        raise InputError("must hold at least one step that emitted a token", file=file)
    drafts = None if drafted is None else np.concatenate(drafted)
    opening = [1] * first_step_position
    laid = np.concatenate([np.append(opening, tokens) for tokens in lengths]).astype(np.int64)
    notes = [_LOWER_BOUND, provenance.notes]
    if idle:
        notes.append(f"{idle} steps that emitted nothing were left out.")
    if drafts is None and int(steps.max()) == 1:
        notes.append("No step accepted a draft token: plain decoding.")
    with naming(file):
        return AcceptanceTrace(
            provenance=replace(
                provenance,
                notes=" ".join(note for note in notes if note),
                extra={
                    **provenance.extra,
                    "longest_draft_tokens": int((steps - 1 if drafts is None else drafts).max()),
                },
            ),
            request_ids=tuple(request.request for request in requests),
            prompt_kinds=tuple(request.kind for request in requests),
            prompt_tokens=np.asarray(
                [request.prompt_tokens for request in requests], dtype=np.int32
            ),
            offsets=np.cumsum(
                [0, *(first_step_position + int(tokens.sum()) for tokens in lengths)],
                dtype=np.int64,
            ),
            first_step_position=first_step_position,
            emitted=_left(laid, laid),
            drafted=(
                None
                if drafted is None
                else np.maximum(
                    _left(
                        np.concatenate(
                            [np.append(np.zeros_like(opening), own) for own in drafted]
                        ).astype(np.int64),
                        laid,
                    ),
                    _left(laid, laid) - 1,
                )
            ),
            summary=_summary(steps, drafts),
            file=file,
        )


def _checked(values: Sequence[int], file: str, request: str) -> NDArray[np.int64]:
    for index, value in enumerate(values):
        if type(value) is not int or not 0 <= value <= _MOST_TOKENS:
            rule = f"must be whole numbers in 0..{_MOST_TOKENS}"
            raise InputError(rule, file=file, key=f"{request}, step {index}", value=value)
    return np.asarray(values, dtype=np.int64)


def _left(values: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[np.int16]:
    """What is left of every step's value at each of its positions."""
    within = np.arange(int(steps.sum())) - np.repeat(np.cumsum(steps) - steps, steps)
    left: NDArray[np.int16] = np.maximum(np.repeat(values, steps) - within, 0).astype(np.int16)
    return left


def _summary(steps: NDArray[np.int64], drafted: NDArray[np.int64] | None) -> Summary:
    """Counts of the steps with a proposal, of all where that is not recorded."""
    if drafted is not None and drafted.any():
        steps, drafted = steps[drafted > 0], drafted[drafted > 0]
    reached = (
        [float((steps > depth).mean()) for depth in range(1, int(steps.max()))]
        if steps.max() <= 1024
        else []
    )
    return Summary(
        acceptance_by_depth=tuple(reached),
        drafts=int(steps.size),
        draft_tokens=0 if drafted is None else int(drafted.sum()),
        accepted_tokens=int((steps - 1).sum()),
    )
