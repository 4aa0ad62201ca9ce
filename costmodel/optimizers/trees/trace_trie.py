"""Which rank paths did a recorded text follow, and how many steps does a set of them take?

Every position's path of true-token ranks, as deep as a step that starts there could be accepted,
is a walk down one trie. A tree is then a set of trie nodes, a replay is a scan with one look-up per
token, and a swap of two nodes is two writes. Leaves out how sets are chosen (`trace_tree`).
"""

from dataclasses import dataclass
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree

MAX_CELLS = 1 << 28

Ids = NDArray[np.int32]
Counts = NDArray[np.int64]
Chosen = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Trie:
    """The rank paths of a recording; nodes are numbered shallower first, then lexicographically.

    Attributes:
        paths: int32[n, depth], node reached after 1, 2, ... accepted tokens of a step that starts
            at a position; -1 from the first true token outside the candidates (or past the proposal
            or the text) on.
        parents: int32[t], -1 for nodes of the first draft level.
        ranks: int32[t].
        offsets: int64[r+1], where requests begin and end.
        first: position within a request at which its first step starts.
    """

    paths: Ids
    parents: Ids
    ranks: Ids
    offsets: Counts
    first: int

    @property
    def nodes(self) -> int:
        """Number of trie nodes t, root excluded."""
        return int(self.parents.size)

    @property
    def depth(self) -> int:
        """Draft levels covered."""
        return int(self.paths.shape[1])

    @property
    def tokens(self) -> int:
        """Tokens that steps emit over all requests, whatever the tree."""
        return int(np.maximum(np.diff(self.offsets) - self.first, 0).sum())

    def steps(self, chosen: Chosen) -> int:
        """Steps that the whole text takes with a set of nodes closed under `parents`."""
        return int(_loops().count_steps(self.paths, self.offsets, self.first, chosen))

    def frequencies(self, chosen: Chosen) -> Counts:
        """How often each node's path is the true one where the steps of that set start,
        int64[t].
        """
        counts: Counts = _loops().frequencies(self.paths, self.offsets, self.first, chosen)
        return counts

    def best_swap(self, chosen: Chosen, leaves: Counts, additions: Counts) -> tuple[int, int, int]:
        """Fewest steps over all swaps of one of `leaves` for one of `additions`, and that pair."""
        steps, leaf, addition = _loops().best_swap(
            self.paths, self.offsets, self.first, chosen, self.parents, leaves, additions
        )
        return int(steps), int(leaf), int(addition)

    def least_steps(self, count: int) -> int:
        """Steps below which no tree of `count` draft tokens can go: the larger of two bounds.

        Whatever the size, a step passes over no more than its path; whatever the starts, a node
        saves no more steps than it has occurrences that do not overlap.
        """
        savings = np.sort(_loops().most_savings(self.paths, self.offsets, self.first, self.nodes))[
            ::-1
        ]
        unlimited = int(_loops().least_steps(self.paths, self.offsets, self.first))
        return max(unlimited, self.tokens - int(savings[:count].sum()))

    def chosen(self, tree: Tree) -> Chosen:
        """The nodes of a tree that the recording knows; the others cannot be accepted in it."""
        width = int(self.ranks.max(initial=0)) + 1
        keys = (
            self.parents.astype(np.int64) + 1
        ) * width + self.ranks  # ascending, by the numbering
        nodes = [-1]
        for parent, rank in zip(tree.parents[1:], tree.ranks[1:], strict=True):
            key = (nodes[parent] + 1) * width + rank
            place = int(np.searchsorted(keys, key))
            reachable = (parent == 0 or nodes[parent] >= 0) and rank < width
            nodes.append(place if reachable and place < keys.size and keys[place] == key else -1)
        chosen = np.zeros(self.nodes, dtype=np.bool_)
        chosen[[node for node in nodes if node >= 0]] = True
        return chosen

    def tree(self, chosen: Chosen) -> Tree:
        """A set of nodes as a tree, shallower nodes first, then lexicographically."""
        nodes = np.flatnonzero(chosen)
        index = np.zeros(self.nodes + 1, dtype=np.int64)
        index[nodes] = np.arange(1, nodes.size + 1)
        parents = index[self.parents[nodes]]  # the parent -1 reads the spare last entry, the root
        return Tree(parents=(-1, *parents.tolist()), ranks=(0, *self.ranks[nodes].tolist()))


def build_trie(trace: AcceptanceTrace, depth: int) -> Trie:
    """The trie of a recording's rank paths.

    A step that starts e positions before the end of the text is followed for e - 1 draft tokens
    only, because its bonus token emits the last one anyway: a node's frequency is then exactly the
    steps that it saves.

    Args:
        trace: level 2 or more.
        depth: draft levels followed, at least 1; no more than the recording has.

    Returns:
        The trie.

    Raises:
        InputError: the trace has no ranks, or is too large for this search.
    """
    trace.require(2, "searching a tree in a trace")
    assert trace.rank is not None
    levels = depth if trace.depth is None else min(depth, trace.depth)
    if levels < 1 or trace.positions * levels > MAX_CELLS:
        raise InputError(f"positions times levels must be 1..{MAX_CELLS}", key="depth", value=depth)
    stride = 1 if trace.depth is None else trace.depth
    drafted = np.zeros(0, dtype=np.int16) if trace.drafted is None else trace.drafted
    paths = _loops().rank_paths(trace.rank.reshape(-1), stride, drafted, trace.offsets, levels)
    parents, ranks = _number(paths, trace.rank_width)
    return Trie(
        paths=paths,
        parents=parents,
        ranks=ranks,
        offsets=np.asarray(trace.offsets, dtype=np.int64),
        first=trace.first_step_position,
    )


def _number(paths: Ids, width: int) -> tuple[Ids, Ids]:
    """Replace the ranks in `paths` by node numbers, level by level; return the nodes' parents and
    ranks.
    """
    parents: list[NDArray[np.int64]] = []
    ranks: list[NDArray[np.int64]] = []
    numbered = 0
    above = np.full(paths.shape[0], -1, dtype=np.int64)
    for level in range(paths.shape[1]):
        alive = paths[:, level] >= 0
        keys = (above[alive] + 1) * width + paths[alive, level]
        nodes = np.unique(keys)
        paths[alive, level] = numbered + np.searchsorted(nodes, keys)
        parents.append(nodes // width - 1)
        ranks.append(nodes % width)
        numbered += nodes.size
        above = paths[:, level].astype(np.int64)
    return np.concatenate(parents).astype(np.int32), np.concatenate(ranks).astype(np.int32)


def _loops() -> ModuleType:
    """The compiled loops, which take half a second to load: who searches no trace need not wait."""
    from traces.replay import compiled_trie

    return compiled_trie
