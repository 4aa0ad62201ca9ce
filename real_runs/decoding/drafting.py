"""What does a loop ask of a drafter?

The forms that drafters take: proposers that name tokens outright, readers that have logits after
any node, and watchers that look at the target's states. Leaves out the loops and every drafter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import torch

from real_runs.models.cache import KVCache
from traces.kinds.tree import Tree

Proposer = Callable[[Sequence[int], KVCache, int], list[int]]
"""Prompt and output ids so far, the target's cache of all but the last of them, K -> up to K
drafted ids."""

TreeProposer = Callable[[Sequence[int], KVCache, Tree], list[int]]
"""Prompt and output ids so far, the target's cache of all but the last of them, a tree in level
order -> token of every node."""

Learner = Callable[[Sequence[int], torch.Tensor], None]
"""Ids that the target has read and its logits after each of them [T, vocabulary]."""


class NodeReader(Protocol):
    """A drafter that reads a node and then has logits for its children."""

    def after_prefix(self, prefix: Sequence[int], cache: KVCache) -> torch.Tensor:
        """Logits [vocabulary] after the last id of `prefix`, the prompt and output ids so far;
        `cache` is the target's, of all ids but that one.
        """

    def after_nodes(
        self,
        tokens: Sequence[int],
        cache: KVCache,
        *,
        start: int,
        positions: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """Logits [T, vocabulary] after T nodes, which lie in the slots from `start` on.

        Args:
            tokens: ids of the nodes; no node is another's ancestor.
            cache: the target's.
            start: slot of the first of them; the slots before it hold the prefix and nodes read
                earlier.
            positions: position of every node in the text [T].
            mask: which slots every node sees, bool [T, start + T].
        """


@runtime_checkable
class BlockReader(Protocol):
    """A drafter that has logits of every level of a draft after one pass, whatever stands above."""

    def block(self, prefix: Sequence[int], cache: KVCache, levels: int) -> torch.Tensor:
        """Logits [D, vocabulary] of the D <= `levels` tokens after the last id of `prefix`, the
        prompt and output ids so far; `cache` is the target's, of all ids but that one.
        """


@runtime_checkable
class Watcher(Protocol):
    """A drafter that looks at the target's hidden states.

    Attributes:
        capture: layer counts whose hidden states the loop captures in every pass of the target.
    """

    capture: tuple[int, ...]

    def watch(
        self, tokens: Sequence[int], hidden: Mapping[int, torch.Tensor], accepted: Sequence[int]
    ) -> None:
        """Called once after the prefill and once after every verify pass.

        Args:
            tokens: what the target read in the pass.
            hidden: its states by layer count, [T, width]; row i is the state after reading
                `tokens[i]`.
            accepted: rows that stay: all of the prompt, or the accepted path, root first,
                ascending.
        """


def watcher_of(drafter: object) -> Watcher | None:
    """The watcher that a drafter is, or that its attribute `reader` is; None where neither looks at
    states.
    """
    for part in (drafter, getattr(drafter, "reader", None)):
        if isinstance(part, Watcher):
            return part
    return None


def learner_of(drafter: object) -> Learner | None:
    """What takes the target's answers for a drafter; None where it wants none."""
    learn: Learner | None = getattr(drafter, "learn", None)
    return learn
