"""How many tokens per step could any tree emit on a recording, were it chosen with the text in
hand?

Three bounds above every tree of so many draft tokens: one tree for all steps, one for every
request, and a tree of its own at every step. Who chooses without knowing the text lies below all of
them. Leaves out seconds, and which tree comes near (`trace_tree`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from costmodel.optimizers.trees.trace_trie import Trie, build_trie
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.oracle import step_oracle


@dataclass(frozen=True, kw_only=True, slots=True)
class TreeBounds:
    """Tokens per step that no tree of `draft_tokens` nodes exceeds on the recording.

    Attributes:
        draft_tokens: nodes, root excluded.
        one_tree: of any static tree.
        tree_per_request: of any choice of one static tree per request.
        tree_per_step: of any choice of a tree at every step.
    """

    draft_tokens: int
    one_tree: float
    tree_per_request: float
    tree_per_step: float


def tree_bounds(
    trace: AcceptanceTrace, draft_tokens: Sequence[int], depth: int
) -> list[TreeBounds]:
    """Bounds for trees of several sizes.

    Args:
        trace: level 2 or more, at least one decoding step.
        draft_tokens: tree sizes, root excluded, each at least 1.
        depth: most draft levels, at least 1.

    Raises:
        InputError: no ranks, no step, or sizes out of range.
    """
    whole, alone = _tries(trace, depth)
    bounds = []
    for count in draft_tokens:
        path = np.ones(min(count, whole.depth) + 1)  # a path of d accepted tokens needs d nodes
        per_step = step_oracle(trace, path, trees=True).tokens_per_cost
        per_request = whole.tokens / sum(trie.least_steps(count) for trie in alone)
        one = whole.tokens / whole.least_steps(count)
        bounds.append(
            TreeBounds(
                draft_tokens=count,
                one_tree=min(one, per_request, per_step),
                tree_per_request=min(per_request, per_step),
                tree_per_step=per_step,
            )
        )
    return bounds


@lru_cache(maxsize=4)
def _tries(trace: AcceptanceTrace, depth: int) -> tuple[Trie, Sequence[Trie]]:
    """The trie of a recording and those of its requests, which no size of a tree changes."""
    alone = [build_trie(trace.select([request]), depth) for request in range(trace.requests)]
    return build_trie(trace, depth), alone
