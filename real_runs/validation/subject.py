"""What is peculiar to something whose runs are put beside predictions?

A subject says what it runs and in which order, how it is started, which of its runs count, and what
was to be expected of them. Leaves out the steps that all subjects take alike (`bench`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from hardware_profiles.errors import InputError
from real_runs.validation.cells import ValidationCell
from real_runs.validation.configurations import NamedConfiguration, Some
from real_runs.validation.runs import Run
from real_runs.validation.score import Groups

Some_contra = TypeVar("Some_contra", bound=NamedConfiguration, contravariant=True)
Tell = Callable[[str], None]


class UnscoredError(InputError):
    """A configuration of a cell that cannot be scored; the report says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchOptions:
    """Where runs are kept, how many there are, and how long they may take.

    Attributes:
        out: folder for what is recorded, runs and the report.
        rounds: times that everything is run.
        budget_s: wall time for all of it.
        resume: go on in a folder that holds runs.
        keep_disturbed: score runs that other processes disturbed, too: for a machine that is never
            quiet.
    """

    out: Path
    rounds: int
    budget_s: float = math.inf
    resume: bool = False
    keep_disturbed: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan(Generic[Some]):
    """What runs.

    Attributes:
        cells: with their configurations; those of the phase "fit" are never scored.
        chosen: names of the configurations that `optimize` chose, by name of the cell; None: none
            is known before, and the fastest prediction of a cell is its choice.
    """

    cells: Sequence[tuple[ValidationCell, Sequence[Some]]]
    chosen: Mapping[str, str] | None

    @property
    def scored(self) -> list[tuple[ValidationCell, Some]]:
        """Every configuration that is scored, with its cell."""
        return [
            (cell, configuration)
            for cell, configurations in self.cells
            if cell.phase == "score"
            for configuration in configurations
        ]

    @property
    def fitted(self) -> list[tuple[ValidationCell, Some]]:
        """Every configuration that costs are fitted on, with its cell."""
        return [
            (cell, configuration)
            for cell, configurations in self.cells
            if cell.phase == "fit"
            for configuration in configurations
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Place(Generic[Some]):
    """Where one run belongs: a configuration on the prompts of a group, in a round.

    Attributes:
        cell: kind, context and batch of the prompts.
        configuration: what runs.
        group: prompts that run together, by id.
        round: from 0.
    """

    cell: ValidationCell
    configuration: Some
    group: tuple[str, ...]
    round: int

    @property
    def entry(self) -> dict[str, Any]:
        """Its part of an entry of the log."""
        return {
            "cell": self.cell.name,
            "configuration": self.configuration.name,
            "prompts": list(self.group),
            "round": self.round,
        }


class Running(Protocol[Some_contra]):
    """What decodes, once it is started."""

    def warm(self, configuration: Some_contra, prompts: Sequence[str]) -> None:
        """Run what a first run would run for the first time."""

    def probes(self) -> list[float]:
        """Seconds of the same small work, a few times; none where the machine is out of reach."""

    def run(self, configuration: Some_contra, prompts: Sequence[str]) -> Mapping[str, Any]:
        """Decode prompts once; JSON values of `Run`, but for its place and its probe.

        Raises:
            FailedRunError: the run is not whole; another start may make it.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class Predictor(Generic[Some]):
    """What was to be expected of runs.

    Attributes:
        predict: the runs of a configuration in a cell, beside what was predicted of every group;
            raises `UnscoredError` where too few runs count, or nothing can be predicted.
        costs: what was fitted on cells that are never scored, as JSON values.
    """

    predict: Callable[[ValidationCell, Some, Sequence[Run]], Groups]
    costs: Mapping[str, object] = field(default_factory=dict)


def in_turn(plan: Plan[Some], rounds: int) -> list[list[Place[Some]]]:
    """All runs in one start: every configuration of a cell on its prompts in turn, the order going
    round.
    """
    return [
        [
            Place(cell=cell, configuration=configuration, group=group, round=turn)
            for turn in range(rounds)
            for cell, configurations in plan.cells
            for place, group in enumerate(cell.groups)
            for configuration in _rotated(configurations, turn + place)
        ]
    ]


def _rotated(configurations: Sequence[Some], by: int) -> list[Some]:
    start = by % len(configurations)
    return [*configurations[start:], *configurations[:start]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject(Generic[Some]):
    """What is peculiar to something that decodes.

    Attributes:
        plan: what runs.
        setup: what runs depend on beside the plan; runs of another setup are not continued.
        about: provenance, for the report.
        launch: what decodes, started with a configuration, as a context; None in place of it: not
            now, a later call goes on. Where it does not start (`InputError`), no other run of this
            start is tried.
        counted: of all runs those that count, rounds of the same work pooled where that is meant.
        predictor: what predicts, its costs fitted on runs that count; raises `InputError` where
            there are none.
        order: every run in its order, those of one start together, of a plan and rounds.
        differs: whether a run wrote another text than was recorded.
    """

    plan: Plan[Some]
    setup: Mapping[str, Any]
    about: Mapping[str, Any]
    launch: Callable[[Some], AbstractContextManager[Running[Some] | None]]
    counted: Callable[[Sequence[Run]], Sequence[Run]]
    predictor: Callable[[Sequence[Run]], Predictor[Some]]
    order: Callable[[Plan[Some], int], Sequence[Sequence[Place[Some]]]] = in_turn
    differs: Callable[[Some, Run], bool] = lambda configuration, run: False


def grouped(cell: ValidationCell, runs: Sequence[Run]) -> dict[tuple[str, ...], list[Run]]:
    """The runs of every group of a cell.

    Raises:
        UnscoredError: a group without any.
    """
    groups = {group: [run for run in runs if run.prompts == group] for group in cell.groups}
    if not all(groups.values()):
        raise UnscoredError("no undisturbed run of every prompt")
    return groups
