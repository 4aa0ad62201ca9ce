"""How do draft and verify passes share time, and what does a step bring on average?

A published system is one `Overlap`: data that the scheduler, the walk and the timing of iterations read. Beside them
stands the long-run mean of a request under independent acceptance, in closed form. Leaves out what a pass costs and how
requests differ (`simulator.iteration`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError

MOST_BRANCHES = 64
MOST_PARTS = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Overlap:
    """What happens while the target verifies.

    Args:
        name: of the published system.
        ahead: the next step's draft is made meanwhile, in the hope that this one's is kept; False: a draft is made and
            verified within one step.
        branches: drafts made at once, one behind each of the drafter's likeliest tokens for the place that only the
            target can decide; the one behind the target's token goes on, the others are thrown away. 0: one draft,
            behind the drafter's own token: it survives a wholly kept draft, but the target's token there goes unused.
        parts: passes in which a draft is verified, each as soon as its tokens are there.
        prunes: the later parts leave out requests of which a token was rejected.
        interference_ratio: share of the shorter of two concurrent phases that comes on top of the longer one: 0 on
            devices of their own, 1 where running side by side gains nothing.

    Raises:
        InputError: a number out of range, or branches without drafting ahead.
    """

    name: str
    ahead: bool = False
    branches: int = 0
    parts: int = 1
    prunes: bool = False
    interference_ratio: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.branches <= MOST_BRANCHES:
            raise InputError(f"must lie in 0..{MOST_BRANCHES}", key="branches", value=self.branches)
        if self.branches and not self.ahead:
            raise InputError("only drafts that are made ahead can branch", key="branches", value=self.branches)
        if not 1 <= self.parts <= MOST_PARTS:
            raise InputError(f"must lie in 1..{MOST_PARTS}", key="parts", value=self.parts)
        if not 0.0 <= self.interference_ratio <= 1.0:
            raise InputError("must lie in [0, 1]", key="interference_ratio", value=self.interference_ratio)


# PEARL: Liu et al. 2025 (arXiv:2408.11850), section 4. SpecBranch: Shen et al. 2025 (arXiv:2506.01979); its number of
# branches varies there, and where drafts end is learned: here they end where the drafter is unsure, if the recording
# tells. FASER: Chen et al. 2026 (arXiv:2604.20503), as far as its abstract goes: chunks of the verify pass beside
# drafting on the same device, requests pruned once rejected, draft lengths by request (the `ema` controller).
OVERLAPS: Mapping[str, Overlap] = {
    overlap.name: overlap
    for overlap in (
        Overlap(name="pearl", ahead=True),
        Overlap(name="specbranch", ahead=True, branches=2),
        Overlap(name="faser", parts=2, prunes=True),
    )
}


class LongRun(NamedTuple):
    """Means over the steps of a request.

    Args:
        tokens_per_step: emitted.
        verified_per_step: draft tokens that the target verifies.
        wasted_per_step: draft tokens that come to nothing.
        query_tokens: of the parts of a step in turn, as means over all requests; those that left count as none.
    """

    tokens_per_step: float
    verified_per_step: float
    wasted_per_step: float
    query_tokens: tuple[float, ...]


def side_by_side_s(one_s: float, other_s: float, interference_ratio: float = 0.0, *, after_s: float = 0.0) -> float:
    """Seconds until two phases end that run at once, after what came before them."""
    return after_s + max(one_s, other_s) + interference_ratio * min(one_s, other_s)


def step_s(overlap: Overlap | None, draft_s: float, verify_s: Sequence[float]) -> float:
    """Seconds of a step: draft passes, and the parts of its verification in turn.

    Drafting goes on evenly over the step. Each part waits for its tokens, and the parts run one after the other.

    Args:
        overlap: how they share time; None: one after the other.
        draft_s: of all draft passes of the step.
        verify_s: of every part; one at least.
    """
    x = overlap.interference_ratio if overlap is not None else 0.0
    each = draft_s / len(verify_s)
    ahead = overlap is not None and overlap.ahead
    total = 0.0 if ahead else each
    for part_s in verify_s[:-1]:
        total = side_by_side_s(each, part_s, x, after_s=total)
    return side_by_side_s(each, verify_s[-1], x, after_s=total) if ahead else total + verify_s[-1]


def long_run(overlap: Overlap | None, draft_tokens: int, acceptance: float, covered: float | None = None) -> LongRun:
    """What a step brings where every draft token is kept with the same chance, if those before it were.

    Without drafting ahead every step verifies K tokens. Ahead, a request has nothing, K - 1 or K tokens pending: with
    nothing, the target decides one token while K are drafted, and where that token was foreseen K - 1 are pending. A
    wholly kept draft leaves K pending (0 branches), or K - 1 where the target's token behind it was foreseen. Anything
    else leaves nothing. The shares of the three states are the fixed point of these moves.

    Args:
        overlap: the policy; None: serial drafting.
        draft_tokens: K >= 1.
        acceptance: p in [0, 1].
        covered: chance that one of the branches begins with the target's token; None: p, as with one branch.
    """
    k, p = draft_tokens, acceptance
    if overlap is None or not overlap.ahead:
        parts = min(overlap.parts, k) if overlap is not None else 1
        edges = [part * k // parts for part in range(parts + 1)]
        prunes = overlap is not None and overlap.prunes
        reached = [p**first if prunes else 1.0 for first in edges[:-1]]
        queries = [share * (end - first) for share, first, end in zip(reached, edges[:-1], edges[1:], strict=True)]
        queries[0] += 1.0
        return LongRun(1.0 + _kept(p, k), float(k), k - _kept(p, k), tuple(queries))
    foreseen = p if covered is None or not overlap.branches else covered
    pending = [0, k - 1, k]
    moves = np.zeros((3, 3))
    moves[0, 1], moves[0, 0] = foreseen, 1.0 - foreseen
    for state in (1, 2):
        whole = p ** pending[state]
        moves[state, 0] = 1.0 - whole
        if overlap.branches:
            moves[state, 1], moves[state, 0] = whole * foreseen, 1.0 - whole * foreseen
        else:
            moves[state, 2] = whole
    if k == 1:
        moves[:] = [[1.0, 0.0, 0.0]] * 3  # the only token is the one that the target decides meanwhile
    share = _stationary(moves)
    verified = float(share @ pending)
    bonus = 1.0 if overlap.branches else 0.0
    tokens, kept = share[0], share[0] * foreseen
    for state in (1, 2):
        m = pending[state]
        tokens += share[state] * (_kept(p, m) + 1.0 - p**m + bonus * p**m)
        kept += share[state] * (_kept(p, m) + bonus * p**m * foreseen)
    drafts = max(overlap.branches, 1) * k
    return LongRun(float(tokens), verified, float(drafts - kept), (1.0 + verified,))


def _kept(p: float, tokens: int) -> float:
    """Mean number of leading tokens that are kept."""
    return float(sum(p**depth for depth in range(1, tokens + 1)))


def _stationary(moves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Long-run shares of the states; from any state the same ones are reached."""
    equations = np.vstack([moves.T - np.eye(3), np.ones(3)])
    return np.asarray(np.clip(np.linalg.lstsq(equations, np.array([0.0, 0.0, 0.0, 1.0]), rcond=None)[0], 0.0, 1.0))
