"""How many tokens does a step emit when the acceptance is stated, not recorded?

From one acceptance rate, from unconditional rates by depth (an engine's counters), or the number itself (a paper's).
Leaves out recordings (`recorded`), which know how steps of one text resemble each other.
"""

from collections.abc import Sequence

import numpy as np

from costmodel.laws.acceptance.per_step import Acceptance
from hardware_profiles.errors import InputError
from traces.kinds.tree import Tree


def geometric(rate: float, draft_tokens: int, *, match_rate: float = 1.0) -> Acceptance:
    """Acceptance of a chain whose every token is accepted with the same probability, independently.

    Example:
        >>> round(geometric(0.8, 3).tokens_per_step, 3)
        2.952

    Args:
        rate: acceptance rate of one token, 0 to 1.
        draft_tokens: K >= 0.
        match_rate: share of steps with a proposal; `rate` holds within those.

    Returns:
        (1 - rate^(K+1)) / (1 - rate) tokens in a step with a proposal, 1 in the others.

    Raises:
        InputError: a rate outside [0, 1], K < 0.

    Reference: Leviathan et al. 2022 (arXiv:2211.17192), equation 1.
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
        rates: P(the first d draft tokens are all accepted) for d = 1..K, non-increasing.
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


def stated(tokens_per_step: float, shape: int | Tree, *, proposal_ratio: float = 1.0) -> Acceptance:
    """Acceptance of a shape whose tokens per step were measured elsewhere.

    Args:
        tokens_per_step: emitted tokens per step over all steps, the bonus token counted.
        shape: K of a chain, or the tree.
        proposal_ratio: share of steps with a proposal; the others emit one token.

    Raises:
        InputError: less than 1, or more than the shape can emit.

    >>> stated(2.5, 3).tokens_per_step
    2.5
    """
    if not 0.0 <= proposal_ratio <= 1.0:
        raise InputError("must lie in [0, 1]", key="proposal_ratio", value=proposal_ratio)
    tree = shape if isinstance(shape, Tree) else None
    levels = shape.depth - 1 if isinstance(shape, Tree) else shape
    draft_tokens = tree.draft_tokens if tree is not None else levels
    most = 1.0 + proposal_ratio * levels
    if not 1.0 <= tokens_per_step <= most:
        wanted = f"must lie in [1, {most:g}], what {levels} draft levels can emit"
        raise InputError(wanted, key="tokens_per_step", value=tokens_per_step)
    return Acceptance(
        draft_tokens=draft_tokens,
        tokens_per_step=tokens_per_step,
        proposal_ratio=proposal_ratio if draft_tokens else 0.0,
        proposed_tokens=float(draft_tokens),
        tree=tree,
    )
