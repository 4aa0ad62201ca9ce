"""Which static trees have systems published, and what would they emit on a recording?

Shapes as their authors tuned them for their own models. Leaves out trees that change with every
step.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree
from traces.replay.walk import replay_tree


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedTree:
    """A shape and where it comes from.

    Args:
        name: system and size.
        source: file and paper.
        tree: the shape.
    """

    name: str
    source: str
    tree: Tree


@lru_cache(maxsize=1)
def published_trees() -> tuple[PublishedTree, ...]:
    """The published trees that come with the dashboard."""
    path = Path(__file__).parent / "published_trees.json"
    entries = json.loads(path.read_text(encoding="utf-8"))
    return tuple(
        PublishedTree(
            name=entry["name"], source=entry["source"], tree=Tree.from_paths(entry["paths"])
        )
        for entry in entries
    )


def within(tree: Tree, *, width: int, depth: int | None = None) -> Tree:
    """The part of a tree whose paths stay inside recorded candidates; it may be the root alone.

    Args:
        tree: the shape.
        width: candidates recorded per position.
        depth: draft levels recorded; None for any.
    """
    recorded_paths = [
        path for path in tree.paths() if max(path) < width and (depth is None or len(path) <= depth)
    ]
    return Tree.from_paths(recorded_paths)


def tokens_per_step(trace: AcceptanceTrace, tree: Tree) -> float:
    """Pooled emitted tokens per step of a tree, a candidate that was not recorded counted as never
    right.

    Args:
        trace: level 2 or more.
        tree: the shape.

    Raises:
        InputError: a recording without ranks.
    """
    return float(
        replay_tree(trace, within(tree, width=trace.rank_width, depth=trace.depth)).tokens_per_step
    )
