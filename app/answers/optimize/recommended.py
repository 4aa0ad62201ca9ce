"""What does `optimize` answer? What to run at every batch and context, of one cell or of several."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

from app.answers.answer import Answer, Row, Table
from app.answers.cells import LISTED, MarkedCell, reason_lines, several
from app.answers.deployables import Deployable, file_lines, write_all
from app.answers.optimize import words
from app.answers.optimize.counted_words import counted_lines, counted_table
from app.answers.optimize.neighbour_words import neighbour_lines, neighbour_table
from app.answers.optimize.rows import (
    CellRow,
    ChoiceRow,
    ContextScheduleRow,
    Counters,
    DrafterRow,
    Emission,
    Range,
    SharedSchedule,
    TopologyBestRow,
)
from app.answers.sentences import folded
from costmodel.answers.workload import Limits
from costmodel.optimizers.recommend import Recommendation


@dataclass(frozen=True, kw_only=True)
class Background:
    """What stands behind the choices of a cell.

    Attributes:
        inputs: what was asked.
        cells: who wins at every batch and context, and what stands beside.
        schedule: ranges of the drafter that wins first, at the first context.
        schedule_loss_ratio: its mean loss against the best draft length.
        schedules: one per drafter and context.
        context_schedules: one per drafter for all contexts, where there are several.
        dropped_batches: those that were left out, as plain decoding does not fit there.
        drafters: that competed.
        curves: tokens per step of everything compared.
        by_topology: the fastest of every topology.
        exports: paths of files by engine.
        counters: what an engine's counters say, where they were stated.
    """

    inputs: Mapping[str, Any]
    cells: Sequence[CellRow]
    schedule: Sequence[Range]
    schedule_loss_ratio: float
    schedules: Sequence[ContextScheduleRow]
    context_schedules: Sequence[SharedSchedule]
    dropped_batches: Sequence[int]
    drafters: Sequence[DrafterRow]
    curves: Sequence[Emission]
    by_topology: Sequence[TopologyBestRow]
    exports: Mapping[str, Sequence[str]]
    counters: Counters | None = None


@dataclass(frozen=True, kw_only=True)
class Recommended(Background, Answer):
    """The answer for one model, device and engine.

    Attributes:
        choices: the fastest at every batch and context.
        alternatives: the best there of every other drafter.
        unmet: batches and contexts at which nothing is allowed.
        search: what was found.
        limits: that were asked for.
        entries: what every engine loads.
        folder: that files go to; None where none are written.
    """

    name: ClassVar[str] = "recommendation"
    unwritten: ClassVar[tuple[str, ...]] = ("search", "limits", "entries", "folder")
    choices: Sequence[ChoiceRow]
    alternatives: Sequence[ChoiceRow]
    unmet: Sequence[MarkedCell]
    search: Recommendation
    limits: Limits
    entries: Sequence[Deployable]
    folder: Path | None

    @property
    def own_rows(self) -> Sequence[ChoiceRow | MarkedCell]:
        """Choices, alternatives, and what cannot be run."""
        return [*self.choices, *self.alternatives, *self.unmet]

    def shown(self) -> Iterator[Table | str]:
        """Who wins where, what that rests on, and what engines load."""
        yield from _winners(self.inputs, self.limits, [self], self.unmet)
        if self.inputs["explain"]:
            yield from self.explained()
        if self.counters is not None:
            yield counted_table(self.counters)
            yield from map(folded, counted_lines(self.counters))
        yield from map(folded, self._background())
        if self.dropped_batches:
            dropped = ", ".join(map(str, self.dropped_batches))
            yield f"left out, too large for memory: batch {dropped}"
        if self.folder is not None:
            yield from file_lines(self.entries, self.folder)

    def _background(self) -> Iterator[str]:
        """What the acceptance rests on, what ties, and the schedules."""
        yield from words.drafter_lines(self.search, self.by_topology)
        yield from words.margin_lines(self.cells)
        yield from words.schedule_lines(self.search, self.schedules)
        yield from words.shared_schedule_lines(self.search, self.context_schedules)

    def explained(self, name: str = "") -> Iterator[Table | str]:
        """Why each choice is the best, and not its neighbours.

        Args:
            name: of the answer among several; empty for the only one.
        """
        yield neighbour_table(self.cells, name.replace("--", " on ", 1).replace("--", ", "))
        yield from map(folded, neighbour_lines(self.cells))

    def writers(self) -> Sequence[Callable[[Path, Path], object]]:
        """The files that engines load."""
        return [lambda stage, folder: write_all(self.entries, stage)]


@dataclass(frozen=True, kw_only=True)
class CellBackground(Background, Row):
    """What stands behind the choices of one of several cells.

    Attributes:
        folder: of its files, within that of the whole answer.
    """

    folder: str


@dataclass(frozen=True, kw_only=True)
class RecommendedCells(Answer):
    """The answer for several models, devices and engines, or where nothing can be run.

    Attributes:
        choices: of all cells.
        alternatives: of all cells.
        unmet: batches and contexts at which nothing is allowed, of all cells.
        answers: what stands behind the choices of every cell that has any.
        by_folder: the answers of these cells.
        limits: that were asked for.
        folder: that files go to; None where none are written.
    """

    name: ClassVar[str] = "recommendations"
    unwritten: ClassVar[tuple[str, ...]] = ("by_folder", "limits", "folder")
    choices: Sequence[ChoiceRow]
    alternatives: Sequence[ChoiceRow]
    unmet: Sequence[MarkedCell]
    answers: Sequence[CellBackground]
    by_folder: Mapping[str, Recommended]
    limits: Limits
    folder: Path | None

    @property
    def own_rows(self) -> Sequence[ChoiceRow | MarkedCell]:
        """Choices, alternatives, and what cannot be run."""
        return [*self.choices, *self.alternatives, *self.unmet]

    @property
    def has_files(self) -> bool:
        """Whether any cell has an answer; files of an earlier one stay where none has."""
        return bool(self.by_folder)

    @property
    def nested(self) -> Mapping[str, Answer]:
        """The answer of every cell, by the folder of its files."""
        return self.by_folder

    def shown(self) -> Iterator[Table | str]:
        """Who wins where in all cells."""
        yield from _winners(self.inputs, self.limits, list(self.by_folder.values()), self.unmet)
        if self.inputs["explain"]:
            for name, answer in self.by_folder.items():
                yield from answer.explained(name)
        if self.folder is not None and self.by_folder:
            yield (
                f"files of every cell in a folder of its own below {self.folder}, all rows in"
                f" {self.folder / 'recommendations.json'}"
            )


def together(
    inputs: Mapping[str, Any],
    limits: Limits,
    by_folder: Mapping[str, Recommended],
    unmet: Sequence[MarkedCell],
    folder: Path | None,
) -> RecommendedCells:
    """The answer of several cells, or of none.

    Args:
        inputs: what was asked.
        limits: that were asked for.
        by_folder: answers of the cells that have any, by the folder of their files.
        unmet: marked rows of all cells.
        folder: of the whole answer.
    """
    return RecommendedCells(
        inputs=inputs,
        choices=[row for answer in by_folder.values() for row in answer.choices],
        alternatives=[row for answer in by_folder.values() for row in answer.alternatives],
        unmet=unmet,
        answers=[
            CellBackground(
                folder=name,
                **{part.name: getattr(answer, part.name) for part in fields(Background)},
            )
            for name, answer in by_folder.items()
        ],
        by_folder=by_folder,
        limits=limits,
        folder=folder,
    )


def _winners(
    inputs: Mapping[str, Any],
    limits: Limits,
    answers: Sequence[Recommended],
    unmet: Sequence[MarkedCell],
) -> Iterator[Table | str]:
    """One table of the winner at every batch and context, why others cannot be, and the limits."""
    cells = [cell for answer in answers for cell in answer.cells]
    rows: list[CellRow | MarkedCell] = [*cells, *unmet]
    names = [name for name in LISTED if len({str(getattr(row, name)) for row in rows}) > 1]
    order = {
        name: list(
            dict.fromkeys(
                [*str(inputs[name]).split(","), *(str(getattr(row, name)) for row in rows)]
            )
        )
        for name in names
    }
    rows.sort(
        key=lambda row: (
            *(order[name].index(str(getattr(row, name))) for name in names),
            row.context or 0,
            row.batch or 0,
        )
    )
    where = " on ".join(several(str(inputs[name]), name) for name in ("model", "device"))
    beside = [] if names else ["next_best", "loses"]  # of several cells winners alone fit
    searches = [answer.search for answer in answers]
    yield Table(
        title=f"{where}, {several(inputs['engine'], 'engine')}: what to run at each batch",
        rows=rows,
        columns=[
            *names,
            "batch",
            "context",
            "run",
            "tokens_per_step",
            "tokens_per_s",
            "speedup",
            *beside,
        ],
        caption=words.caption(searches),
        once=["context"],
        mark="run",
        kind=CellRow,
    )
    yield from map(folded, words.cell_lines(cells, searches))
    yield from reason_lines(unmet, names)
    if limits.limited:
        yield f"limits: {limits.words}, the first token being that of a prompt of the context's length"
