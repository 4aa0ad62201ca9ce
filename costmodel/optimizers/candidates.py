"""Which configurations does a recording let us compare?

Off, chains of every length, and trees of several sizes where the recording holds ranks. Trees are chosen on
one half of the requests and measured on the other, both ways round, so that no tree is scored on what chose
it; the tree handed on is the one built from all requests.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from costmodel.acceptance import Acceptance, from_replay
from costmodel.ops import Array
from costmodel.optimizers.trace_tree import trace_tree
from traces.replay import Replay, replay_chain, replay_tree
from traces.schema import AcceptanceTrace
from traces.tree import Tree

CHAIN_LENGTHS = (1, 2, 3, 4, 5, 6, 7, 8)
NGRAM_LENGTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)
TREE_SIZES = (4, 8, 16, 32, 64)
TREE_DEPTH = 8

Progress = Callable[[str], None]
Indices = npt.NDArray[np.int64]


def chain_candidates(trace: AcceptanceTrace, lengths: Sequence[int], multiplicities: Array) -> list[Acceptance]:
    """No speculation and chains of the given lengths, by replay of all requests.

    Args:
        trace: level 1 or higher.
        lengths: draft tokens K >= 1.
        multiplicities: bootstrap counts [draws, requests].

    Raises:
        InputError: the trace holds no lengths.
    """
    return [from_replay(replay_chain(trace, k), multiplicities) for k in (0, *lengths)]


def tree_candidates(
    trace: AcceptanceTrace,
    sizes: Sequence[int],
    multiplicities: Array,
    generator: np.random.Generator,
    *,
    depth: int = TREE_DEPTH,
    closed_siblings: bool = False,
    progress: Progress | None = None,
) -> list[Acceptance]:
    """Trees built from the recording, each measured on requests that did not choose it.

    For every size the tree of the recording's own paths and the tree of its sibling vector: the first knows how
    ranks follow one another, the second needs less text to be sure of.

    Args:
        trace: level 2 or higher.
        sizes: draft tokens of each tree, root excluded.
        multiplicities: bootstrap counts [draws, requests].
        generator: splits the requests into halves, by prompt kind.
        depth: draft levels at most.
        closed_siblings: forbid nodes that skip a better-ranked sibling.
        progress: called with a line of text per build.

    Raises:
        InputError: the trace holds no ranks.
    """
    trace.require(2, "building trees")
    levels = depth if trace.depth is None else min(depth, trace.depth)
    halves = split_requests(trace, generator)

    def build(part: AcceptanceTrace, what: str) -> dict[str, list[Tree]]:
        if progress:
            progress(what)
        results = trace_tree(part, draft_tokens=tuple(sizes), depth=levels, closed_siblings=closed_siblings)
        return {"trace": [result.tree for result in results], "vector": [result.dp_tree for result in results]}

    chosen = [build(trace.select(half), f"trees, half {i + 1} of 2") for i, half in enumerate(halves)]
    final = build(trace, "trees, all requests")
    scored = []
    for kind, trees in final.items():
        for size, tree in enumerate(trees):
            pooled = _cross_fitted(trace, halves, (chosen[0][kind][size], chosen[1][kind][size]))
            scored.append(from_replay(pooled, multiplicities, tree=tree, tree_source=kind))
    return scored


def split_requests(trace: AcceptanceTrace, generator: np.random.Generator) -> tuple[Indices, Indices]:
    """Two disjoint halves of the requests with the same mix of prompt kinds, as sorted indices."""
    halves: tuple[list[int], list[int]] = ([], [])
    kinds = np.asarray(trace.prompt_kinds)
    turn = 0
    for kind in sorted(set(trace.prompt_kinds)):
        for index in generator.permutation(np.flatnonzero(kinds == kind)):
            halves[turn % 2].append(int(index))
            turn += 1
    return np.array(sorted(halves[0]), dtype=np.int64), np.array(sorted(halves[1]), dtype=np.int64)


def _cross_fitted(trace: AcceptanceTrace, halves: tuple[Indices, Indices], trees: tuple[Tree, Tree]) -> Replay:
    """Counts of every request under the tree that the other half chose."""
    counts = {name: np.zeros(trace.requests, dtype=np.int64) for name in _COUNTS}
    for half, tree in ((halves[0], trees[1]), (halves[1], trees[0])):
        part = replay_tree(trace.select(half), tree)
        for name in _COUNTS:
            counts[name][half] = getattr(part, name)
    return Replay(
        draft_tokens=trees[0].draft_tokens,
        **counts,
        assumed_proposal_ratio=trace.match_rate if trace.drafted is None else None,
    )


_COUNTS = ("tokens", "steps", "proposed_steps", "drafted_tokens")
