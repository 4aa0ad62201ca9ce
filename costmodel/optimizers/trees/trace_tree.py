"""Which tree emits most tokens per step on a recorded text, correlations and all?

The n most frequent rank paths at the positions where steps start are the best n-node tree for those
starts, with no independence assumed. Starts depend on the tree, so trees are iterated until one
repeats, the best replayed one is returned (the sibling-vector tree among them), and leaves are
swapped while a full replay says that it helps. Exact for candidates that are deterministic given
the true prefix. Leaves out what nodes and levels cost, and how the tree does on other text:
`held_out` chooses on one half and replays the other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.optimizers.trees.certificate import Certificate
from costmodel.optimizers.trees.static_tree import AcceptanceVectors, optimal_trees
from costmodel.optimizers.trees.trace_trie import Chosen, Counts, Trie, build_trie
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree
from traces.replay.statistics import sibling_vector, sibling_vectors

MAX_ITERATIONS = 50
MAX_SWAPS = 64
MOST_SWAP_CANDIDATES = 16
SWAP_POSITIONS = (
    20_000_000  # positions replayed per swap at most; fewer pairs are tried on long recordings
)


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceTreeResult:
    """A tree chosen on a recording, beside the sibling-vector tree of as many nodes.

    Attributes:
        draft_tokens: nodes asked for, root excluded. The tree has fewer where the recording knows
            no more paths.
        tree: the tree chosen; it may skip siblings.
        tokens_per_step: its pooled emitted tokens per step, replayed on the recording it was chosen
            on.
        dp_tree: the best tree for the recording's sibling vectors.
        dp_tokens_per_step: the same replay of that tree.
        iterations: trees replayed until one repeated (at most 50), the sibling-vector tree
            included.
        cycle_length: 1 where the iteration reached a fixed point, more where it cycles, 0 where
            neither happened.
        swaps: leaf swaps made.
        certificate: how far above `tokens_per_step` any tree of that size and depth could be on
            this recording.
    """

    draft_tokens: int
    tree: Tree
    tokens_per_step: float
    dp_tree: Tree
    dp_tokens_per_step: float
    iterations: int
    cycle_length: int
    swaps: int
    certificate: Certificate


def trace_tree(
    trace: AcceptanceTrace,
    draft_tokens: Sequence[int] = (8, 16, 32, 64),
    depth: int = 8,
) -> list[TraceTreeResult]:
    """Choose trees on a recording; never worse there than the sibling-vector tree of as many nodes.

    Example:
        >>> trace = AcceptanceTrace(
        ...     offsets=np.array([0, 4]), emitted=np.array([3, 2, 1, 1]),
        ...     rank=np.array([0, 0, 1, 0]), rank_width=2, depth_invariant=True)
        >>> best, = trace_tree(trace, draft_tokens=[2], depth=2)
        >>> best.tree.paths(), best.tokens_per_step
        (((0,), (0, 0)), 2.0)

    Args:
        trace: level 2 or more.
        draft_tokens: tree sizes, root excluded, each at least 1.
        depth: most draft levels, at least 1 (fewer where the recording has fewer).

    Returns:
        One result per entry of `draft_tokens`, in that order.

    Raises:
        InputError: no ranks, no steps, or sizes out of range.
        InfeasibleError: no tree of that many nodes fits the depth and the recorded candidates.
    """
    if not draft_tokens or min(draft_tokens) < 1:
        raise InputError(
            "tree sizes must be 1 or more", key="draft_tokens", value=list(draft_tokens)
        )
    trie = build_trie(trace, depth)
    if trie.tokens == 0:
        raise InputError(
            "the trace has no decoding step to choose on", file=trace.file, key="requests"
        )
    vectors = measured_vectors(trace, trie.depth, max(draft_tokens))
    dp_choices = optimal_trees(vectors, [count + 1 for count in draft_tokens], depth=trie.depth + 1)
    return [
        _searched(trie, count, choice.tree)
        for count, choice in zip(draft_tokens, dp_choices, strict=True)
    ]


def most_frequent(frequencies: Counts, count: int) -> Chosen:
    """The `count` most frequent nodes; ties go to the shallower, then to the lexicographically
    first.

    A node is never more frequent than its parent, and nodes are numbered parents first: the set is
    a tree.

    Args:
        frequencies: int64[t] by node number.
        count: nodes to take; all of them where there are fewer.

    Returns:
        bool[t], true where taken.
    """
    chosen = np.zeros(frequencies.size, dtype=np.bool_)
    chosen[np.argsort(-frequencies, kind="stable")[:count]] = True
    return chosen


def measured_vectors(trace: AcceptanceTrace, depth: int, width: int) -> AcceptanceVectors:
    """The sibling vector over all positions, as published ones are; one per depth if the drafter
    drifts.

    Args:
        trace: level 2 or more.
        depth: draft levels; fewer where no recorded text is that deep.
        width: most siblings.
    """
    siblings = min(width, trace.rank_width)
    if trace.depth_invariant:
        return sibling_vector(trace, siblings)
    longest = int(trace.output_tokens.max()) - trace.first_step_position
    by_depth: list[list[float]] = sibling_vectors(trace, siblings, min(depth, longest)).tolist()
    return by_depth


def _searched(trie: Trie, count: int, dp_tree: Tree) -> TraceTreeResult:
    chosen = dp_chosen = trie.chosen(dp_tree)
    steps = dp_steps = trie.steps(dp_chosen)
    seen: dict[bytes, int] = {}
    candidate = dp_chosen
    while candidate.tobytes() not in seen and len(seen) < MAX_ITERATIONS:
        seen[candidate.tobytes()] = len(seen)
        candidate = most_frequent(trie.frequencies(candidate), count)
        if trie.steps(candidate) < steps:
            chosen, steps = candidate, trie.steps(candidate)
    polished, polished_steps, swaps = _polished(trie, chosen, steps)
    tokens_per_step = trie.tokens / polished_steps
    return TraceTreeResult(
        draft_tokens=count,
        tree=dp_tree if polished_steps == dp_steps else trie.tree(polished),
        tokens_per_step=tokens_per_step,
        dp_tree=dp_tree,
        dp_tokens_per_step=trie.tokens / dp_steps,
        iterations=len(seen),
        cycle_length=len(seen) - seen.get(candidate.tobytes(), len(seen)),
        swaps=swaps,
        certificate=Certificate(
            kind="bound", gap=trie.tokens / trie.least_steps(count) - tokens_per_step
        ),
    )


def _polished(trie: Trie, chosen: Chosen, steps: int) -> tuple[Chosen, int, int]:
    """Swap one leaf for one open node, each time the best replayed pair, while that saves steps."""
    chosen = chosen.copy()
    for swaps in range(MAX_SWAPS):
        leaves, additions = _swap_candidates(trie, chosen)
        fewer, leaf, addition = trie.best_swap(chosen, leaves, additions)
        if fewer >= steps:
            return chosen, steps, swaps
        chosen[leaf], chosen[addition] = False, True
        steps = fewer
    return chosen, steps, MAX_SWAPS


def _swap_candidates(trie: Trie, chosen: Chosen) -> tuple[Counts, Counts]:
    """The least frequent nodes that nothing needs, and the most frequent open ones, where steps
    start now.
    """
    frequencies = trie.frequencies(chosen)
    candidates = max(
        2, min(MOST_SWAP_CANDIDATES, math.isqrt(SWAP_POSITIONS // max(1, trie.tokens)))
    )
    needed = np.zeros(trie.nodes + 1, dtype=np.bool_)
    needed[trie.parents[chosen]] = True
    open_for = np.append(chosen, True)[trie.parents] & ~chosen  # the root, -1, reads the last entry
    leaves = np.flatnonzero(chosen & ~needed[:-1])
    additions = np.flatnonzero(open_for)
    leaves = leaves[np.argsort(frequencies[leaves], kind="stable")][:candidates]
    additions = additions[np.argsort(-frequencies[additions], kind="stable")][:candidates]
    return leaves, additions
