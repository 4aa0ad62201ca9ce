"""What shape is a static tree, in the terms in which engines describe one?

Trees come in as parents and ranks with the root included; engines speak of rank paths with the root left out.
Which trees are worth running is left to the optimisers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from hardware_profiles.errors import InputError

Path = tuple[int, ...]


def rank_paths(tree: Mapping[str, object]) -> tuple[Path, ...]:
    """The rank path of every draft node, shorter paths first, then in lexicographic order.

    Args:
        tree: `{"parents": [-1, 0, ...], "ranks": [0, 0, ...], "root_included": true}`, in topological order.

    Returns:
        One path of sibling ranks (from 0) per draft node; the root is left out.

    Raises:
        InputError: keys are missing or unknown, the order is not topological, two siblings share a rank, or
        the
            tree has no draft node.
    """
    if set(tree) != {"parents", "ranks", "root_included"} or tree["root_included"] is not True:
        raise InputError(
            "a tree has the keys parents, ranks and root_included, the last of them true",
            key="tree",
            value=tree,
        )
    parents, ranks = _integers(tree["parents"], "tree.parents"), _integers(tree["ranks"], "tree.ranks")
    if len(parents) != len(ranks) or len(parents) < 2:
        raise InputError("parents and ranks need one entry per node, at least two", key="tree", value=tree)
    if parents[0] != -1:
        raise InputError("the root comes first and has parent -1", key="tree.parents", value=parents[0])
    paths: list[Path] = [()]
    for node in range(1, len(parents)):
        if not 0 <= parents[node] < node:
            raise InputError("every parent must come before its child", key="tree.parents", value=parents[node])
        if ranks[node] < 0:
            raise InputError("ranks count from 0", key="tree.ranks", value=ranks[node])
        paths.append((*paths[parents[node]], ranks[node]))
    if len(set(paths)) != len(paths):
        raise InputError("two siblings carry the same rank", key="tree.ranks", value=ranks)
    return tuple(sorted(paths[1:], key=lambda path: (len(path), path)))


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
    """Children per node at each draft level, where that is one number per level; None for any other tree."""
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


def _integers(values: object, key: str) -> list[int]:
    if not isinstance(values, list | tuple) or any(type(value) is not int for value in values):
        raise InputError("must be a list of whole numbers", key=key, value=values)
    return list(values)
