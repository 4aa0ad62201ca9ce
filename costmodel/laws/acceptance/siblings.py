"""What do stated rates say of a tree?

Numbers for chains do not tell how often a drafter's second candidate is the right one. Here
siblings are tried in turn, the k-th accepted with a k-th of the rate of its depth, given that those
before it were not. Published vectors of accepted ranks are like that: the rate falls with rank as
k^-1.06 in the median of nine (Sequoia and a fork of it, FastHesse, dynamic-spec-tree, Medusa's
first head, parallel prompt decoding), from k^-0.72 to k^-1.12. Leaves out recordings with ranks
(`traces.replay`), which know.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from costmodel.laws.acceptance.per_step import Acceptance
from costmodel.laws.acceptance.stated import DepthRates
from costmodel.passes.ops import Array
from traces.kinds.tree import Tree

ASSUMED_SIBLINGS = (
    "rates tell of a drafter's first candidates alone: siblings are taken to be tried in turn, the"
    " k-th accepted with a k-th of the rate of its depth"
)


def conditional_rates(rates: DepthRates, levels: int) -> list[float]:
    """Acceptance of the token at each draft level, given that those before were accepted; shape
    [levels].

    >>> [round(rate, 2) for rate in conditional_rates(DepthRates(by_depth=(0.8, 0.6)), 3)]
    [0.8, 0.75, 0.75]
    """
    unconditional = [1.0, *rates.at(levels)]
    return [after / before if before > 0.0 else 0.0 for before, after in pairwise(unconditional)]


def sibling_rates(rates: DepthRates, levels: int, width: int) -> list[tuple[float, ...]]:
    """Probability that the k-th of a node's children is the accepted one, by level: `levels` rows
    of `width`.

    Args:
        rates: of chains.
        levels: draft levels, >= 1.
        width: children of a node, >= 1.
    """
    return [
        tuple(float(rank_rate(rate, rank)) for rank in range(width))
        for rate in conditional_rates(rates, levels)
    ]


def rank_rate(rate: float | Array, rank: int) -> Array:
    """Probability that the child of a rank is the accepted one, of children tried in turn.

    >>> [round(float(rank_rate(0.6, rank)), 3) for rank in range(3)]
    [0.6, 0.12, 0.056]

    Args:
        rate: acceptance of the first child, in [0, 1]; broadcasts.
        rank: from 0.
    """
    r = np.asarray(rate, dtype=np.float64)
    tried = [1.0 - r / before for before in range(1, rank + 1)]
    return np.asarray(math.prod(tried, start=np.ones_like(r)) * r / (rank + 1))


def stated_tree(rates: DepthRates, tree: Tree) -> Acceptance:
    """What a tree emits per step at rates that are stated for chains.

    Example:
        >>> two = Tree.from_paths([(0,), (1,)])
        >>> round(stated_tree(DepthRates(by_depth=(0.6,)), two).tokens_per_step, 2)
        1.72

    Args:
        rates: of chains.
        tree: the shape.
    """
    remark = "; ".join(text for text in (ASSUMED_SIBLINGS, rates.remark_at(tree.depth - 1)) if text)
    return Acceptance(
        draft_tokens=tree.draft_tokens,
        tokens_per_step=_tree_tokens(rates, tree),
        proposal_ratio=rates.proposal_ratio,
        proposed_tokens=float(tree.draft_tokens),
        tree=tree,
        note=remark,
        samples=rates.samples(tree.depth - 1, lambda case: _tree_tokens(case, tree)),
    )


def _tree_tokens(rates: DepthRates, tree: Tree) -> float:
    vectors = sibling_rates(rates, max(tree.depth - 1, 1), max(tree.ranks) + 1)
    reached, level = [1.0], [0]
    for parent, rank in zip(tree.parents[1:], tree.ranks[1:], strict=True):
        reached.append(reached[parent] * vectors[level[parent]][rank])
        level.append(level[parent] + 1)
    return 1.0 + rates.proposal_ratio * math.fsum(reached[1:])
