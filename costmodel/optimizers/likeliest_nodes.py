"""Which n trie nodes are worth most at given frequencies, with or without the elder siblings of each?

Leaves out that the frequencies move with the choice, because steps then start elsewhere: `trace_tree`
iterates.
"""

import numpy as np
from numba import njit

from costmodel.optimizers.trace_trie import Chosen, Counts, Ids, Trie
from hardware_profiles.errors import InputError

MAX_CELLS = 1 << 27


def most_frequent(frequencies: Counts, count: int) -> Chosen:
    """The `count` most frequent nodes; ties go to the shallower, then to the lexicographically first.

    A node is never more frequent than its parent, and nodes are numbered parents first: the set is a tree.

    Args:
        frequencies: int64[t] by node number.
        count: nodes to take; all of them where there are fewer.

    Returns:
        bool[t], true where taken.
    """
    chosen = np.zeros(frequencies.size, dtype=np.bool_)
    chosen[np.argsort(-frequencies, kind="stable")[:count]] = True
    return chosen


def most_frequent_closed(trie: Trie, frequencies: Counts, count: int) -> Chosen:
    """The sibling-closed set of at most `count` nodes with the largest sum of frequencies, exactly.

    In preorder a node is taken (go on with the next one) or left, and with it its children, its younger
    siblings and theirs (go on behind the parent's last descendant): O(t count) states.

    Args:
        trie: built with `closed_siblings=True`.
        frequencies: int64[t].
        count: most nodes to take.

    Returns:
        bool[t], true where taken.

    Raises:
        InputError: more than 2^27 states.
    """
    if (trie.nodes + 1) * (count + 1) > MAX_CELLS:
        raise InputError(
            f"nodes times trie nodes must be at most {MAX_CELLS}: lower the depth",
            key="draft_tokens",
            value=count,
        )
    order, behind = _preorder(trie.parents)
    chosen: Chosen = _taken(frequencies[order], order, behind, count)
    return chosen


@njit(cache=True, nogil=True)
def _preorder(parents: Ids) -> tuple[Counts, Counts]:
    """Nodes in preorder, and for each place the place behind the last descendant of its node's parent."""
    nodes = parents.size
    sizes = np.ones(nodes, dtype=np.int64)
    for node in range(nodes - 1, -1, -1):
        if parents[node] >= 0:
            sizes[parents[node]] += sizes[node]
    place = np.empty(nodes, dtype=np.int64)
    order = np.empty(nodes, dtype=np.int64)
    behind = np.empty(nodes, dtype=np.int64)
    following = np.empty(nodes + 1, dtype=np.int64)  # where a node's next child goes; last entry for the root's
    following[nodes] = 0
    for node in range(nodes):
        parent = parents[node] if parents[node] >= 0 else nodes
        place[node] = following[parent]
        following[parent] += sizes[node]
        following[node] = place[node] + 1
        order[place[node]] = node
        behind[place[node]] = nodes if parent == nodes else place[parent] + sizes[parent]
    return order, behind


@njit(cache=True, nogil=True)
def _taken(values: Counts, order: Counts, behind: Counts, count: int) -> Chosen:
    nodes = values.size
    best = np.zeros((nodes + 1, count + 1), dtype=np.int64)
    for place in range(nodes - 1, -1, -1):
        for left in range(1, count + 1):
            best[place, left] = max(values[place] + best[place + 1, left - 1], best[behind[place], left])
    chosen = np.zeros(nodes, dtype=np.bool_)
    place, left = 0, count
    while place < nodes and left > 0:
        if best[place, left] == values[place] + best[place + 1, left - 1]:
            chosen[order[place]] = True
            left -= 1
            place += 1
        else:
            place = behind[place]
    return chosen
