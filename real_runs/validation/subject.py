"""What is peculiar to something whose runs are put beside predictions?

A subject is trials (`real_runs.trials.trials`) of which is said which runs count, and what was to
be expected of them. Leaves out the steps that all subjects take alike (`bench`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic

from hardware_profiles.errors import InputError
from real_runs.trials.trials import PromptCell, Trials
from real_runs.validation.configurations import Some
from real_runs.validation.runs import Run
from real_runs.validation.score import Groups


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
class Predictor(Generic[Some]):
    """What was to be expected of runs.

    Attributes:
        predict: the runs of a configuration in a cell, beside what was predicted of every group;
            raises `UnscoredError` where too few runs count, or nothing can be predicted.
        costs: what was fitted on cells that are never scored, as JSON values.
    """

    predict: Callable[[PromptCell, Some, Sequence[Run]], Groups]
    costs: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject(Trials[Some]):
    """What is peculiar to something that decodes and whose runs are predicted.

    Attributes:
        setup: what runs depend on beside the plan; runs of another setup are not continued.
        about: provenance, for the report.
        counted: of all runs those that count, rounds of the same work pooled where that is meant.
        predictor: what predicts, its costs fitted on runs that count; raises `InputError` where
            there are none.
        differs: whether a run wrote another text than was recorded.
    """

    setup: Mapping[str, Any]
    about: Mapping[str, Any]
    counted: Callable[[Sequence[Run]], Sequence[Run]]
    predictor: Callable[[Sequence[Run]], Predictor[Some]]
    differs: Callable[[Some, Run], bool] = lambda configuration, run: False


def grouped(cell: PromptCell, runs: Sequence[Run]) -> dict[tuple[str, ...], list[Run]]:
    """The runs of every group of a cell.

    Raises:
        UnscoredError: a group without any.
    """
    groups = {group: [run for run in runs if run.prompts == group] for group in cell.groups}
    if not all(groups.values()):
        raise UnscoredError("no undisturbed run of every prompt")
    return groups
