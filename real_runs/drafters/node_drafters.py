"""How does a drafter that reads single nodes draft chains and trees, and how is a trained head one?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from torch import nn

from real_runs.decoding.drafting import NodeReader
from real_runs.decoding.tree_speculative import by_levels
from real_runs.drafters.drafter import Drafter, LoopDrafter, RecordedDrafter
from real_runs.drafters.expansion import ExpansionLimits, TextReader
from real_runs.drafters.heads.head_store import HeadStore
from real_runs.drafters.heads.head_training import HeadTraining
from real_runs.drafters.observed import by_depth_drafter
from real_runs.drafters.options import DrafterOptions
from real_runs.drafters.target import Target
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama
from traces.kinds.tree import chain_tree

Head = TypeVar("Head", bound=nn.Module)


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


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedHead(Generic[Head]):
    """A head that is trained on the target's own text and drafts level by level.

    Attributes:
        method: slug of the decoding method.
        title: what progress and, in small letters, its file call it.
        training: how it is trained, where no steps are stated.
        blank: an untrained head of a target, by its drafters' options.
        size: what tells a head from others of its kind; options of `fit`.
        fit: trains one; called with the target's model, its text, the training, the size and
            `report`.
        levels: that it drafts.
        text: reads finished texts with it.
        reader: reads nodes with it in a loop; None: no loop decodes with it.
        drafted_by: what drafts, in words.
        notes: on what a level's candidates depend.
    """

    method: str
    title: str
    training: HeadTraining
    blank: Callable[[Llama, DrafterOptions], Head]
    size: Callable[[Head], Mapping[str, Any]]
    fit: Callable[..., Head]
    levels: Callable[[Head], int]
    text: Callable[[Llama, Head], TextReader]
    reader: Callable[[Llama, Head], NodeReader] | None = None
    drafted_by: Callable[[Head], str]
    notes: Callable[[Head], str]

    def trained(self, store: HeadStore, options: DrafterOptions) -> tuple[Head, dict[str, Any]]:
        """The head as kept in a store, or trained now, and the parameters that tell it from
        others.
        """
        blank = self.blank(store.model, options)
        return store.trained(blank, self.title, self.training, self.fit, size=self.size(blank))

    def observed(
        self,
        model: Llama,
        head: Head,
        *,
        parameters: Mapping[str, Any],
        limits: ExpansionLimits | None = None,
    ) -> RecordedDrafter:
        """What a head would have drafted, as a recording sees it."""
        return by_depth_drafter(
            self.text(model, head),
            limits,
            self.levels(head),
            title=self.drafted_by(head),
            parameters=parameters,
            notes=self.notes(head),
        )

    def drafter(self) -> Drafter:
        """The entry of the registry."""
        return Drafter(
            method=self.method,
            records="probabilities",
            observe=self._observe,
            propose=None if self.reader is None else self._propose,
            serves_batches=False,
        )

    def _observe(self, target: Target) -> RecordedDrafter:
        head, parameters = self.trained(target.heads, target.options)
        return self.observed(target.model, head, parameters=parameters, limits=target.limits)

    def _propose(self, target: Target) -> LoopDrafter:
        assert self.reader is not None
        read, (head, _) = self.reader, self.trained(target.heads, target.options)
        return read_drafter(lambda: read(target.model, head))
