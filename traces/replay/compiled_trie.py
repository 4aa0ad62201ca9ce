"""The compiled loops over rank paths: how many steps does a set of nodes take, and which swap saves
most?

Kernels only, over flat arrays. Leaves out checks and meaning:
`costmodel.optimizers.trees.trace_trie` builds what they read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.machine_code import cached_njit
from traces.kinds.arrays import IntArray

Ids = NDArray[np.int32]
Counts = NDArray[np.int64]
Chosen = NDArray[np.bool_]


@cached_njit(__file__, nogil=True)
def rank_paths(
    rank: IntArray, stride: int, drafted: NDArray[np.int16], offsets: Counts, levels: int
) -> Ids:
    """Ranks of the true tokens from every position on, -1 from the first that no step can use.

    Args:
        rank: int[n * stride], rank of the true token at every draft level.
        stride: draft levels recorded.
        drafted: int16[n], draft tokens of a step; empty: no limit.
        offsets: int64[r + 1], where every request begins; the last is n.
        levels: draft levels D.

    Returns:
        int32[n, D].
    """
    paths = np.full((offsets[-1], levels), -1, dtype=np.int32)
    for r in range(offsets.size - 1):
        for i in range(offsets[r], offsets[r + 1]):
            # the last token of a text is the bonus of some step, and needs no draft
            most = min(levels, offsets[r + 1] - i - 1)
            if drafted.size > 0:
                most = min(most, drafted[i])
            for level in range(most):
                true_rank = rank[i * stride + level]
                if true_rank < 0:
                    break
                paths[i, level] = true_rank
    return paths


@cached_njit(__file__, nogil=True)
def count_steps(paths: Ids, offsets: Counts, first: int, chosen: Chosen) -> int:
    """Steps that the whole text takes with a set of nodes.

    Args:
        paths: int32[n, D], node of the trie at every draft level, -1 from where none is.
        offsets: int64[r + 1], where every request begins; the last is n.
        first: position at which the first step of a request starts.
        chosen: bool[t], the nodes of a tree.
    """
    steps = 0
    levels = paths.shape[1]
    for r in range(offsets.size - 1):
        i = offsets[r] + first
        while i < offsets[r + 1]:
            accepted = 0
            while accepted < levels:
                node = paths[i, accepted]
                if node < 0 or not chosen[node]:
                    break
                accepted += 1
            steps += 1
            i += accepted + 1
    return steps


@cached_njit(__file__, nogil=True)
def frequencies(paths: Ids, offsets: Counts, first: int, chosen: Chosen) -> Counts:
    """How often each node's path is the true one where the steps of a set of nodes start,
    int64[t].

    Args:
        paths: int32[n, D], node of the trie at every draft level, -1 from where none is.
        offsets: int64[r + 1], where every request begins; the last is n.
        first: position at which the first step of a request starts.
        chosen: bool[t], the nodes of a tree.
    """
    counts = np.zeros(chosen.size, dtype=np.int64)
    levels = paths.shape[1]
    for r in range(offsets.size - 1):
        i = offsets[r] + first
        while i < offsets[r + 1]:
            accepted = 0
            accepting = True
            for level in range(levels):
                node = paths[i, level]
                if node < 0:
                    break
                counts[node] += 1
                accepting = accepting and chosen[node]
                accepted += accepting
            i += accepted + 1
    return counts


@cached_njit(__file__, nogil=True)
def best_swap(
    paths: Ids,
    offsets: Counts,
    first: int,
    chosen: Chosen,
    parents: Ids,
    leaves: Counts,
    additions: Counts,
) -> tuple[int, int, int]:
    """Fewest steps over all swaps of a leaf for an addition, and that pair; `chosen` is left as it
    was.

    Args:
        paths: int32[n, D], node of the trie at every draft level, -1 from where none is.
        offsets: int64[r + 1], where every request begins; the last is n.
        first: position at which the first step of a request starts.
        chosen: bool[t], the nodes of a tree.
        parents: int32[t], parent of every node.
        leaves: nodes that may be left out.
        additions: nodes that may take their place.

    Returns:
        Steps, leaf and addition; -1 for both where no swap is possible.
    """
    best = np.iinfo(np.int64).max
    best_leaf, best_addition = -1, -1
    for leaf in leaves:
        chosen[leaf] = False
        for addition in additions:
            if parents[addition] == leaf:
                continue
            chosen[addition] = True
            steps = count_steps(paths, offsets, first, chosen)
            chosen[addition] = False
            if steps < best:
                best, best_leaf, best_addition = steps, leaf, addition
        chosen[leaf] = True
    return best, best_leaf, best_addition


@cached_njit(__file__, nogil=True)
def least_steps(paths: Ids, offsets: Counts, first: int) -> int:
    """Steps below which no tree can go, of any size, by shortest path over the positions.

    A step may stop anywhere up to the end of its path. No start depends on the tree any more, so
    this is a bound.

    Args:
        paths: int32[n, D], node of the trie at every draft level, -1 from where none is.
        offsets: int64[r + 1], where every request begins; the last is n.
        first: position at which the first step of a request starts.
    """
    total = 0
    levels = paths.shape[1]
    needed = np.zeros(paths.shape[0] + 1, dtype=np.int64)
    for r in range(offsets.size - 1):
        end = offsets[r + 1]
        needed[end] = 0
        for i in range(end - 1, offsets[r] + first - 1, -1):
            least = needed[i + 1]
            for level in range(levels):
                if paths[i, level] < 0:
                    break
                least = min(least, needed[i + level + 2])
            needed[i] = least + 1
        if offsets[r] + first < end:
            total += needed[offsets[r] + first]
    return total


@cached_njit(__file__, nogil=True)
def most_savings(paths: Ids, offsets: Counts, first: int, nodes: int) -> Counts:
    """Most steps that each node can save in any walk: its occurrences that do not overlap,
    int64[t].

    A step that accepts a node at draft level d passes over d + 1 positions, so its next start lies
    behind them.

    Args:
        paths: int32[n, D], node of the trie at every draft level, -1 from where none is.
        offsets: int64[r + 1], where every request begins; the last is n.
        first: position at which the first step of a request starts.
        nodes: nodes t of the trie.
    """
    saved = np.zeros(nodes, dtype=np.int64)
    free = np.zeros(nodes, dtype=np.int64)
    for r in range(offsets.size - 1):
        for i in range(offsets[r] + first, offsets[r + 1]):
            for level in range(paths.shape[1]):
                node = paths[i, level]
                if node < 0:
                    break
                if i >= free[node]:
                    saved[node] += 1
                    free[node] = i + level + 2
    return saved
