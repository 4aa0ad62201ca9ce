"""What shape is a static tree, in the terms in which engines describe one?

Engines speak of rank paths with the root left out.
Which trees are worth running is left to the optimisers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from costmodel.configuration import DecodingConfiguration
from traces.kinds.tree import Tree

Path = tuple[int, ...]


def rank_paths(tree: Tree) -> tuple[Path, ...]:
    """The rank path of every draft token of a tree, shorter paths first, then in lexicographic
    order.
    """
    return tuple(sorted(tree.paths(), key=lambda path: (len(path), path)))


def draft_paths(chosen: DecodingConfiguration) -> tuple[Path, ...] | None:
    """Rank paths of a static tree, shorter ones first, then in lexicographic order.

    Args:
        chosen: any configuration.

    Returns:
        One path of sibling ranks (from 0) per draft token; None without a static tree, and where it
        is a chain.
    """
    if chosen.tree is None:
        return None
    paths = rank_paths(chosen.tree)
    return None if is_chain(paths) else paths


def is_chain(paths: Sequence[Path]) -> bool:
    """Whether the tree is the plain chain of first-ranked tokens."""
    return all(path == (0,) * (index + 1) for index, path in enumerate(paths))


def depth(paths: Sequence[Path]) -> int:
    """Draft levels: the longest path, the root not counted."""
    return max(len(path) for path in paths)


def widest(paths: Sequence[Path]) -> int:
    """The largest number of children under one node."""
    return max(Counter(path[:-1] for path in paths).values())


def children_by_level(paths: Sequence[Path]) -> tuple[int, ...] | None:
    """Children per node at each draft level, where that is one number per level; None for any other
    tree.
    """
    nodes: list[Path] = [()]
    counts = []
    for level in range(1, depth(paths) + 1):
        size = sum(len(path) == level for path in paths)
        count, rest = divmod(size, len(nodes))
        if rest:
            return None
        nodes = [(*node, rank) for node in nodes for rank in range(count)]
        if not set(nodes) <= set(paths):
            return None
        counts.append(count)
    return tuple(counts)
