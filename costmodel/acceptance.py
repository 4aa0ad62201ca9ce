"""How many tokens does a step emit under a configuration, and how sure is that?

One value type for the three sources of acceptance: replay of a recording (exact, with bootstrap draws), a single
acceptance rate (a geometric law), or unconditional rates by depth (an engine's counters). Leaves out cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from costmodel.ops import Array
from hardware_profiles.errors import InputError
from traces.bootstrap import resampled_tokens_per_step
from traces.replay import Replay
from traces.tree import Tree


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Acceptance:
    """What a configuration emits per step.

    Args:
        draft_tokens: K of the chain or draft tokens of the tree, root excluded.
        tokens_per_step: emitted tokens per step, >= 1.
        proposal_ratio: share of steps with a proposal, 0 to 1.
        proposed_tokens: mean draft tokens of a step that has a proposal.
        samples: bootstrap draws of `tokens_per_step`; empty where only a law is known.
        tree: the static tree, or None for a chain.
        tree_source: what the tree was built from: `trace` paths or a sibling `vector`; empty for a chain.
    """

    draft_tokens: int
    tokens_per_step: float
    proposal_ratio: float = 1.0
    proposed_tokens: float
    samples: Array = field(default_factory=lambda: np.zeros(0))
    tree: Tree | None = None
    tree_source: str = ""


def from_replay(
    replay: Replay, multiplicities: Array, tree: Tree | None = None, *, tree_source: str = ""
) -> Acceptance:
    """Acceptance measured by replay.

    Args:
        replay: counts per request, shape [requests].
        multiplicities: how often each request is drawn, shape [draws, requests]; shared between replays so that
            comparisons are paired.
        tree: the tree that was replayed.
        tree_source: what the tree was built from.
    """
    ratio = replay.proposal_ratio if replay.draft_tokens else 0.0
    return Acceptance(
        draft_tokens=replay.draft_tokens if tree is None else tree.draft_tokens,
        tokens_per_step=float(replay.tokens_per_step),
        proposal_ratio=ratio,
        proposed_tokens=replay.drafted_per_step / ratio if ratio > 0 else 0.0,
        samples=resampled_tokens_per_step(replay, multiplicities),
        tree=tree,
        tree_source=tree_source,
    )


def geometric(rate: float, draft_tokens: int, *, match_rate: float = 1.0) -> Acceptance:
    """Acceptance of a chain whose every token is kept with the same probability, independently.

    Args:
        rate: acceptance rate of one token, 0 to 1.
        draft_tokens: K >= 0.
        match_rate: share of steps with a proposal; `rate` holds within those.

    Returns:
        (1 - rate^(K+1)) / (1 - rate) tokens in a step with a proposal, 1 in the others.

    Raises:
        InputError: a rate outside [0, 1], K < 0.

    Reference: Leviathan et al. 2022 (arXiv:2211.17192), equation 1.

    >>> round(geometric(0.8, 3).tokens_per_step, 3)
    2.952
    """
    for key, value in (("acceptance", rate), ("match_rate", match_rate)):
        if not 0.0 <= value <= 1.0:
            raise InputError("must lie in [0, 1]", key=key, value=value)
    if draft_tokens < 0:
        raise InputError("must be >= 0", key="draft_tokens", value=draft_tokens)
    return from_depth_rates([rate**depth for depth in range(1, draft_tokens + 1)], match_rate=match_rate)


def from_depth_rates(rates: Sequence[float], *, match_rate: float = 1.0) -> Acceptance:
    """Acceptance of a chain from unconditional rates by depth: 1 + their sum per step with a proposal.

    Args:
        rates: P(the first d draft tokens are all kept) for d = 1..K, non-increasing.
        match_rate: share of steps with a proposal.

    Raises:
        InputError: rates outside [0, 1] or increasing.
    """
    values = np.asarray(rates, dtype=np.float64)
    if np.any(~np.isfinite(values)) or np.any(values < 0) or np.any(values > 1) or np.any(np.diff(values) > 1e-9):
        raise InputError("rates by depth must lie in [0, 1] and never increase", key="acceptance", value=list(rates))
    return Acceptance(
        draft_tokens=len(values),
        tokens_per_step=float(1.0 + match_rate * values.sum()),
        proposal_ratio=match_rate if len(values) else 0.0,
        proposed_tokens=float(len(values)),
    )
