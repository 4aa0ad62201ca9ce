"""What do a publication's words for a draft's shape mean: how many tokens are drafted, and in how
many levels?

Chains (`gamma=7 chain`, `K=4`), chains side by side (`5x8`), trees by size and depth (`tree size=64
depth=7`, the root counted; `dynamic tree 60 nodes depth 7 top-k 10`) or by level (`static tree 25
nodes (4/8/8/3/2)`), and the windows of lookahead decoding. Leaves out what is accepted of them
(`stated`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from costmodel.method import Method, Shape
from hardware_profiles.errors import InputError
from traces.kinds.tree import MAX_NODES, Tree

MOST_ASSISTED = 64
ASSUMED_LEVELS = 7  # of 64 nodes: 6 to 10 in Sequoia's table 4, root counted
ASSUMED_NODES = 63  # Medusa's
ASSUMED_CHAIN = 5  # what Transformers' assisted generation begins with
_CHAIN = re.compile(
    r"(?<![\w-])(?:gamma|k|k_infer)\s*=\s*(\d+)|block\s*(?:<=)?\s*(\d+)\s+chain|chain max (\d+)",
    re.IGNORECASE,
)
_GRID = re.compile(r"(?:^|\s)(\d+)\s*x\s*(\d+)(?=\s|$)")
_SIZE = re.compile(r"tree size\s*=\s*(\d+)(?:\s+depth\s*=\s*(\d+))?", re.IGNORECASE)
_MOST = re.compile(r"(?:tree size|trie)\s*<=\s*(\d+)", re.IGNORECASE)
_GRID_SAID = re.compile(r"width\s*(\d+)\s*depth\s*(\d+)", re.IGNORECASE)
_STATES = re.compile(r"S_tr\s*=\s*\(([\d,\s]+)\)\s*S_input\s*=\s*\(([\d,\s]+)\)")
_PASSES = re.compile(r"(\d+) draft passes")
_NODES = re.compile(r"(\d+)\s*(?:nodes|tokens|draft tokens)", re.IGNORECASE)
_DEPTH = re.compile(r"depth\s*=?\s*(\d+)", re.IGNORECASE)
_WIDTH = re.compile(r"top-?k\s*=?\s*(\d+)", re.IGNORECASE)
_LEVELS = re.compile(r"[\[(](\d+(?:\s*[/,]\s*\d+)+)[\])]")
_BARE_TREE = re.compile(r"tree\s*(?:size\s*)?(\d+)", re.IGNORECASE)
_WINDOW = re.compile(
    r"(?:n\s*=\s*|level\s+)(\d+),?\s*(?:w\s*=\s*|window\s+)(\d+),?\s*(?:g\s*=\s*|guess\s+)(\d+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class StatedShape:
    """A draft's shape as a publication states it.

    Attributes:
        chain: draft tokens of a chain; None for other shapes.
        tree: a static tree whose levels are known, as wide as stated; its ranks say nothing.
        shape: numbers of a tree, window or block.
        remark: what was assumed of it; empty for nothing.
    """

    chain: int | None = None
    tree: Tree | None = None
    shape: Shape | None = None
    remark: str = ""

    @property
    def claimed(self) -> int | Tree | Shape | None:
        """As `costmodel.laws.claims` takes it; None where nothing is known."""
        return self.chain if self.chain is not None else self.tree or self.shape

    @property
    def levels(self) -> int:
        """Draft levels; 0 where nothing is known."""
        if self.chain is not None:
            return self.chain
        return (
            self.tree.depth - 1
            if self.tree is not None
            else (self.shape.depth if self.shape is not None else 0)
        )


def stated_shape(text: str, method: Method, *, least_levels: int = 1) -> StatedShape:
    """The shape that some words state, or the entry's own where they state none.

    Args:
        text: words of a table.
        method: whose draft it is; says what a tree without further words is.
        least_levels: levels that a tree of unknown depth has at least, so that it can emit what is
            stated.

    Raises:
        InputError: a shape too large to price.

    Example:
        >>> from costmodel.method_library import load_method
        >>> eagle = load_method("eagle-2")
        >>> stated_shape("gamma=7 chain", eagle).chain, stated_shape("static tree 25 nodes (4/8/8/3/2)", eagle).levels
        (7, 5)
    """
    if window := _WINDOW.search(text):
        level, width, guess = (int(count) for count in window.groups())
        own = replace(
            method.shape,
            kind="window",
            nodes=_bounded(level - 1),
            guesses=_bounded(guess),
            riding=_bounded(width * (level - 1)),
        )
        return StatedShape(chain=level - 1, shape=own)
    if states := _STATES.search(text):
        trees, inputs = ([int(width) for width in part.split(",")] for part in states.groups())
        remark = "every step is taken to be in the last state, the one with most prompt tokens"
        # inputs are candidates and prompt tokens behind them; the code puts the root and its prompt
        # tokens on top
        shape = Shape(
            kind="state_trees", nodes=_bounded(inputs[-1]), depth=len(trees), riding=len(trees)
        )
        return StatedShape(shape=shape, remark=remark)
    for reads in (_dynamic, _levelled, _by_size, _of_unknown_size):
        tree = reads(text, method, least_levels)
        if tree is not None:
            return tree
    if match := _CHAIN.search(text):
        length = _bounded(int(next(group for group in match.groups() if group)))
        if method.shape.kind == "window":  # one block, without guesses beside it
            return StatedShape(
                chain=length, shape=replace(method.shape, nodes=length, guesses=1, riding=0)
            )
        return StatedShape(chain=length)
    return _own(text, method, least_levels)


def _dynamic(text: str, method: Method, least_levels: int) -> StatedShape | None:
    """A tree that is chosen anew at every step."""
    nodes, depth, width = _NODES.search(text), _DEPTH.search(text), _WIDTH.search(text)
    if "dynamic" not in text or nodes is None or _MOST.search(text):
        return None
    kept = _bounded(
        int(nodes[1]) - ("nodes" in nodes[0])
    )  # `60 nodes` count the root, draft tokens do not
    beam = int(width[1]) if width else method.shape.beam
    levels = int(depth[1]) if depth else max(method.shape.depth, least_levels)
    return StatedShape(
        shape=Shape(kind="dynamic_tree", nodes=kept, depth=levels, width=beam, beam=beam)
    )


def _levelled(text: str, method: Method, least_levels: int) -> StatedShape | None:
    """A tree of which every level is known."""
    if levels := _LEVELS.search(text):
        return StatedShape(
            tree=tree_of_levels([int(width) for width in re.split(r"[/,]", levels[1])])
        )
    grid = _GRID.search(text) or _GRID_SAID.search(text)
    return StatedShape(tree=side_by_side(int(grid[1]), int(grid[2]))) if grid else None


def _by_size(text: str, method: Method, least_levels: int) -> StatedShape | None:
    """A static tree of which the number of tokens is known."""
    if sized := _SIZE.search(text):
        return _sized(
            int(sized[1]) - 1, int(sized[2]) - 1 if sized[2] else None, least_levels
        )  # the root is counted
    if most := _MOST.search(text):
        return _sized(int(most[1]), None, least_levels)
    nodes, depth = _NODES.search(text), _DEPTH.search(text)
    bare = (
        nodes
        if nodes and "tree" in text
        else None
        if _CHAIN.search(text)
        else _BARE_TREE.search(text)
    )
    if bare is None:
        return None
    return _sized(
        int(bare[1]), int(depth[1]) if depth else method.shape.depth or None, least_levels
    )


def _of_unknown_size(text: str, method: Method, least_levels: int) -> StatedShape | None:
    """A tree of which the source says that its size is not stated, or how many passes draft it."""
    passes, depth = _PASSES.search(text), _DEPTH.search(text)
    if "size unstated" not in text and passes is None:
        return None
    levels = int(depth[1]) if depth else None
    if passes and method.draft:
        levels = int(passes[1]) * max(method.draft[0].depths_per_pass, 1)
    nodes = method.shape.nodes or ASSUMED_NODES
    sized = _sized(nodes, levels, least_levels)
    remark = f"the tree's size is not stated: {nodes} tokens ASSUMED"
    return replace(sized, remark="; ".join(filter(None, (remark, sized.remark))))


def side_by_side(chains: int, length: int) -> Tree:
    """Chains of so many tokens that start from the root, one beside the other."""
    _bounded(chains * length)
    return Tree.from_paths(
        [(chain, *[0] * level) for chain in range(chains) for level in range(length)]
    )


def _sized(nodes: int, depth: int | None, least_levels: int) -> StatedShape:
    """A tree by its number of tokens, whose nodes are shared out evenly over its levels."""
    nodes = _bounded(nodes)
    levels = depth if depth is not None else min(max(ASSUMED_LEVELS, least_levels), nodes)
    remark = "" if depth is not None else f"the tree's depth is not stated: {levels} levels ASSUMED"
    return StatedShape(
        shape=Shape(kind="static_tree", nodes=nodes, depth=max(levels, 1)), remark=remark
    )


def _own(text: str, method: Method, least_levels: int) -> StatedShape:
    """The entry's own shape where the words state none, else a chain of the usual length."""
    own = method.shape
    if not own.nodes or (own.kind not in ("chain", "window") and "chain" in text):
        length = max(ASSUMED_CHAIN, least_levels)
        return StatedShape(
            chain=length, remark=f"the draft length is not stated: {length} tokens ASSUMED"
        )
    remark = "the row states no shape: the entry's own"
    if own.kind in ("chain", "window"):
        return StatedShape(chain=max(own.nodes, least_levels), shape=own, remark=remark)
    depth = own.depth or min(max(ASSUMED_LEVELS, least_levels), own.nodes)
    return StatedShape(shape=replace(own, depth=max(depth, least_levels)), remark=remark)


def tree_of_levels(counts: Sequence[int]) -> Tree:
    """A tree with so many nodes at each level; a level's nodes are shared out among the first of
    the level above.

    Parents take as many children as they must and no more, so that few of them have any: the drafts
    are as cheap as such a tree allows.

    Raises:
        InputError: no node on a level, or too many in all.

    >>> tree_of_levels([2, 3]).parents
    (-1, 0, 0, 1, 1, 2)
    """
    if not counts or min(counts) < 1:
        raise InputError(
            "a tree has at least one node on every level", key="tree_or_gamma", value=list(counts)
        )
    _bounded(sum(counts))
    paths: list[tuple[int, ...]] = [()]
    above: list[tuple[int, ...]] = [()]
    for count in counts:
        share = -(-count // len(above))
        level = [(*parent, rank) for parent in above for rank in range(share)][:count]
        paths += level
        above = level
    return Tree.from_paths(paths[1:])


def assisted_length(tokens_per_step: float) -> int:
    """Draft tokens at which the schedule of Transformers' assisted generation settles.

    Two more after a step that keeps all of them, one fewer after any other: at a third of steps of
    the first kind it stays where it is, so that a^K = 1/3 for tokens that are kept with the same
    probability a.

    Args:
        tokens_per_step: emitted there, > 1.

    Reference: transformers/generation/candidate_generator.py, num_assistant_tokens_schedule
    "heuristic".

    >>> assisted_length(2.28)
    3
    """

    def emitted(length: int) -> float:
        rate = (1.0 / 3.0) ** (1.0 / length)
        return float(sum(rate**depth for depth in range(length + 1)))

    return min(
        range(1, MOST_ASSISTED + 1), key=lambda length: abs(emitted(length) - tokens_per_step)
    )


def _bounded(tokens: int) -> int:
    if not 1 <= tokens < MAX_NODES:
        raise InputError(
            f"must be 1 to {MAX_NODES - 1} draft tokens", key="tree_or_gamma", value=tokens
        )
    return tokens
