"""How do draft and verify passes share time, and how many tokens does a step emit on average?

`Batch` of a published system says what happens while the target verifies; here stand the seconds in
which both phases run, and the long-run means of a request under independent acceptance in closed
form. The simulator plays the same rules request by request (`simulator.loop.decoders.drafting`,
`simulator.loop.passes`). Leaves out what a pass costs and how requests differ.

Reference: Liu et al. 2025, "PEARL" (arXiv:2408.11850), section 4; Shen et al. 2025, "SpecBranch"
(arXiv:2506.01979).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.method import Batch
from costmodel.passes.ops import Array
from hardware_profiles.errors import InputError

MOST_BRANCHES = 64
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
    """

    tokens_per_step: float
    verified_per_step: float
    wasted_per_step: float
    unselected_per_step: float
    query_tokens: tuple[float, ...]


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
    batch: Batch, draft_tokens: int, acceptance: float, covered: float | None = None
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
            with one branch.
    """
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


def _accepted(p: float, tokens: int) -> float:
    """Mean number of leading tokens that are accepted."""
    return float(sum(p**depth for depth in range(1, tokens + 1)))


def _stationary(moves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Long-run shares of the states; from any state the same ones are reached."""
    equations = np.vstack([moves.T - np.eye(3), np.ones(3)])
    return np.asarray(
        np.clip(np.linalg.lstsq(equations, np.array([0.0, 0.0, 0.0, 1.0]), rcond=None)[0], 0.0, 1.0)
    )
