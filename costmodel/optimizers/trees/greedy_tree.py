"""How good is the tree that takes the likeliest open node again and again, and when is it the best
of all?

A node opens when its parent and its elder sibling are taken. Where every vector falls (no sibling
is likelier than an elder one), no open node hides a likelier one, and the tree of every size is the
best. Elsewhere the same walk over the sorted vectors is a bound: what any tree needs of siblings in
order, it needs no longer. Time grows with the nodes alone, whatever the depth and the width. Leaves
out the exact search for vectors that rise (`static_tree`).
"""

import heapq
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.optimizers.trees.certificate import EXACT, Certificate
from traces.kinds.tree import Tree

Vector = NDArray[np.float64]
_MOST_ROUNDING = 1e-12  # tokens per step


def falls(vectors: Sequence[Vector]) -> bool:
    """Whether no sibling is likelier than an elder one, at any depth: the condition of the greedy
    tree.
    """
    return all(bool(np.all(vector[1:] <= vector[:-1])) for vector in vectors)


def greedy_trees(
    vectors: Sequence[Vector], nodes: Sequence[int]
) -> list[tuple[Tree, float, Certificate]] | None:
    """The greedy tree of every size with its expected tokens per step, and how far it can be from
    the best one.

    Example:
        >>> (tree, tokens, certificate), = greedy_trees([np.array([0.6, 0.3]), np.array([0.5, 0.1])], [4])
        >>> tree.paths(), round(tokens, 3), certificate.kind
        (((0,), (1,), (0, 0)), 2.2, 'exact')

    Args:
        vectors: sibling vector of every draft depth; probabilities that the k-th sibling is the
            accepted one.
        nodes: tree sizes, root included, each at least 1.

    Returns:
        One tree per size in level order, sibling-closed; None where the largest does not fit the
        vectors.

    Reference:
        Cai et al. 2024, Medusa (arXiv:2401.10774), section 2.3.3, which grows its trees so; the
        heap over falling estimates is that of DySpec, Xiong et al. 2024 (arXiv:2410.11744).
    """
    most = max(nodes)
    parents, ranks, values = _grown(vectors, most)
    if values.size < most:
        return None
    sums = np.cumsum(values)
    bounds = sums
    if not falls(vectors):
        bounds = np.cumsum(_grown([np.sort(vector)[::-1] for vector in vectors], most)[2])
    trees = []
    for count in nodes:
        gap = float(bounds[count - 1] - sums[count - 1])
        certificate = EXACT if gap <= _MOST_ROUNDING else Certificate(kind="bound", gap=gap)
        trees.append(
            (_in_level_order(parents[:count], ranks[:count]), float(sums[count - 1]), certificate)
        )
    return trees


def greedy_values(vectors: Sequence[Vector], nodes: int) -> Vector:
    """Probabilities of the nodes that the greedy tree takes, in their order, the root left out; never
    rising where the vectors fall.

    Args:
        vectors: sibling vector of every draft depth.
        nodes: that are taken, fewer where there are no more.
    """
    return _grown(vectors, nodes + 1)[2][1:]


def _grown(vectors: Sequence[Vector], nodes: int) -> tuple[list[int], list[int], Vector]:
    """Parents, ranks and values of the nodes in the order in which they are taken, the root
    first.
    """
    chances = [vector.tolist() for vector in vectors]
    parents, ranks, levels, values = [-1], [0], [0], [1.0]
    open_: list[
        tuple[float, int, int, int]
    ] = []  # value, level, parent, rank: ties go to shallower, elder nodes
    node = 0
    while len(values) < nodes:
        level = levels[node]
        if level < len(chances):
            heapq.heappush(open_, (-values[node] * chances[level][0], level + 1, node, 0))
        parent, rank = parents[node], ranks[node] + 1
        if parent >= 0 and rank < len(chances[level - 1]):
            heapq.heappush(open_, (-values[parent] * chances[level - 1][rank], level, parent, rank))
        if not open_:
            break
        value, level, parent, rank = heapq.heappop(open_)
        node = len(values)
        parents.append(parent)
        ranks.append(rank)
        levels.append(level)
        values.append(-value)
    return parents, ranks, np.array(values)


def _in_level_order(parents: Sequence[int], ranks: Sequence[int]) -> Tree:
    """The same tree, level by level, siblings by rank."""
    below: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents[1:], start=1):
        below[parent].append(node)  # elder siblings are taken first
    order, place = [0], [-1]
    for at, node in enumerate(order):
        order += below[node]
        place += [at] * len(below[node])
    return Tree(parents=tuple(place), ranks=tuple(ranks[node] for node in order))
