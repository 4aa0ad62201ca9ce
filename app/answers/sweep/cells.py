"""Which cells does a sweep have, in which order, and in which pieces are they computed?

Cells that share model, device, engine, tensor-parallel devices and drafter are a group, whose
batches and contexts, or loads, are evaluated together. A shard is what one worker computes at once; shards
follow from the sweep alone, never from how many workers there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from app.answers.sweep.file import Sweep
from app.answers.sweep.table import SweepCell

MOST_POINTS = 512
"""Batches and contexts, or loads, of a group that are evaluated together."""
MOST_GROUPS = 16
"""Groups of a shard: what is lost when a worker is."""
PLAIN = "plain-decoding"


@dataclass(frozen=True, kw_only=True)
class CellGroup:
    """Cells that differ in batch and context, or in their load, alone.

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

    def cell(self, **point: Any) -> SweepCell:
        """A cell of the group, without an answer.

        Args:
            point: its batch and context, or its load.
        """
        return SweepCell(
            model=self.model,
            device=self.device,
            engine=self.engine,
            tensor_parallel=self.tensor_parallel,
            drafter=self.drafter,
            **point,
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
        self._points = lists.points
        self.points = prod(map(len, self._points.values()))
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
        return sum(len(places) for _, places in self._pieces_of(shard))

    def blocks(self, shard: int) -> Iterator[tuple[CellGroup, list[SweepCell]]]:
        """Groups of a shard, each with its cells in the order of rows."""
        for index, places in self._pieces_of(shard):
            group = self.group(index)
            yield group, [group.cell(**self._point(place)) for place in places]

    def _pieces_of(self, shard: int) -> Iterator[tuple[int, range]]:
        """Groups of a shard, and which of their cells it has."""
        if self._pieces > 1:
            index, piece = divmod(shard, self._pieces)
            first = piece * MOST_POINTS
            yield index, range(first, min(first + MOST_POINTS, self.points))
            return
        for index in range(shard * self._together, min((shard + 1) * self._together, self.groups)):
            yield index, range(self.points)

    def _point(self, place: int) -> dict[str, Any]:
        """The batch and the context of a cell of a group, or its load; the last changes fastest."""
        point = {}
        for name, values in reversed(self._points.items()):
            place, at = divmod(place, len(values))
            point[name] = values[at]
        return point
