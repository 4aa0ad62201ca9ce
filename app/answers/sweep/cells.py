"""Which cells does a sweep have, in which order, and in which pieces are they computed?

Cells that share model, device, engine, tensor-parallel devices and drafter are a group, whose
batches and contexts are evaluated together. A shard is what one worker computes at once; shards
follow from the sweep alone, never from how many workers there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from app.answers.sweep.file import Sweep
from app.answers.sweep.table import SweepCell

MOST_POINTS = 512
"""Batches and contexts of a group that are evaluated together."""
MOST_GROUPS = 16
"""Groups of a shard: what is lost when a worker is."""
PLAIN = "plain-decoding"


@dataclass(frozen=True, kw_only=True)
class CellGroup:
    """Cells that differ in batch and context alone.

    Args:
        model: target, as written.
        device: as written.
        engine: as written.
        tensor_parallel: devices that share the model.
        drafter: as written; a trace's name; `plain-decoding` where the sweep names none.
        recorded: the drafter is a trace.
    """

    model: str
    device: str
    engine: str
    tensor_parallel: int
    drafter: str
    recorded: bool

    def cell(self, batch: int, context: int) -> SweepCell:
        """A cell of the group, without an answer."""
        return SweepCell(
            model=self.model,
            device=self.device,
            engine=self.engine,
            tensor_parallel=self.tensor_parallel,
            drafter=self.drafter,
            batch=batch,
            context=context,
            feasible=False,
        )


class Cells:
    """The cells of a sweep, by group and shard."""

    def __init__(self, sweep: Sweep) -> None:
        lists = sweep.lists
        named = [(text, False) for text in lists.drafters] + [(text, True) for text in lists.traces]
        self._axes: list[Sequence[Any]] = [
            lists.models,
            lists.devices,
            lists.engines,
            lists.tensor_parallel,
            named or [(PLAIN, False)],
        ]
        self._batches, self._contexts = lists.batches, lists.contexts
        self.points = len(self._batches) * len(self._contexts)
        self.groups = 1
        for axis in self._axes:
            self.groups *= len(axis)
        self._pieces = -(-self.points // MOST_POINTS)  # of a group
        self._together = (
            1 if self._pieces > 1 else max(1, min(MOST_POINTS // self.points, MOST_GROUPS))
        )

    @property
    def count(self) -> int:
        """All cells."""
        return self.groups * self.points

    @property
    def shards(self) -> int:
        """Pieces that are computed at once."""
        return self.groups * self._pieces if self._pieces > 1 else -(-self.groups // self._together)

    def group(self, index: int) -> CellGroup:
        """A group by its place; the drafter changes fastest."""
        chosen = []
        for axis in reversed(self._axes):
            index, at = divmod(index, len(axis))
            chosen.append(axis[at])
        (drafter, recorded), tensor_parallel, engine, device, model = chosen
        return CellGroup(
            model=model,
            device=device,
            engine=engine,
            tensor_parallel=tensor_parallel,
            drafter=drafter,
            recorded=recorded,
        )

    def size(self, shard: int) -> int:
        """Cells of a shard."""
        return sum(len(batches) for _, batches, _ in self.blocks(shard))

    def blocks(self, shard: int) -> Iterator[tuple[CellGroup, list[int], list[int]]]:
        """Groups of a shard, each with the batch and the context of every cell, in the order of
        rows.
        """
        if self._pieces > 1:
            index, piece = divmod(shard, self._pieces)
            places = range(piece * MOST_POINTS, min((piece + 1) * MOST_POINTS, self.points))
            yield (self.group(index), *self._at(places))
            return
        for index in range(shard * self._together, min((shard + 1) * self._together, self.groups)):
            yield (self.group(index), *self._at(range(self.points)))

    def _at(self, places: range) -> tuple[list[int], list[int]]:
        width = len(self._contexts)
        return [self._batches[i // width] for i in places], [
            self._contexts[i % width] for i in places
        ]
