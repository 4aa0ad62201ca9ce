"""What tree did the drafter see from every output position, and which of its nodes spell the true
text?

One tree per position, as the drafter expanded it best-first given the true prefix: enough to tell
what any policy that picks a part of it (fewer nodes, fewer levels, only likely nodes) would have
emitted. Leaves out token ids, the policies (`traces.replay.dynamic`) and how trees are expanded.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.arrays import checked_floats, checked_integers

MAX_NODES = int(np.iinfo(np.int16).max)
MAX_WIDTH = int(np.iinfo(np.int8).max) + 1


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Expansions:
    """One draft tree per output position; n positions, N nodes in all, roots not stored.

    The root of position i is the token before it; a node on level d (1: child of the root) proposes
    the token of output position i + d - 1. The trees are best-first: no node that was left out, of
    those within `width` and `depth`, is likelier than one that is stored, unless the tree has fewer
    than `nodes` nodes, in which case none was left out.

    Attributes:
        offsets: int64[n+1]; position i owns nodes offsets[i]:offsets[i+1].
        parents: int16[N], counted within the position's own tree, -1 the root; parents come before
            children.
        rank: int8[N], place among the drafter's candidates below the parent, 0 the likeliest.
        draft_prob: float16[N], the drafter's probability given the parent.
        on_path: bool[N], the node and its ancestors spell the true text.
        nodes: limit on the nodes of a tree; 0 stands for the largest tree stored.
        depth: limit on its levels; 0 stands for the deepest tree stored.
        width: candidates of a node that were looked at; 0 stands for the largest rank stored + 1.

    Raises:
        InputError: lengths or values that do not fit together; a node before its parent, two
            children of one rank, two true children, a true child of a wrong node.
    """

    offsets: NDArray[np.int64]
    parents: NDArray[np.int16]
    rank: NDArray[np.int8]
    draft_prob: NDArray[np.float16]
    on_path: NDArray[np.bool_]
    nodes: int = 0
    depth: int = 0
    width: int = 0

    def __post_init__(self) -> None:
        offsets = checked_integers(self.offsets, np.int64, "expansions.offsets", (None,), lowest=0)
        if offsets.size < 1 or offsets[0] != 0 or np.any(np.diff(offsets) < 0):
            raise InputError("must start at 0 and never decrease", key="expansions.offsets")
        self._set("offsets", offsets)
        size = (int(offsets[-1]),)
        self._set(
            "parents",
            checked_integers(self.parents, np.int16, "expansions.parents", size, lowest=-1),
        )
        self._set("rank", checked_integers(self.rank, np.int8, "expansions.rank", size, lowest=0))
        self._set(
            "draft_prob", checked_floats(self.draft_prob, np.float16, "expansions.draft_prob", size)
        )
        self._set("on_path", _truths(self.on_path, size))
        self._check_trees()
        sizes = {
            "nodes": (int(np.diff(offsets).max(initial=0)), MAX_NODES),
            "depth": (int(self.levels().max(initial=0)), MAX_NODES),
            "width": (int(self.rank.max(initial=-1)) + 1, MAX_WIDTH),
        }
        for name, (least, most) in sizes.items():
            stated = getattr(self, name) or least
            if not least <= stated <= most:
                raise InputError(
                    f"must lie in {least}..{most}", key=f"expansions.{name}", value=stated
                )
            self._set(name, stated)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check_trees(self) -> None:
        inside = np.arange(self.size) - np.repeat(self.offsets[:-1], self.sizes)
        if np.any(self.parents >= inside):
            raise InputError("parents must come before their children", key="expansions.parents")
        # a parent as one number over all trees: its node, or its position where it is a root
        family = self._parent_nodes()
        roots = family < 0
        family[roots] = self.size + np.repeat(np.arange(self.positions), self.sizes)[roots]
        child = family * MAX_WIDTH + self.rank
        if np.unique(child).size < child.size:
            raise InputError("the children of a node must differ in rank", key="expansions.rank")
        true = self.on_path & ~roots
        if not np.all(self.on_path[family[true]]):
            raise InputError(
                "a node on the path needs a parent on the path", key="expansions.on_path"
            )
        true_families = family[self.on_path]
        if np.unique(true_families).size < true_families.size:
            raise InputError(
                "at most one child of a node may be on the path", key="expansions.on_path"
            )

    @property
    def positions(self) -> int:
        """Number of output positions n."""
        return int(self.offsets.size) - 1

    @property
    def size(self) -> int:
        """Number of nodes N over all positions."""
        return int(self.offsets[-1])

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Nodes of every position's tree, int64[n]."""
        return np.diff(self.offsets)

    def levels(self) -> NDArray[np.int64]:
        """Level of every node, int64[N]; 1 is a child of the root."""
        parent = self._parent_nodes()
        level = np.ones(self.size, dtype=np.int64)
        above = parent
        while (below := above >= 0).any():
            level += below
            above = np.where(below, parent[above], -1)
        return level

    def select(self, positions: NDArray[np.int64]) -> Expansions:
        """The trees of these positions, in this order.

        Args:
            positions: int64, in 0..n-1; repeats are allowed.
        """
        chosen = np.asarray(positions, dtype=np.int64)
        sizes = self.sizes[chosen]
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[chosen] - offsets[:-1], sizes)
        picked: dict[str, Any] = {
            name: getattr(self, name)[rows] for name in ("parents", "rank", "draft_prob", "on_path")
        }
        return replace(self, offsets=offsets, **picked)

    def _parent_nodes(self) -> NDArray[np.int64]:
        """Every node's parent counted over all trees, -1 for a root."""
        first = np.repeat(self.offsets[:-1], self.sizes)
        return np.where(self.parents >= 0, first + self.parents, -1)


def joined(parts: list[Expansions]) -> Expansions:
    """The trees of several texts one after the other.

    Args:
        parts: one or more, expanded under the same limits.
    """
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("parents", "rank", "draft_prob", "on_path")
    }
    sizes = np.concatenate([part.sizes for part in parts])
    limits: dict[str, Any] = {
        name: max(getattr(part, name) for part in parts) for name in ("nodes", "depth", "width")
    }
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return replace(parts[0], offsets=offsets, **arrays, **limits)


def _truths(values: object, size: tuple[int]) -> NDArray[np.bool_]:
    array = np.asarray(values)
    if array.dtype != np.bool_ and array.size:
        array = checked_integers(values, np.int8, "expansions.on_path", size, lowest=0, highest=1)
    if array.shape != size:
        raise InputError(
            f"must have the length {size[0]}", key="expansions.on_path", value=array.shape
        )
    view = np.ascontiguousarray(array, dtype=np.bool_).view()
    view.flags.writeable = False
    return view
