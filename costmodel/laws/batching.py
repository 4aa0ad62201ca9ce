"""How do draft and verify passes share time, and how many tokens does a step emit on average?

`Batch` of a published system says what happens while the target verifies; here stand the seconds in
which both phases run, and the long-run means of a request under independent acceptance in closed
form. The simulator plays the same rules request by request (`simulator.loop.decoders.drafting`,
`simulator.loop.passes`). Leaves out what a pass costs and how requests differ.

Reference: Liu et al. 2025, "PEARL" (arXiv:2408.11850), section 4; Shen et al. 2025, "SpecBranch"
(arXiv:2506.01979); Kumar, Dao, May 2026, "Speculative Speculative Decoding" (arXiv:2603.03251), for
drafts of several outcomes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.method import Batch
from costmodel.passes.ops import Array
from hardware_profiles.errors import InputError

MOST_BRANCHES = 64
OUTCOME_PASSES = 1
"""Draft passes on top of those of a chain where drafts are made for outcomes: the first one reads
the draft whose outcomes they are."""
MOST_PARTS = 64
SERIAL = Batch()


def check_batch(batch: Batch) -> None:
    """Refuse what does not go together.

    Args:
        batch: how requests share steps.

    Raises:
        InputError: a number out of range, or branches without drafting during verification.
    """
    if not 0 <= batch.branches <= MOST_BRANCHES:
        raise InputError(f"must lie in 0..{MOST_BRANCHES}", key="branches", value=batch.branches)
    if batch.branches and not batch.drafts_during_verify:
        rule = "only drafts that are made during verification can branch"
        raise InputError(rule, key="branches", value=batch.branches)
    _check_outcomes(batch)
    if not 1 <= batch.parts <= MOST_PARTS:
        raise InputError(f"must lie in 1..{MOST_PARTS}", key="parts", value=batch.parts)
    for name in ("interference_ratio", "branch_at"):
        if not 0.0 <= getattr(batch, name) <= 1.0:
            raise InputError("must lie in [0, 1]", key=name, value=getattr(batch, name))
    if batch.slots not in ("alike", "likeliest", "by_request"):
        raise InputError(
            "must be one of alike, likeliest, by_request", key="slots", value=batch.slots
        )
    if batch.budget_per_request is not None and not 0.0 <= batch.budget_per_request < np.inf:
        raise InputError(
            "must be finite and >= 0", key="budget_per_request", value=batch.budget_per_request
        )
    if batch.ragged not in ("split", "pad", "regroup"):
        raise InputError("must be one of split, pad, regroup", key="ragged", value=batch.ragged)
    if batch.parts > 1 and batch.ragged != "split":
        raise InputError(
            "drafts that are verified in parts are not padded", key="ragged", value=batch.ragged
        )


def _check_outcomes(batch: Batch) -> None:
    """Refuse drafts for outcomes that do not go with the rest."""
    if not 0 <= batch.fan_out <= MOST_BRANCHES:
        raise InputError(f"must lie in 0..{MOST_BRANCHES}", key="fan_out", value=batch.fan_out)
    if batch.fan_out and (not batch.drafts_during_verify or batch.branches or batch.parts > 1):
        rule = "goes with drafting during verification, in one part and without branches"
        raise InputError(rule, key="fan_out", value=batch.fan_out)
    if batch.on_miss not in ("plain", "wait"):
        raise InputError("must be plain or wait", key="on_miss", value=batch.on_miss)
    if batch.on_miss == "wait" and not batch.fan_out:
        raise InputError("is of outcomes: needs fan_out", key="on_miss", value=batch.on_miss)


class LongRun(NamedTuple):
    """Means over the steps of a request.

    Args:
        tokens_per_step: emitted.
        verified_per_step: draft tokens that the target verifies.
        wasted_per_step: draft tokens that come to nothing.
        unselected_per_step: of those, tokens of branches beside the one draft that could have
            stayed. The others were rejected or rolled back.
        query_tokens: of the parts of a step in turn, as means over all requests; those that left
            count as none.
        foreseen_ratio: share of steps whose outcome has its next draft ready, where outcomes are
            drafted for; 1 elsewhere.
    """

    tokens_per_step: float
    verified_per_step: float
    wasted_per_step: float
    unselected_per_step: float
    query_tokens: tuple[float, ...]
    foreseen_ratio: float = 1.0


def concurrent_drafts(batch: Batch, verified: Array | float) -> Array | float:
    """Drafts that are made while one of so many tokens is verified.

    Args:
        batch: how requests share steps; its drafts branch always.
        verified: draft tokens that are verified meanwhile.
    """
    if batch.fan_out:
        return (verified + 1.0) * batch.fan_out
    return float(max(batch.branches, 1))


def foreseen(acceptance: float, guesses: int) -> float:
    """Probability that the target's token is among a drafter's likeliest, tried in turn as siblings
    of a tree are (`costmodel.laws.acceptance.siblings`): what is missed falls as a power of their
    number, as the paper on outcomes finds.

    >>> round(foreseen(0.7, 1), 3), round(foreseen(0.7, 4), 3)
    (0.7, 0.877)

    Args:
        acceptance: of the likeliest.
        guesses: number of tokens, >= 1.
    """
    return 1.0 - math.prod(1.0 - acceptance / rank for rank in range(1, guesses + 1))


def hidden_s(batch: Batch, draft_s: Array, verify_s: Array) -> Array:
    """Seconds of the draft and verify passes of a step during which both run.

    Drafting goes on evenly over the step. With several parts, each part is verified while the next
    one is drafted; with drafting during verification the next step's draft is made meanwhile, too.

    Args:
        batch: how phases go together.
        draft_s: of all draft passes of the step.
        verify_s: of all parts of its verification, which take equally long.

    Reference: Liu et al. 2024, "PEARL" (arXiv:2408.11850), section 4: a step takes the longer of
    the two phases.
    """
    if not batch.drafts_during_verify and batch.parts == 1:
        return np.zeros(())
    both = np.minimum(draft_s, verify_s) * (1.0 - batch.interference_ratio)
    overlapping = 1.0 if batch.drafts_during_verify else (batch.parts - 1) / batch.parts
    return np.asarray(both * overlapping)


def long_run(
    batch: Batch,
    draft_tokens: int,
    acceptance: float,
    covered: float | None = None,
    *,
    recovered: float | None = None,
) -> LongRun:
    """Means of a step whose draft tokens all have one acceptance probability, given that those
    before were accepted.

    Where drafting waits for verification every step verifies K tokens. Otherwise a request has
    nothing, K - 1 or K tokens pending: with nothing, the target decides one token while K are
    drafted, and where that token was foreseen K - 1 are pending. A wholly accepted draft leaves K
    pending (0 branches), or K - 1 where the target's token behind it was foreseen. Anything else
    leaves nothing. The shares of the three states are the fixed point of these moves.

    Args:
        batch: how requests share steps; its drafts branch always.
        draft_tokens: K >= 1.
        acceptance: p in [0, 1].
        covered: probability that one of the branches begins with the target's token; None: p, as
            with one branch. With outcomes, that of the token behind a whole draft; None: by
            `foreseen`.
        recovered: with outcomes, probability that the target's token is foreseen in the place of
            one that it rejected; None: by `foreseen`.
    """
    if batch.fan_out:
        return _outcomes(batch, draft_tokens, acceptance, covered, recovered)
    k, p = draft_tokens, acceptance
    if not batch.drafts_during_verify:
        parts = min(batch.parts, k)
        edges = [part * k // parts for part in range(parts + 1)]
        reached = [p**first if batch.prunes else 1.0 for first in edges[:-1]]
        queries = [
            share * (end - first)
            for share, first, end in zip(reached, edges[:-1], edges[1:], strict=True)
        ]
        queries[0] += 1.0
        return LongRun(1.0 + _accepted(p, k), float(k), k - _accepted(p, k), 0.0, tuple(queries))
    foreseen = p if covered is None or not batch.branches else covered
    pending = [0, k - 1, k]
    moves = np.zeros((3, 3))
    moves[0, 1], moves[0, 0] = foreseen, 1.0 - foreseen
    for state in (1, 2):
        whole = p ** pending[state]
        moves[state, 0] = 1.0 - whole
        if batch.branches:
            moves[state, 1], moves[state, 0] = whole * foreseen, 1.0 - whole * foreseen
        else:
            moves[state, 2] = whole
    if k == 1:
        moves[:] = [
            [1.0, 0.0, 0.0]
        ] * 3  # the only token is the one that the target decides meanwhile
    share = _stationary(moves)
    verified = float(share @ pending)
    bonus = 1.0 if batch.branches else 0.0
    tokens, accepted = share[0], share[0] * foreseen
    for state in (1, 2):
        m = pending[state]
        tokens += share[state] * (_accepted(p, m) + 1.0 - p**m + bonus * p**m)
        accepted += share[state] * (_accepted(p, m) + bonus * p**m * foreseen)
    drafts = max(batch.branches, 1)
    return LongRun(
        float(tokens),
        verified,
        float(drafts * k - accepted),
        float((drafts - 1) * k),
        (1.0 + verified,),
    )


def _outcomes(
    batch: Batch, k: int, p: float, covered: float | None, recovered: float | None
) -> LongRun:
    """The long run of drafts that are made for several outcomes of a verification.

    A verified draft has one of K + 1 accepted lengths, and is followed by the target's token; a
    step without a draft is followed by that token alone. Where steps wait for their drafts all of
    them verify K tokens.
    """
    behind = foreseen(p, batch.fan_out) if covered is None else covered
    if recovered is None:
        others = foreseen(p, batch.fan_out + 1) - p
        recovered = others / (1.0 - p) if p < 1.0 else 1.0
    whole = p**k
    hit = (1.0 - whole) * recovered + whole * behind
    # of steps that do not wait, the share that follows on a foreseen outcome
    drafting = behind / (1.0 - hit + behind) if behind > 0.0 else 0.0
    ready = hit if batch.on_miss == "wait" else drafting
    verifying = 1.0 if batch.on_miss == "wait" else drafting
    verified, accepted = verifying * k, verifying * _accepted(p, k)
    unselected = (float(concurrent_drafts(batch, verified)) - 1.0) * k
    return LongRun(
        tokens_per_step=1.0 + accepted,
        verified_per_step=verified,
        wasted_per_step=verified - accepted + (1.0 - ready) * k + unselected,
        unselected_per_step=unselected,
        query_tokens=(1.0 + verified,),
        foreseen_ratio=ready,
    )


def _accepted(p: float, tokens: int) -> float:
    """Mean number of leading tokens that are accepted."""
    return float(sum(p**depth for depth in range(1, tokens + 1)))


def _stationary(moves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Long-run shares of the states; from any state the same ones are reached."""
    equations = np.vstack([moves.T - np.eye(3), np.ones(3)])
    return np.asarray(
        np.clip(np.linalg.lstsq(equations, np.array([0.0, 0.0, 0.0, 1.0]), rcond=None)[0], 0.0, 1.0)
    )
