"""Which trees does a recording let us compare, and what do they emit?

Trees are chosen on one half of the requests and measured on the other, and the other way round, so
that no tree is scored on the requests it was chosen on; the tree that is returned is built from all
requests.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt

from costmodel.laws.acceptance import (
    MATCHING,
    Acceptance,
    Law,
    from_replay,
    replay_by,
    sibling_law,
)
from costmodel.optimizers.trees.static_tree import optimal_trees
from costmodel.optimizers.trees.trace_tree import trace_tree
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree
from traces.replay.bootstrap import RequestDraws
from traces.replay.sampled import ExpectedReplay
from traces.replay.walk import Replay

TREE_DEPTH = 8

Progress = Callable[[str], None]
Indices = npt.NDArray[np.int64]


def tree_candidates(
    trace: AcceptanceTrace,
    sizes: Sequence[int],
    draws: RequestDraws | None,
    generator: np.random.Generator,
    law: Law = MATCHING,
    *,
    progress: Progress | None = None,
) -> list[Acceptance]:
    """Trees built from the recording, each measured on requests that did not choose it.

    For every size the tree of the recording's own paths and the tree of its sibling vector: the
    first knows how ranks follow one another, the second needs less text to be sure of. Trees of
    sampled drafts have no ranks on the recording, and are built from the vector of what their law
    keeps.

    Args:
        trace: level 2 or higher.
        sizes: draft tokens of each tree, root excluded.
        draws: of the requests; None: no samples.
        generator: splits the requests into halves, by prompt kind.
        law: how drafts are verified.
        progress: called with a line of text per build.

    Raises:
        InputError: the trace holds no ranks.
    """
    trace.require(2, "building trees")
    levels = TREE_DEPTH if trace.depth is None else min(TREE_DEPTH, trace.depth)
    halves = split_requests(trace, generator)

    def build(part: AcceptanceTrace, what: str) -> dict[str, list[Tree]]:
        if progress:
            progress(what)
        return built_trees(part, sizes, law, levels=levels)

    chosen = [
        build(trace.select(half), f"trees, half {i + 1} of 2") for i, half in enumerate(halves)
    ]
    final = build(trace, "trees, all requests")
    scored = []
    for kind, trees in final.items():
        for size, tree in enumerate(trees):
            pooled = _cross_fitted(
                trace, law, halves, (chosen[0][kind][size], chosen[1][kind][size])
            )
            scored.append(
                from_replay(
                    pooled,
                    draws,
                    tree,
                    tree_source=kind,
                    rule=law.rule,
                    lossy=law.lossy,
                    note=law.note,
                )
            )
    return scored


def built_trees(
    trace: AcceptanceTrace, sizes: Sequence[int], law: Law, *, levels: int = TREE_DEPTH
) -> dict[str, list[Tree]]:
    """The best trees of all recorded requests, by what they are built from: `trace` paths, where
    the law leaves ranks on the recording, and the sibling `vector`.

    Args:
        trace: level 2 or higher.
        sizes: draft tokens of each tree, root excluded.
        law: how drafts are verified.
        levels: most draft levels.
    """
    if (siblings := sibling_law(trace, law)) is not None:
        nodes = [size + 1 for size in sizes]
        choices = optimal_trees(siblings, nodes, depth=levels + 1)
        return {"vector": [choice.tree for choice in choices]}
    results = trace_tree(trace, draft_tokens=tuple(sizes), depth=levels)
    return {
        "trace": [result.tree for result in results],
        "vector": [result.dp_tree for result in results],
    }


def split_requests(
    trace: AcceptanceTrace, generator: np.random.Generator
) -> tuple[Indices, Indices]:
    """Two disjoint halves of the requests with the same mix of prompt kinds, as sorted indices."""
    halves: tuple[list[int], list[int]] = ([], [])
    kinds = np.asarray(trace.prompt_kinds)
    turn = 0
    for kind in sorted(set(trace.prompt_kinds)):
        for index in generator.permutation(np.flatnonzero(kinds == kind)):
            halves[turn % 2].append(int(index))
            turn += 1
    return np.array(sorted(halves[0]), dtype=np.int64), np.array(sorted(halves[1]), dtype=np.int64)


def _cross_fitted(
    trace: AcceptanceTrace, law: Law, halves: tuple[Indices, Indices], trees: tuple[Tree, Tree]
) -> Replay | ExpectedReplay:
    """Counts of every request under the tree that the other half chose."""
    first, second = (
        replay_by(trace.select(half), law, tree)
        for half, tree in zip(halves, reversed(trees), strict=True)
    )
    place = np.argsort(np.concatenate(halves))
    pooled: dict[str, object] = {
        field.name: np.concatenate([getattr(first, field.name), getattr(second, field.name)])[place]
        for field in fields(first)
        if isinstance(getattr(first, field.name), np.ndarray)
    }
    return replace(first, draft_tokens=trees[0].draft_tokens, **pooled)  # type: ignore[arg-type]
