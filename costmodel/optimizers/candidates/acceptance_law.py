"""Which configuration is asked about at a constant acceptance rate, or at stated tokens per step?

A break-even is solved for one number, and a prediction at that number must answer the same: both
come by the claims of `costmodel.laws`. Leaves out solving (`costmodel.answers.breakeven`).
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from costmodel.answers.breakeven import AcceptanceLaw
from costmodel.laws.acceptance import Acceptance, DepthRates, stated_tree
from costmodel.laws.claims import rate_claim
from costmodel.laws.own_pace import own_pace
from costmodel.method import Method
from costmodel.optimizers.candidates.state_candidates import state_candidates
from costmodel.optimizers.drafters.sources import Source

MOST_TOKENS = 4095.0
"""Tokens of a step up to which a method's own pace is looked at: the longest draft that any
question may ask for."""


def acceptance_law(method: Method, acceptance: Acceptance) -> AcceptanceLaw:
    """A configuration at every constant acceptance rate; at tokens per step where no rate describes
    it.

    Chains and trees keep their share of steps with a proposal. Chains whose proposals are shorter
    than their most draft tokens keep the mean length of those, whose last token counts in part.

    Example:
        >>> from costmodel.laws.acceptance import geometric
        >>> from costmodel.method_library import load_method
        >>> law = acceptance_law(load_method("n-gram"), geometric(0.0, 3, match_rate=0.5))
        >>> law.at(0.5).tokens_per_step
        1.4375

    Args:
        method: the entry.
        acceptance: the configuration, with at least one draft token; what it emits does not matter.
    """
    if method.has_own_pace:
        return _by_tokens(lambda tokens: own_pace(method, tokens), MOST_TOKENS)
    share, draft_tokens = acceptance.proposal_ratio, acceptance.draft_tokens

    def rates(rate: float) -> DepthRates:
        return DepthRates(by_depth=(rate,), proposal_ratio=share)

    tree = acceptance.tree
    if tree is not None:
        return _by_rate(lambda rate: stated_tree(rates(rate), tree))
    if method.shape.kind == "state_trees":
        return _by_rate(
            lambda rate: state_candidates(
                Source(method=method.slug, kind="stated", rates=rates(rate)), [draft_tokens]
            )[0]
        )
    if acceptance.lengths is not None or acceptance.shape is not None:
        most = _levels(acceptance)
        return _by_tokens(lambda tokens: _emitting(acceptance, tokens), 1.0 + share * most)
    if acceptance.proposed_tokens < draft_tokens and not _overlaps(method):
        return _by_rate(lambda rate: _emitting(acceptance, _of_mean_length(acceptance, rate)))
    return _by_rate(lambda rate: rate_claim(method, rates(rate), draft_tokens))


def _by_rate(at: Callable[[float], Acceptance]) -> AcceptanceLaw:
    return AcceptanceLaw(at=at, least=0.0, most=1.0, by_rate=True)


def _by_tokens(at: Callable[[float], Acceptance], most: float) -> AcceptanceLaw:
    return AcceptanceLaw(at=at, least=1.0, most=most, by_rate=False)


def _overlaps(method: Method) -> bool:
    """Whether what a step verifies follows from its acceptance, so that it is less than was
    drafted.
    """
    return method.batch.drafts_during_verify or method.batch.parts > 1


def _levels(acceptance: Acceptance) -> int:
    """Most draft tokens of a step that can all be accepted."""
    if acceptance.shape is not None and acceptance.shape.depth:
        return acceptance.shape.depth
    return (
        acceptance.draft_tokens
        if acceptance.lengths is None
        else acceptance.lengths.tokens.size - 1
    )


def _of_mean_length(acceptance: Acceptance, rate: float) -> float:
    """Tokens per step of a chain whose proposals have a mean length, the last token of which counts
    in part.
    """
    whole = int(acceptance.proposed_tokens)
    powers = sum(rate**depth for depth in range(1, whole + 1))
    part = (acceptance.proposed_tokens - whole) * rate ** (whole + 1)
    return float(1.0 + acceptance.proposal_ratio * (powers + part))


def _emitting(acceptance: Acceptance, tokens_per_step: float) -> Acceptance:
    return replace(acceptance, tokens_per_step=tokens_per_step, samples=np.zeros(0))
