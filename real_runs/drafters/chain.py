"""How does a drafter that reads single nodes draft chains and trees?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from real_runs.decoding.drafting import NodeReader
from real_runs.decoding.tree_speculative import by_levels
from real_runs.drafters.drafter import LoopDrafter
from real_runs.models.cache import KVCache
from traces.kinds.tree import chain_tree


class Chain:
    """Proposes chains with a reader: trees of one branch.

    Attributes:
        reader: shown the target's states by the loop if it watches them.
    """

    def __init__(self, reader: NodeReader) -> None:
        self.reader = reader
        self._propose = by_levels(reader)

    def __call__(self, known: Sequence[int], cache: KVCache, most: int) -> list[int]:
        """Propose `most` tokens after `known`: the form `speculate` calls."""
        return self._propose(known, cache, chain_tree(most))[1:]


def read_drafter(reader: Callable[[], NodeReader]) -> LoopDrafter:
    """A drafter of chains and trees that reads its own nodes."""
    return LoopDrafter(
        chain=lambda: Chain(reader()), tree=lambda: by_levels(reader()), reader=reader
    )
