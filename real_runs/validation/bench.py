"""How is anything that decodes put beside what was predicted of it?

Every validation takes the same steps: runs are made in turn and kept (`real_runs.trials.make`);
costs are fitted on cells that are never scored; what was predicted of all others stands beside them
as points. Leaves out what is peculiar to what decodes (`subject`), preparing it (recording and
choosing), and what a point is (`score`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from statistics import quantiles
from typing import Any

from hardware_profiles.errors import InputError
from real_runs.recording.log import RecordingLog
from real_runs.trials.make import Tell, failures, make_runs
from real_runs.validation.configurations import Some
from real_runs.validation.rounds import probe_correlation, undisturbed
from real_runs.validation.runs import Run, runs_of
from real_runs.validation.score import (
    Point,
    Validation,
    fastest_chosen,
    regrets,
    score_point,
    summary,
    write_points,
)
from real_runs.validation.subject import BenchOptions, Subject, UnscoredError

RUNS, POINTS = "runs.part.jsonl", "validation.parquet"


def run_bench(
    subject: Subject[Some],
    options: BenchOptions,
    *,
    deadline: float,
    tell: Tell = lambda text: None,
) -> Validation:
    """Make the runs of a subject and score them; safe to kill and to resume.

    Args:
        subject: what decodes.
        options: where, how often and for how long.
        deadline: `time.monotonic()` at which to end.
        tell: called with what is under way.

    Returns:
        The validation; its points lie in `options.out` as `validation.parquet`.

    Raises:
        InputError: a folder that holds other runs, or a budget in which nothing could be scored.
    """
    setup = {
        **subject.setup,
        "plan": {
            cell.name: [configuration.name for configuration in configurations]
            for cell, configurations in subject.plan.cells
        },
    }
    with RecordingLog(options.out / RUNS, setup, resume=options.resume) as log:
        missing = make_runs(subject, log, rounds=options.rounds, deadline=deadline, tell=tell)
        entries = list(log.finished)
    tell("scoring")
    validation = score(subject, entries, missing=missing, rounds=options.rounds)
    write_points(validation.points, options.out / POINTS)
    return validation


def score(
    subject: Subject[Some],
    entries: Sequence[Mapping[str, Any]],
    *,
    missing: int,
    rounds: int,
) -> Validation:
    """Put the runs of a log beside what was predicted of them.

    Args:
        subject: what decoded.
        entries: of the log, failed runs among them.
        missing: runs that the budget left out.
        rounds: times that everything should have run.

    Raises:
        InputError: nothing could be scored, or no run to fit costs on.
    """
    runs, plan = runs_of(entries), subject.plan
    counted = subject.counted(runs)
    predictor = subject.predictor(counted)
    points, left_out = list[Point](), failures(entries)
    for cell, configuration in plan.scored:
        name = (cell.name, configuration.name)
        ran, here = (
            [run for run in some if (run.cell, run.configuration) == name]
            for some in (runs, counted)
        )
        try:
            groups = predictor.predict(cell, configuration, here)
        except UnscoredError as error:
            left_out.append(f"{cell.name}: {configuration.name}: {error}")
            continue
        points.append(
            score_point(
                cell,
                configuration,
                groups,
                chosen=plan.chosen is not None and plan.chosen.get(cell.name) == name[1],
                ran=len(ran),
                differing=sum(
                    subject.differs(configuration, run)
                    for runs_of_group, _ in groups.values()
                    for run in runs_of_group
                ),
            )
        )
    if not points:
        why = "raise the budget" if missing else left_out[0]
        raise InputError(f"no configuration could be scored; {why}", key="budget")
    if plan.chosen is None:
        points = fastest_chosen(points)
    lost = regrets(points)
    return Validation(
        points=tuple(points),
        regrets=tuple(lost),
        summary=summary(points, lost),
        costs=predictor.costs,
        missing=missing,
        left_out=tuple(left_out),
        about={**subject.about, **_about(runs, rounds)},
        counted=tuple(counted),
    )


def _about(runs: Sequence[Run], rounds: int) -> dict[str, Any]:
    """When runs were made, and in which states of the machine."""
    correlation = probe_correlation(undisturbed(runs))
    probes = [run.probe_s for run in runs if run.probe_s > 0.0]
    return {
        "rounds": rounds,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "probe_deciles_s": quantiles(probes, n=10) if len(probes) > 1 else [],
        "probe_correlation": None if math.isnan(correlation) else correlation,
    }
