"""How often is the draft of a step ready because the outcome of the step before was foreseen?

While a draft is verified, drafts are made for several of its outcomes: accepted lengths, and the
target's token behind each. A recording with ranks tells which outcome came about and where its
token stood among the drafter's candidates. Leaves out seconds, and outcomes under independent
acceptance (`costmodel.laws.batching`).

Reference: Kumar, Dao, May 2026, "Speculative Speculative Decoding" (arXiv:2603.03251).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.walk import Replay, check_chain

Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class OutcomeReplay:
    """What was counted.

    Attributes:
        replay: per request, as of chains; a step without a draft has none.
        ready_steps: of its steps, those whose draft was made while the one before was verified;
            int64[r].
    """

    replay: Replay
    ready_steps: NDArray[np.int64]

    @property
    def foreseen_ratio(self) -> float:
        """Share of all steps whose draft was ready."""
        return float(self.ready_steps.sum() / self.replay.steps.sum())


def foreseen_tokens(trace: AcceptanceTrace, fan_out: int) -> tuple[Flags, Flags]:
    """Whether the token of every position is among the drafter's likeliest, and whether it is where
    the likeliest is left out.

    A drafter whose candidates depend on the depth is taken as if it had read everything before, as
    branches are.

    Args:
        trace: level 2.
        fan_out: tokens that are drafted behind, fewer than the ranks that were recorded.

    Raises:
        InputError: no ranks, or fewer.
    """
    require_guesses(trace, fan_out)
    assert trace.rank is not None
    first = trace.rank if trace.depth is None else trace.rank[:, 0]
    return (first >= 0) & (first < fan_out), (first >= 1) & (first <= fan_out)


def require_guesses(trace: AcceptanceTrace, fan_out: int) -> None:
    """Insist on a recording with as many of the drafter's likeliest tokens as are drafted behind.

    Raises:
        InputError: no ranks, or fewer.
    """
    trace.require(2, "drafting for several outcomes")
    if not 1 <= fan_out < trace.rank_width:
        rule = (
            f"must lie in 1..{trace.rank_width - 1}: the recording holds the likeliest tokens, of"
            " which one was drafted"
        )
        raise InputError(rule, file=trace.file, key="fan_out", value=fan_out)


def replay_outcomes(
    trace: AcceptanceTrace, draft_tokens: int, fan_out: int, *, waits: bool
) -> OutcomeReplay:
    """Decode the recorded text again with chains of K tokens that are drafted for outcomes.

    Example:
        >>> trace = AcceptanceTrace(
        ...     offsets=np.array([0, 4]), emitted=np.array([1, 3, 2, 1]), rank=np.array([1, 0, 0, 0]),
        ...     rank_width=2, depth_invariant=True)
        >>> replay_outcomes(trace, 1, 1, waits=True).ready_steps
        array([2])

    Args:
        trace: level 2.
        draft_tokens: K >= 1.
        fan_out: tokens that are drafted behind at every accepted length.
        waits: a step whose outcome was not foreseen waits for its draft; otherwise it has none, as
            has the first step of a text.

    Raises:
        InputError: no ranks, or fewer than `fan_out` asks for.
    """
    count = check_chain(trace, draft_tokens)
    behind, instead = foreseen_tokens(trace, fan_out)
    assert trace.emitted is not None
    limits = np.full(trace.positions, count, np.int64)
    if trace.drafted is not None:
        limits = np.minimum(limits, trace.drafted)
    kept, most = trace.emitted.tolist(), limits.tolist()
    whole, other = behind.tolist(), instead.tolist()
    totals = np.zeros((4, trace.requests), np.int64)
    for request, end in enumerate(trace.offsets[1:].tolist()):
        at, ready = int(trace.offsets[request]) + trace.first_step_position, False
        while at < end:
            drafts = most[at] if ready or waits else 0
            emitted = min(kept[at], drafts + 1, end - at)
            totals[:, request] += 1, drafts > 0, drafts, ready
            decided = at + emitted - 1
            foreseen = whole if emitted == drafts + 1 else other
            ready = decided + 1 < end and most[decided] > 0 and foreseen[decided]
            at += emitted
    return OutcomeReplay(
        replay=Replay(
            draft_tokens=count,
            tokens=np.maximum(trace.output_tokens - trace.first_step_position, 0),
            steps=totals[0],
            proposed_steps=totals[1],
            drafted_tokens=totals[2],
        ),
        ready_steps=totals[3],
    )
