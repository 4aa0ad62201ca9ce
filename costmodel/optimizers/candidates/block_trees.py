"""What does a tree emit that is grown from the marginals of a drafter that drafts a block in one
pass, where rates of its chains are stated?

Such a drafter's probabilities depend on the level alone, so that a path's is the product of those
of its levels, and the tree that takes the likeliest path again and again is the best of its size.
Stated rates say how often the first candidate of a level is right; its other candidates follow as
`costmodel.laws.acceptance.siblings` says. Leaves out recordings, which know the marginals of every
step (`costmodel.laws.drafting.dynamic_tree`).

Reference: Ringel et al. 2026, "DDTree" (arXiv:2604.12989); Oh et al. 2026, "Bastion"
(arXiv:2605.29727), for budgets that stop where a node does not pay.
"""

from dataclasses import replace

import numpy as np

from costmodel.laws.acceptance import Acceptance, DepthRates, stated_tree
from costmodel.laws.acceptance.siblings import sibling_rates
from costmodel.laws.claims import tokens_claim
from costmodel.method import Method, Shape
from costmodel.optimizers.trees.greedy_tree import greedy_trees, greedy_values
from hardware_profiles.errors import InputError
from traces.kinds.tree import Tree
from traces.replay.dynamic import paying_nodes

WIDTH = 64
"""Candidates of a level that are looked at where a shape does not say: the likeliest, beyond which
none is ever taken at a thousand nodes."""


def block_tree(method: Method, rates: DepthRates, limits: Shape) -> Acceptance:
    """Acceptance of the trees of a block drafter at stated rates of its chains.

    Example:
        >>> from costmodel.method_library import load_method
        >>> limits = Shape(kind="dynamic_tree", nodes=256, depth=15)
        >>> tree = block_tree(load_method("ddtree"), DepthRates(by_depth=(0.89,)), limits)
        >>> round(tree.tokens_per_step, 1)
        10.7

    Args:
        method: whose drafter drafts all levels at once.
        rates: unconditional, by depth.
        limits: of kind `dynamic_tree`, with nodes and depth.

    Raises:
        InputError: another drafter, a shape without depth, or limits that levels alone do not tell
            apart.
    """
    if not method.drafts_blocks:
        rule = (
            "needs a --trace, or the tokens per step of that tree:"
            f" --drafter {method.slug}:length=2.5"
        )
        raise InputError(rule, key="shape", value=limits.kind)
    if not limits.depth or limits.beam or limits.least_probability:
        rule = "a tree of stated rates needs its depth, as dynamic:64x15, and has no beam or least"
        raise InputError(rule, key="shape", value=limits.kind)
    tree = _grown(rates, limits)
    taken = stated_tree(rates, tree)
    return replace(
        tokens_claim(method, taken.tokens_per_step, replace(limits, nodes=tree.draft_tokens)),
        shape=limits,
        samples=taken.samples,
        note=taken.note,
    )


def _grown(rates: DepthRates, limits: Shape) -> Tree:
    """The tree of the likeliest paths, of as many as there may be and as pay."""
    width = limits.width or WIDTH
    vectors = [np.array(level) for level in sibling_rates(rates, limits.depth, width)]
    values = greedy_values(vectors, limits.nodes)
    nodes = paying_nodes(values.tolist(), limits.cost_ratio, limits.free_nodes)
    made = greedy_trees(vectors, [max(nodes, 1) + 1])
    assert made is not None
    return made[0][0]
