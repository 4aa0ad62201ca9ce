"""Which steps did one answer take, as its events and the engine's own counts tell?

llama.cpp sends an event per token with running counts of drafts: a step begins where they move.
vLLM and SGLang send an event per step, unless their stream interval or a client that lags behind
gathers several: what the engine counted of the request says whether it did. Where steps cannot be
told apart, the answer is refused rather than guessed at. Leaves out counters of the whole server
(`real_runs.servers.stepped_load`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from hardware_profiles.errors import InputError
from real_runs.servers.engines import Kind
from real_runs.servers.events import Mark
from traces.importers.records import Record, is_record, record_of
from traces.kinds.summary import MOST_DRAFT_LEVELS

"""Engines whose events tell steps apart."""

_MOST_TOKENS = 1 << 20
SEVERAL_STEPS = "events hold several steps"
OTHER_STEPS = "events hold other steps than the engine counted of the request"


class UnclearStepsError(InputError):
    """An answer whose steps cannot be told apart, or contradict what its engine counted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestSteps:
    """The steps of one answer after its first token, which the prompt's pass emits.

    Attributes:
        emitted: tokens of every step; the last one's end with the answer.
        drafted: tokens that every step proposed; None where the engine does not say of each.
        proposals: steps with a proposal; None where that is not certain.
        draft_tokens: proposed in all, as the engine counts; None where it does not.
        accepted_tokens: of those, accepted, those behind the end of the answer among them.
        is_checked: whether the engine counted this request, and its counts agree.
    """

    emitted: tuple[int, ...]
    drafted: tuple[int, ...] | None = None
    proposals: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    is_checked: bool = False


def request_steps(
    kind: Kind,
    marks: Sequence[Mark],
    speculation: Mapping[str, Any] | None,
    output_tokens: int,
) -> RequestSteps:
    """The steps of one answer.

    Args:
        kind: the engine.
        marks: of the answer's events, in their order.
        speculation: the engine's own counts of the request; None: it states none.
        output_tokens: of the answer, as the server counts.

    Raises:
        UnclearStepsError: they cannot be told apart, or contradict the engine's counts.
    """
    if not marks:
        raise UnclearStepsError("events do not say how many tokens they hold")
    if marks[-1].tokens != output_tokens:
        raise UnclearStepsError("events hold another number of tokens than the answer")
    if not 1 <= output_tokens <= _MOST_TOKENS:
        raise UnclearStepsError(f"the answer has no token, or more than {_MOST_TOKENS}")
    steps = (
        _from_running_counts(marks)
        if kind == "llama.cpp"
        else _from_events(kind, marks, _record(kind, speculation))
    )
    if max((*steps.emitted, *(steps.drafted or ())), default=0) > MOST_DRAFT_LEVELS:
        raise UnclearStepsError(f"a step has more than {MOST_DRAFT_LEVELS} tokens")
    return steps


def _record(kind: Kind, speculation: Mapping[str, Any] | None) -> Record | None:
    """What the engine counted of the request; None where it states nothing.

    Raises:
        UnclearStepsError: it states what are no counts.
    """
    if speculation is None or not is_record(speculation):
        return None
    try:
        return record_of(speculation, kind, "speculation")
    except InputError as error:
        raise UnclearStepsError(f"the engine's counts are none: {error.message}") from None


def _from_running_counts(marks: Sequence[Mark]) -> RequestSteps:
    """A step begins where the counts of drafts move, or where no draft was under way.

    Newer servers count a token when they send it, older ones all of a step's tokens at its first
    event; no event is sent for a token that ends inside a character.
    """
    is_by_step = any(after.tokens == before.tokens for before, after in pairwise(marks[:-1]))
    emitted: list[int] = []
    drafted: list[int] = []
    left = 0  # tokens of the latest step that have not arrived
    has_unseen = False  # steps of which it is not certain which had a draft
    before = Mark(tokens=1, drafted=0, accepted=0)
    for mark in marks:
        tokens = mark.tokens - before.tokens
        proposed = (mark.drafted or 0) - (before.drafted or 0)
        accepted = (mark.accepted or 0) - (before.accepted or 0)
        begun = tokens - left  # tokens of steps that began since the mark before
        if not 0 <= accepted <= proposed or tokens < 0 or (begun <= 0 and proposed):
            raise UnclearStepsError("counts of drafts contradict the tokens that arrived")
        if begun <= 0:
            left -= tokens
        elif begun == (1 + accepted if is_by_step else 1):
            emitted.append(1 + accepted)
            drafted.append(proposed)
            left = 1 + accepted - begun
        elif (unseen := _unseen(begun, proposed, accepted, max(drafted, default=0))) is not None:
            emitted += [1] * begun
            drafted += unseen
            left = 0
            has_unseen = has_unseen or proposed > 0
        else:
            raise UnclearStepsError("tokens that end inside a character hide where a step began")
        before = mark
    if left:  # the answer ended inside its last step
        emitted[-1] -= left
    return RequestSteps(
        emitted=tuple(emitted),
        drafted=tuple(drafted),
        proposals=None if has_unseen else sum(tokens > 0 for tokens in drafted),
        draft_tokens=before.drafted or 0,
        accepted_tokens=before.accepted or 0,
        is_checked=True,
    )


def _unseen(steps: int, proposed: int, accepted: int, longest: int) -> list[int] | None:
    """Drafts of steps that no event tells apart and that kept none of them: full drafts first, then
    none; None where steps kept some, or full drafts do not add up.
    """
    full = proposed // longest if longest else 0
    if accepted or full > steps or full * longest != proposed:
        return None
    return [longest] * full + [0] * (steps - full)


def _from_events(kind: Kind, marks: Sequence[Mark], record: Record | None) -> RequestSteps:
    """Every event is a step, where the engine's own counts of the request do not say otherwise."""
    ends = [0, *(mark.tokens for mark in marks)]
    if any(after < before for before, after in pairwise(ends)):
        raise UnclearStepsError("counts of tokens fall from one event to the next")
    held = [after - before for before, after in pairwise(ends) if after > before]
    first, emitted = held[0], tuple(held[1:])
    if record is None:
        if first > 1:
            raise UnclearStepsError(SEVERAL_STEPS)
        return RequestSteps(emitted=emitted)
    if first > 1 or not _agree(emitted, record, kind):
        if (listed := _listed(record, ends[1:])) is None:
            raise UnclearStepsError(OTHER_STEPS)
        emitted = listed
    drafted = record.per_step[1] if record.per_step is not None else None
    return RequestSteps(
        emitted=emitted,
        drafted=tuple(drafted) if drafted is not None and len(drafted) == len(emitted) else None,
        proposals=record.steps,
        draft_tokens=record.drafted,
        accepted_tokens=record.accepted,
        is_checked=True,
    )


def _listed(record: Record, ends: Sequence[int]) -> tuple[int, ...] | None:
    """The steps as the engine lists them, where they are all of them: it lists none without a
    draft.

    Args:
        record: of the request.
        ends: tokens of the answer after every event, each of which ends where a step does.
    """
    emitted = [] if record.per_step is None else [1 + count for count in record.per_step[0]]
    behind_end = sum(emitted) - (ends[-1] - 1)
    if not emitted or not 0 <= behind_end < emitted[-1]:
        return None
    emitted[-1] -= behind_end
    return tuple(emitted) if set(ends) <= set(accumulate(emitted, initial=1)) else None


def _agree(emitted: Sequence[int], record: Record, kind: Kind) -> bool:
    """Whether as many steps kept as many draft tokens as the engine counted.

    The last step may have kept more than the answer holds. vLLM leaves steps without a draft out of
    its counts: one of them that was gathered into the next event can pass for a draft token that
    such a last step kept. SGLang drafts in every step.
    """
    missing = len(emitted) - record.steps
    if missing < 0 or (kind == "sglang" and missing):
        return False
    return _in_listed_order(emitted, record) and _fill_histogram(emitted, record)


def _in_listed_order(emitted: Sequence[int], record: Record) -> bool:
    """Whether the steps that kept draft tokens are those that the engine lists, where it does."""
    if record.per_step is None:
        return True
    listed = [kept for kept in record.per_step[0] if kept]
    before_last = [tokens - 1 for tokens in emitted[:-1] if tokens > 1]
    return listed[: len(before_last)] == before_last and len(listed) <= len(before_last) + 1


def _fill_histogram(emitted: Sequence[int], record: Record) -> bool:
    """Whether the steps make the engine's histogram of kept draft tokens, where it has one."""
    if record.histogram is None or not emitted:
        return record.histogram is None or not record.histogram.any()
    size = max(record.histogram.size, *emitted)
    counted = np.zeros(size, dtype=np.int64)
    counted[: record.histogram.size] = record.histogram
    # what the engine counted beyond the steps before the last one, by kept draft tokens
    beyond = counted - np.bincount(np.asarray(emitted[:-1], dtype=np.int64) - 1, minlength=size)
    if (beyond[1:] < 0).any() or beyond[1:].sum() > 1:
        return False
    kept = np.flatnonzero(beyond[1:]) + 1
    if kept.size:
        return bool(kept[0] >= emitted[-1] - 1 and beyond[0] <= 0)
    return emitted[-1] == 1 and bool(beyond[0] <= 1)
