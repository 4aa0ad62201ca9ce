"""How does a drafter that reads single nodes draft chains and trees, and how is a trained head one?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from real_runs.decoding.drafting import NodeReader
from real_runs.decoding.tree_speculative import by_levels
from real_runs.drafters.drafter import Drafter, LoopDrafter, RecordedDrafter
from real_runs.drafters.target import Target
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama
from traces.kinds.tree import chain_tree

Head = TypeVar("Head")


class Chain:
    """Proposes chains with a reader: trees of one branch.

    Attributes:
        reader: shown the target's states by the loop if it watches them.
    """

    def __init__(self, reader: NodeReader) -> None:
        self.reader = reader
        self._propose = by_levels(reader)

    def __call__(self, prefix: Sequence[int], cache: KVCache, most: int) -> list[int]:
        """Propose `most` tokens after `prefix`: the form `speculate` calls."""
        return self._propose(prefix, cache, chain_tree(most))[1:]


def read_drafter(reader: Callable[[], NodeReader]) -> LoopDrafter:
    """A drafter of chains and trees that reads its own nodes."""
    return LoopDrafter(
        chain=lambda: Chain(reader()), tree=lambda: by_levels(reader()), reader=reader
    )


def trained_drafter(
    *,
    method: str,
    trained: Callable[[Target], tuple[Head, Mapping[str, Any]]],
    observed: Callable[..., RecordedDrafter],
    reader: Callable[[Llama, Head], NodeReader] | None = None,
) -> Drafter:
    """The entry of a head that is trained on the target's own text.

    Args:
        method: slug of the decoding method.
        trained: the head of a target and the parameters that tell it from others.
        observed: what it leaves in a recording; called with the target's model, the head,
            `parameters` and `limits`.
        reader: reads nodes with it; None: no loop decodes with it.
    """

    def observe(target: Target) -> RecordedDrafter:
        head, parameters = trained(target)
        return observed(target.model, head, parameters=parameters, limits=target.limits)

    def propose(target: Target) -> LoopDrafter:
        assert reader is not None
        read, (head, _) = reader, trained(target)
        return read_drafter(lambda: read(target.model, head))

    return Drafter(
        method=method,
        records="probabilities",
        observe=observe,
        propose=None if reader is None else propose,
        serves_batches=False,
    )
