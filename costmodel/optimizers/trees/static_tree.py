"""Which tree of exactly n nodes emits most tokens per step, if siblings are accepted by their rank
alone?

Exact for a sibling acceptance vector (p[k] = probability that the k-th sibling is the accepted one)
and for one such vector per depth, noisy and non-monotone ones with zeros included. A node's value
is the product of p along its path; a tree's is the sum over its nodes, the root counting 1 for the
bonus token. Trees are sibling-closed. Vectors in which no sibling is likelier than an elder one
need no search: the greedy tree is the best (`greedy_tree`), and where the search would need more
memory than there is, it is the answer with a bound.

Node and level counts here include the root, as published trees count them. Leaves out correlation
between depths (see `trace_tree`) and what a level or a node costs (see `search`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from costmodel.optimizers.acceptance_vectors import (
    AcceptanceVectors,
    acceptance_levels,
    read_acceptance,
)
from costmodel.optimizers.trees.certificate import EXACT, Certificate
from costmodel.optimizers.trees.greedy_tree import falls, greedy_trees
from costmodel.optimizers.trees.max_plus import INFEASIBLE, Values, best_share, max_plus
from hardware_profiles.errors import InfeasibleError, InputError
from traces.kinds.tree import Tree

__all__ = ["AcceptanceVectors", "TreeChoice", "optimal_trees", "optimal_values", "read_acceptance"]

MAX_NODES = 4096
MAX_TABLE_CELLS = 1 << 25

Forests: TypeAlias = list[Values]


class _TooManyCellsError(InputError):
    pass


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeChoice:
    """A tree with its expected emitted tokens per step; `nodes` and `depth` (the limit) include the
    root.
    """

    tree: Tree
    nodes: int
    depth: int
    tokens_per_step: float
    certificate: Certificate


def optimal_trees(
    acceptance: AcceptanceVectors, nodes: Sequence[int] = (64, 256), depth: int = 10
) -> list[TreeChoice]:
    """Best tree of exactly n nodes and at most `depth` levels, for every n of `nodes`, in one
    search.

    Example:
        >>> choice, = optimal_trees([0.6, 0.3], nodes=[4], depth=3)
        >>> choice.tree.parents, choice.tree.ranks, round(choice.tokens_per_step, 3)
        ((-1, 0, 0, 1), (0, 0, 1, 0), 2.26)

    T(n, l) = 1 + max over splits of n - 1 nodes over children b of sum p_b T(n_b, l - 1), by
    max-plus convolution, O(n^2 depth width); structure is read back along the chosen path only.
    Falling vectors: O(n log n).

    Args:
        acceptance: sibling vector, or one vector per draft depth (then at most `len + 1` levels are
            used); probabilities in [0, 1], each vector's sum at most 1.
        nodes: node counts, root included, 1..4096.
        depth: most levels, root included, 1..4096.

    Returns:
        One choice per entry of `nodes`, in that order; each tree in level order and sibling-closed.
        Exact, but for noisy vectors of so many levels and siblings that the tables exceed memory:
        then greedy, with the gap.

    Raises:
        InputError: a value is out of range.
        InfeasibleError: no tree of that many nodes fits the depth and the width of the vectors.

    Reference:
        Sequoia, Chen et al. 2024 (arXiv 2402.12374), tree construction; one vector per depth as in
        Medusa, Cai et al. 2024 (arXiv 2401.10774).
    """
    largest = _checked_nodes(nodes)
    vectors, _ = acceptance_levels(acceptance, _checked_depth(depth, largest))
    if falls(vectors):
        return _greedy(vectors, nodes, depth)
    try:
        values, forests = tree_tables(vectors, largest)
    except _TooManyCellsError:
        return _greedy(vectors, nodes, depth)
    return [_choice(vectors, values, forests, n, depth) for n in nodes]


def optimal_values(acceptance: AcceptanceVectors, nodes: int, depth: int) -> Values:
    """Expected tokens per step of the best tree for every node count up to `nodes` and depth up to
    `depth`.

    Args:
        acceptance: as in `optimal_trees`.
        nodes: largest node count, root included, 1..4096.
        depth: largest number of levels, root included, 1..4096.

    Returns:
        float64 [nodes + 1, depth + 1], indexed [n, levels]; -inf where there is no such tree, as in
        row and column 0.

    Raises:
        InputError: a value is out of range.
    """
    levels = _checked_depth(depth, _checked_nodes([nodes]))
    vectors, by_depth = acceptance_levels(acceptance, levels)
    table = np.full((nodes + 1, depth + 1), INFEASIBLE)
    if by_depth:
        columns = [tree_tables(vectors[:used], nodes)[0][-1] for used in range(len(vectors) + 1)]
    else:
        columns = tree_tables(vectors, nodes)[0]
    for level in range(1, depth + 1):
        column = columns[min(level, len(columns)) - 1]
        table[1 : column.size + 1, level] = column
    return table


def _greedy(vectors: list[Values], nodes: Sequence[int], depth: int) -> list[TreeChoice]:
    choices = greedy_trees(vectors, nodes)
    if choices is None:
        raise _no_such_tree(max(nodes), depth)
    return [
        TreeChoice(tree=tree, nodes=n, depth=depth, tokens_per_step=tokens, certificate=certificate)
        for n, (tree, tokens, certificate) in zip(nodes, choices, strict=True)
    ]


def _no_such_tree(nodes: int, depth: int) -> InfeasibleError:
    rule = (
        f"no tree has that many nodes within {depth} levels and siblings up to the vectors' width"
    )
    return InfeasibleError(rule, key="nodes", value=nodes)


def tree_tables(
    vectors: Sequence[Values], nodes: int, expansion_price: float = 0.0
) -> tuple[list[Values], list[Forests]]:
    """Best subtree values for 1, 2, ... levels, and the forest tables behind the levels from the
    second on.

    Args:
        vectors: sibling vector of every draft depth; equal ones as the same object.
        nodes: most nodes, root included.
        expansion_price: what a node other than the root loses by having children, in tokens.

    Returns:
        Values, whose entry j is the best tree of j + 1 nodes and which end at the largest tree that
        there is; tables, for `grown_tree`.

    Raises:
        InputError: more table cells than memory should hold.
    """
    values: list[Values] = [np.ones(1)]
    tables: list[Forests] = []
    cells = 0
    for above, vector in enumerate(reversed(vectors)):
        if above > 1 and vector is vectors[-above] and np.array_equal(values[-1], values[-2]):
            break  # one vector for all depths, and one more level changed nothing: none will
        cells += (vector.size + 1) * nodes
        if cells > MAX_TABLE_CELLS:
            rule = (
                f"the search needs more than {MAX_TABLE_CELLS} table cells: lower the depth or the"
                " width"
            )
            raise _TooManyCellsError(rule, key="nodes", value=nodes)
        tables.append(_forests(vector, values[-1], nodes))
        feasible = tables[-1][0] > INFEASIBLE
        values.append(1.0 + tables[-1][0][feasible])
        values[-1][1:] -= expansion_price
    return values, tables


def _forests(vector: Values, subtrees: Values, nodes: int) -> Forests:
    """Best value of siblings b, b + 1, ... holding exactly m nodes: row b of width + 1, column m <
    nodes.
    """
    nothing = np.full(nodes, INFEASIBLE)
    nothing[0] = 0.0
    rows = [nothing]
    for probability in vector[::-1]:
        row = np.zeros(nodes)
        if (
            probability == 0.0 and subtrees.size >= nodes - 1
        ):  # worth nothing at any share: whatever the others leave
            np.maximum.accumulate(rows[-1][:-1], out=row[1:])
        else:
            row[1:] = max_plus(rows[-1][:-1], probability * subtrees[: nodes - 1])
        rows.append(row)
    return rows[::-1]


def _choice(
    vectors: list[Values], values: list[Values], forests: list[Forests], n: int, depth: int
) -> TreeChoice:
    if n > values[-1].size:
        raise _no_such_tree(n, depth)
    tree = grown_tree(vectors, values, forests, n)
    tokens_per_step = float(values[-1][n - 1])
    return TreeChoice(
        tree=tree, nodes=n, depth=depth, tokens_per_step=tokens_per_step, certificate=EXACT
    )


def grown_tree(
    vectors: Sequence[Values], values: Sequence[Values], forests: Sequence[Forests], n: int
) -> Tree:
    """Read a best tree back in level order: at every node, a best share for each sibling in turn.

    Args:
        vectors: of the search.
        values: of `tree_tables`.
        forests: of `tree_tables`, as many as the tree may have draft levels.
        n: nodes, root included; a tree of that many exists.
    """
    parents, ranks, shares, levels = [-1], [0], [n], [0]
    for node in range(n):
        left, rank, level = shares[node] - 1, 0, levels[node]
        below = len(forests) - 1 - level
        while left:
            gains = vectors[level][rank] * values[below][:left]
            share = 1 + best_share(forests[below][rank + 1], gains, left - 1)
            parents.append(node)
            ranks.append(rank)
            shares.append(share)
            levels.append(level + 1)
            left, rank = left - share, rank + 1
    return Tree(parents=tuple(parents), ranks=tuple(ranks))


def _checked_nodes(nodes: Sequence[int]) -> int:
    for n in nodes:
        if not 1 <= n <= MAX_NODES:
            raise InputError(
                f"a node count must be 1..{MAX_NODES}, root included", key="nodes", value=n
            )
    if not nodes:
        raise InputError("at least one node count is needed", key="nodes", value=nodes)
    return max(nodes)


def _checked_depth(depth: int, nodes: int) -> int:
    """The levels that a tree of `nodes` nodes can use."""
    if not 1 <= depth <= MAX_NODES:
        raise InputError(
            f"depth must be 1..{MAX_NODES} levels, root included", key="depth", value=depth
        )
    return min(depth, nodes)
