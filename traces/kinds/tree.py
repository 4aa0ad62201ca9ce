"""What shape of draft tree is verified in a step?

A static tree of candidate ranks: its nodes, paths, level widths and JSON form. The root is the last
known token and is part of the node list; `draft_tokens` never counts it. Leaves out which tree is
best (`costmodel.optimizers`) and what it accepts on a recording (`traces.replay.walk`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from hardware_profiles.outside_file import read_bounded
from hardware_profiles.places import is_place
from traces.kinds.naming import naming
from traces.kinds.tree_forms import growmap_values, paths_of_literal

MAX_LEVELS = 1024
MAX_NODES = 1 << 16
MAX_FILE_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """A token tree in topological order, root included.

    Example:
        >>> tree = Tree.from_paths([(0,), (1,), (0, 0)])
        >>> tree.parents, tree.ranks, tree.draft_tokens, tree.depth
        ((-1, 0, 0, 1), (0, 0, 1, 0), 3, 3)

    Attributes:
        parents: index of every node's parent; -1 for the root, smaller than its own index for the
            others.
        ranks: rank of every node among its parent's candidates, 0 the likeliest; the root carries
            0.

    Raises:
        InputError: lengths differ, no root, not topological, or two nodes in one place.
    """

    parents: tuple[int, ...]
    ranks: tuple[int, ...]

    def __post_init__(self) -> None:
        for name in ("parents", "ranks"):
            object.__setattr__(self, name, _whole_numbers(getattr(self, name), name))
        if not 1 <= len(self.parents) <= MAX_NODES:
            raise InputError(
                f"a tree has 1..{MAX_NODES} nodes", key="parents", value=len(self.parents)
            )
        if len(self.ranks) != len(self.parents):
            rule = f"must have {len(self.parents)} entries, as parents"
            raise InputError(rule, key="ranks", value=len(self.ranks))
        if self.parents[0] != -1 or self.ranks[0] != 0:
            root = (self.parents[0], self.ranks[0])
            raise InputError(
                "node 0 must be the root: parent -1, rank 0", key="parents", value=root
            )
        for node in range(1, len(self.parents)):
            if not 0 <= self.parents[node] < node:
                raise InputError(
                    f"node {node} must come after its parent (topological order)",
                    key="parents",
                    value=self.parents[node],
                )
            if not 0 <= self.ranks[node] < MAX_NODES:
                raise InputError(
                    f"must lie in 0..{MAX_NODES - 1}", key="ranks", value=self.ranks[node]
                )
        places = set(zip(self.parents[1:], self.ranks[1:], strict=True))
        if len(places) != self.draft_tokens:
            raise InputError("two nodes share parent and rank", key="ranks")

    @classmethod
    def from_paths(cls, paths: Iterable[Sequence[int]]) -> Tree:
        """Build a tree from rank paths, root excluded, in any order.

        Nodes come out shallower first, then lexicographically.

        Args:
            paths: one tuple of ranks per draft token; every prefix must be listed too.

        Raises:
            InputError: a missing prefix, a path listed twice, an empty path.
        """
        listed = [_whole_numbers(path, "paths") for path in paths]
        ordered = sorted(listed, key=lambda path: (len(path), path))
        index: dict[tuple[int, ...], int] = {(): 0}
        parents, ranks = [-1], [0]
        for path in ordered:
            if path in index:
                raise InputError(
                    "every path must be listed once and never be empty", key="paths", value=path
                )
            if path[:-1] not in index:
                raise InputError(
                    "the prefix of every path must be listed too", key="paths", value=path
                )
            index[path] = len(parents)
            parents.append(index[path[:-1]])
            ranks.append(path[-1])
        return cls(parents=tuple(parents), ranks=tuple(ranks))

    @classmethod
    def from_json(cls, document: object, *, file: str | None = None) -> Tree:
        """Read the JSON form.

        Args:
            document: an object with `parents`, `ranks` and `root_included` (true if absent), where
                further keys of a search result are passed over; a list of rank paths, root excluded
                (Medusa and EAGLE choices); or the children of every node, node 0 being the root, as
                SAM-Decoding (`tree_adj`, or the table itself) and Sequoia (`Successors` of a
                growmap) write them.
            file: name for messages.

        Raises:
            InputError: anything else.
        """
        with naming(file):
            if isinstance(document, Mapping) and "tree_choices" in document:
                document = document["tree_choices"]
            if isinstance(document, list):
                return cls.from_paths(document)
            children = _child_table(document)
            if children is not None:
                return cls.from_paths(_rank_paths(children))
            if (
                not isinstance(document, Mapping)
                or "parents" not in document
                or "ranks" not in document
            ):
                raise InputError(
                    "a tree is an object with parents and ranks, or a list of rank paths"
                )
            included = document.get("root_included", True)
            if not isinstance(included, bool):
                raise InputError("must be true or false", key="root_included", value=included)
            parents = _whole_numbers(document["parents"], "parents")
            ranks = _whole_numbers(document["ranks"], "ranks")
            if not included:
                parents, ranks = (-1, *(parent + 1 for parent in parents)), (0, *ranks)
            return cls(parents=parents, ranks=ranks)

    def to_json(self) -> dict[str, Any]:
        """The JSON form, root included."""
        return {"parents": list(self.parents), "ranks": list(self.ranks), "root_included": True}

    def paths(self) -> tuple[tuple[int, ...], ...]:
        """Rank path of every draft token in node order, root excluded."""
        paths: list[tuple[int, ...]] = [()]
        for node in range(1, self.nodes):
            paths.append((*paths[self.parents[node]], self.ranks[node]))
        return tuple(paths[1:])

    def node_levels(self) -> NDArray[np.int64]:
        """Level of every node, int64[nodes]; 0 for the root."""
        levels = [0] * self.nodes
        for node in range(1, self.nodes):
            levels[node] = levels[self.parents[node]] + 1
        return np.asarray(levels, dtype=np.int64)

    @property
    def nodes(self) -> int:
        """Number of nodes, root included."""
        return len(self.parents)

    @property
    def draft_tokens(self) -> int:
        """Draft tokens per step: the nodes without the root."""
        return len(self.parents) - 1

    @property
    def depth(self) -> int:
        """Number of levels, root included."""
        return int(self.node_levels().max()) + 1

    def level_widths(self) -> tuple[int, ...]:
        """Number of nodes on draft levels 1, 2, ..."""
        return tuple(np.bincount(self.node_levels())[1:].tolist())

    @property
    def is_sibling_closed(self) -> bool:
        """Whether every node's elder siblings (lower ranks) are in the tree, as many formats
        require.
        """
        children = np.bincount(np.asarray(self.parents[1:], dtype=np.int64), minlength=self.nodes)
        places = zip(self.parents[1:], self.ranks[1:], strict=True)
        return all(rank < children[parent] for parent, rank in places)

    def child_table(self, width: int) -> NDArray[np.int32]:
        """Where the walk goes on.

        Args:
            width: candidates per position.

        Returns:
            int32[nodes, width]: the child at each rank, -1 where the tree has none.

        Raises:
            InputError: the tree uses a rank outside 0..width-1.
        """
        if max(self.ranks) >= width:
            raise InputError(
                f"only {width} candidates per position are recorded, so ranks must lie below that",
                key="ranks",
                value=max(self.ranks),
            )
        table = np.full((self.nodes, width), -1, dtype=np.int32)
        parents, ranks = np.asarray([self.parents[1:], self.ranks[1:]], dtype=np.int64)
        table[parents, ranks] = np.arange(1, self.nodes)
        return table


def _child_table(document: object) -> dict[int, Any] | None:
    """Children of every node where a document lists them, else None."""
    table = (
        document.get("tree_adj", document.get("Successors", document))
        if isinstance(document, Mapping)
        else None
    )
    if isinstance(table, list):
        return dict(enumerate(table))
    if (
        not isinstance(table, Mapping)
        or not table
        or not all(k.isascii() and k.isdigit() and len(k) < 10 for k in table)
    ):
        return None
    return {int(node): below for node, below in table.items()}


def _rank_paths(children: Mapping[int, Any]) -> list[tuple[int, ...]]:
    """Rank path of every node but the root.

    Raises:
        InputError: a node with two parents, or children that are no list of whole numbers.
    """
    paths: dict[int, tuple[int, ...]] = {0: ()}
    waiting = [0]
    for node in waiting:
        for rank, child in enumerate(
            _whole_numbers(children.get(node, ()), f"children of node {node}")
        ):
            if child in paths:
                raise InputError(
                    "every node has one parent", key=f"children of node {node}", value=child
                )
            paths[child] = (*paths[node], rank)
            waiting.append(child)
            if len(paths) > MAX_NODES or len(paths[child]) > MAX_LEVELS:
                raise InputError(
                    f"a tree has 1..{MAX_NODES} nodes on at most {MAX_LEVELS} levels", key="nodes"
                )
    if lost := [node for node, below in children.items() if below and node not in paths]:
        raise InputError("every node must hang below node 0", key=f"children of node {lost[0]}")
    return list(paths.values())[1:]


def chain_tree(draft_tokens: int) -> Tree:
    """The chain of K draft tokens as a tree.

    Args:
        draft_tokens: K >= 0.

    Raises:
        InputError: a negative K.
    """
    if draft_tokens < 0:
        raise InputError("must be >= 0", key="draft_tokens", value=draft_tokens)
    return Tree(parents=tuple(range(-1, draft_tokens)), ranks=(0,) * (draft_tokens + 1))


def read_tree(path: str | Path) -> Tree:
    """Read a tree from a file, in its own form or in that of another program.

    Args:
        path: JSON as `Tree.from_json` describes, a tree search's answer where it holds one tree,
            the children of every node (SAM-Decoding); a list of rank paths as Python writes it
            (Medusa, EAGLE; `FILE:NAME` of several); a growmap as torch writes it (Sequoia).

    Raises:
        InputError: the file is absent, too large or not a tree.
    """
    name = str(path)
    file, _, entry = name.rpartition(":") if not is_place(name) else (name, "", "")
    place = Path(file) if file.endswith((".py", ".txt")) else Path(name)
    with naming(name):
        content = read_bounded(place, MAX_FILE_BYTES)
        if content.startswith(b"PK"):
            return Tree.from_json(growmap_values(content))
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            if place.suffix not in (".py", ".txt"):
                raise InputError("must be JSON") from None
            document = paths_of_literal(content.decode(errors="replace"), entry)
        if isinstance(document, dict) and isinstance(document.get("trees"), list):
            if len(document["trees"]) != 1:
                raise InputError(
                    "must hold exactly one tree", key="trees", value=len(document["trees"])
                )
            document = document["trees"][0]
        return Tree.from_json(document)


def _whole_numbers(values: object, name: str) -> tuple[int, ...]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InputError("must be a list of whole numbers", key=name, value=values)
    numbers = tuple(values)
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | np.integer):
            raise InputError("must be whole numbers", key=name, value=number)
    return tuple(int(number) for number in numbers)
