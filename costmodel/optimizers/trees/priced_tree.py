"""Which tree is fastest, if every level costs a draft pass as wide as its parents, and every node a
row to verify?

Tokens per second are a ratio: its best value is the rate at which no tree emits more tokens than
its seconds are worth (Dinkelbach). For a rate the best tree is found under draft passes that cost
no more than true ones, with any curve of verify seconds over nodes and any seconds by depth: a line
below the passes over their width, where a node with children is charged by the probability that it
is reached. Trees are scored with their true seconds; what was charged less is the gap, which is
none where width costs nothing. Leaves out where seconds come from (`tree_price`), and correlation
between depths (`trace_tree`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.answers.steps.step import expansion_widths
from costmodel.optimizers.acceptance_vectors import AcceptanceVectors, acceptance_levels
from costmodel.optimizers.trees.certificate import EXACT, Certificate
from costmodel.optimizers.trees.max_plus import INFEASIBLE, Values
from costmodel.optimizers.trees.runtime_trees import expected_tokens
from costmodel.optimizers.trees.static_tree import grown_tree, tree_tables
from hardware_profiles.errors import InputError
from traces.kinds.tree import Tree, chain_tree

Seconds = NDArray[np.float64]
DraftSeconds = Callable[[Sequence[int]], float]
_MOST_ROUNDS = 60
_WIDTHS = (
    *range(2, 17),
    20,
    24,
    28,
    32,
    40,
    48,
    64,
    80,
    96,
    128,
    192,
    256,
    384,
    512,
    768,
    1024,
    1536,
    2048,
)
_EQUAL = 1e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class TreePrice:
    """Seconds of the steps of a batch.

    Attributes:
        plain_s: of a step without a draft.
        verify_s: of the verify pass and all else but draft passes, of 1, 2, ... nodes per request,
            root included: shape [nodes], any curve; inf where that many cannot run.
        draft_s: of the draft passes, by the nodes with children per level, the root's level first.
            Wider levels cost no less, and the passes of the levels add up.
        accepted_s: what every accepted draft token of a request adds to the step of its batch.
        requests: of the batch.
    """

    plain_s: float
    verify_s: Seconds
    draft_s: DraftSeconds
    accepted_s: float = 0.0
    requests: int = 1

    def step_s(self, tree: Tree, tokens_per_step: float) -> float:
        """Seconds of a step with a tree that emits so many tokens; the root alone is no draft."""
        if tree.nodes == 1:
            return self.plain_s
        accepted_s = self.accepted_s * (tokens_per_step - 1.0)
        return (
            float(self.verify_s[tree.nodes - 1]) + self.draft_s(expansion_widths(tree)) + accepted_s
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PricedTree:
    """The fastest tree that was found; the root alone where no draft pays.

    Attributes:
        tree: its shape.
        tokens_per_step: expected emitted tokens, bonus included.
        step_s: seconds of its step.
        tokens_per_s: of the batch.
        certificate: how many tokens per second any tree of the budget can be above it.
    """

    tree: Tree
    tokens_per_step: float
    step_s: float
    tokens_per_s: float
    certificate: Certificate


def fastest_tree(acceptance: AcceptanceVectors, price: TreePrice, depth: int) -> PricedTree:
    """The tree of most tokens per second, of any size up to the verify seconds that are known.

    Example:
        >>> price = TreePrice(plain_s=1.0, verify_s=np.linspace(1.0, 1.6, 7), draft_s=lambda widths: 0.2 * len(widths))
        >>> fastest_tree([0.6, 0.3], price, depth=4).tree.paths()
        ((0,), (1,), (0, 0), (0, 1), (1, 0))

    Args:
        acceptance: sibling vector, or one vector per draft depth.
        price: seconds of steps.
        depth: most levels, root included, at least 1.

    Raises:
        InputError: probabilities, levels or seconds out of range.

    Reference:
        Dinkelbach 1967, "On Nonlinear Fractional Programming"; Sequoia, Chen et al. 2024 (arXiv
        2402.12374), weighs its trees by a verify time per size and one draft time per level.
    """
    if (
        depth < 1
        or price.verify_s.size < 1
        or not price.plain_s > 0
        or not np.all(price.verify_s > 0)
    ):
        raise InputError("needs at least one level and seconds > 0", key="depth", value=depth)
    nodes = price.verify_s.size
    vectors, by_depth = acceptance_levels(acceptance, min(depth, nodes))
    line = _line(price.draft_s, len(vectors), nodes)
    best = chain_tree(0)
    # an accepted token's own seconds are the same for all trees: rates without them have the same
    # order
    best_rate = rate = 1.0 / (price.plain_s - price.accepted_s)
    hopeful = list(range(1, len(vectors) + 1))
    for _ in range(_MOST_ROUNDS):
        # Dinkelbach's step: the trees with the greatest tokens - rate * seconds; the highest of
        # their rates by the charged seconds is the next rate, until none is higher
        higher = rate
        by_depth_trees = _at_rate(
            vectors, hopeful, by_depth=by_depth, price=price, line=line, rate=rate
        )
        for tree, relaxed in by_depth_trees.values():
            higher = max(higher, relaxed)
            tokens = expected_tokens(tree, vectors)
            own_rate = tokens / (price.step_s(tree, tokens) - price.accepted_s * tokens)
            if own_rate > best_rate:
                best, best_rate = tree, own_rate
        if higher <= rate * (1.0 + _EQUAL):
            break
        # what a depth is worth falls as the rate rises: one that is worth nothing already has no
        # faster tree
        hopeful = [depth for depth, (_, relaxed) in by_depth_trees.items() if relaxed > rate]
        rate = higher
    tokens = expected_tokens(best, vectors)
    step_s = price.step_s(best, tokens)
    gap = (
        price.requests / (1.0 / max(rate, best_rate) + price.accepted_s)
        - price.requests * tokens / step_s
    )
    return PricedTree(
        tree=best,
        tokens_per_step=tokens,
        step_s=step_s,
        tokens_per_s=price.requests * tokens / step_s,
        certificate=(
            EXACT if rate <= best_rate * (1.0 + _EQUAL) else Certificate(kind="bound", gap=gap)
        ),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Line:
    """Draft seconds from below: `by_depth[d]` for d draft levels of one node each, `slope` per
    further node.
    """

    by_depth: list[float]
    slope: float


def _line(draft_s: DraftSeconds, levels: int, nodes: int) -> _Line:
    """The steepest line that lies below the draft passes of every level; a width between two priced
    ones is charged as the narrower.

    Levels may cost unlike amounts; the least slope of all of them holds for each.
    """
    by_depth = [0.0] + [draft_s([1] * depth) for depth in range(1, levels + 1)]
    widest = (nodes - 1) // 2  # every parent of a level below the root's needs a child
    slopes = []
    for depth in range(2, levels + 1):
        base = narrower = by_depth[depth]
        before = 1
        for width in [
            *(width for width in _WIDTHS if width < widest),
            *([widest] if widest > 1 else []),
        ]:
            # widths between the two cost at least what the narrower one does
            if width - 1 > before:
                slopes.append((narrower - base) / (width - 2))
            narrower, before = draft_s([1] * (depth - 1) + [width]), width
            slopes.append((narrower - base) / (width - 1))
    return _Line(by_depth=by_depth, slope=max(min(slopes, default=0.0), 0.0))


def _at_rate(
    vectors: Sequence[Values],
    depths: Sequence[int],
    *,
    by_depth: bool,
    price: TreePrice,
    line: _Line,
    rate: float,
) -> dict[int, tuple[Tree, float]]:
    """For numbers of draft levels the tree that is worth most at a rate, with its rate by the
    seconds charged.
    """
    nodes, trees = price.verify_s.size, {}
    whole = None if by_depth else tree_tables(vectors, nodes, rate * line.slope)
    for depth in depths:
        values, forests = (
            tree_tables(vectors[:depth], nodes, rate * line.slope) if whole is None else whole
        )
        if depth > len(forests):
            break
        row = forests[depth - 1][0]
        base = (
            price.verify_s[: row.size]
            - price.accepted_s
            + line.by_depth[depth]
            - line.slope * (depth - 1)
        )
        worth = np.where(
            (row > INFEASIBLE) & np.isfinite(base), 1.0 + row - rate * base, INFEASIBLE
        )
        worth[0] = INFEASIBLE
        at = int(np.argmax(worth))
        if worth[at] == INFEASIBLE:
            continue
        tree = grown_tree(vectors[:depth], values, forests[:depth], at + 1)
        tokens = expected_tokens(tree, vectors)
        seconds = (tokens - float(worth[at])) / rate  # what the tables charged it
        trees[depth] = (tree, tokens / seconds)
    return trees
