"""How is anything that decodes put beside what was predicted of it?

Every validation takes the same steps: runs of a plan are made round after round, a probe of the
machine beside each; a log keeps them, and a later call goes on after it; costs are fitted on cells
that are never scored; what was predicted of all others stands beside them as points. Leaves out
what is peculiar to what decodes (`subject`), preparing it (recording and choosing), and what a
point is (`score`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median, quantiles
from typing import Any

from hardware_profiles.errors import InputError
from real_runs.recording.log import RecordingLog
from real_runs.servers.asking import FailedRunError
from real_runs.validation.configurations import Some
from real_runs.validation.rounds import probe_correlation, undisturbed
from real_runs.validation.runs import FAILED, Run, failures, run_key, runs_of
from real_runs.validation.score import (
    Point,
    Validation,
    fastest_chosen,
    regrets,
    score_point,
    summary,
    write_points,
)
from real_runs.validation.subject import BenchOptions, Place, Running, Subject, Tell, UnscoredError

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


def make_runs(
    subject: Subject[Some],
    log: RecordingLog,
    *,
    rounds: int,
    deadline: float,
    tell: Tell = lambda text: None,
) -> int:
    """Make every run that the log does not hold yet, until the deadline; how many are still
    missing.

    Args:
        subject: what decodes.
        log: where finished runs are kept, and which runs failed; those are tried again by a later
            call.
        rounds: times that everything is run.
        deadline: `time.monotonic()` at which to end; no run is begun that would take longer than
            its like did.
        tell: called with how many runs are done of how many.
    """
    launches = subject.order(subject.plan, rounds)
    work = _Work(
        log=log,
        deadline=deadline,
        tell=tell,
        total=sum(map(len, launches)),
        finished={run_key(entry) for entry in log.finished if FAILED not in entry},
    )
    for places in launches:
        while left := work.left(places):
            if not (work.has_time_for(left[0]) and _launched(subject, left, work)):
                return sum(len(work.left(places)) for places in launches)
    return 0


@dataclass(kw_only=True, slots=True)
class _Work:
    """What is finished, what it took, and until when to go on."""

    log: RecordingLog
    deadline: float
    tell: Tell
    total: int
    finished: set[tuple[Any, ...]]
    longest_s: dict[str, float] = field(default_factory=dict)
    tried: int = 0
    began_s: float = field(default_factory=time.monotonic)

    def left(self, places: Sequence[Place[Some]]) -> list[Place[Some]]:
        """Those of some runs that are not finished."""
        return [place for place in places if run_key(place.entry) not in self.finished]

    def has_time_for(self, place: Place[Some]) -> bool:
        """Whether a run like the longest of its cell ends before the deadline."""
        return time.monotonic() + self.longest_s.get(place.cell.name, 0.0) <= self.deadline

    def note(self, place: Place[Some], values: Mapping[str, Any], took_s: float = 0.0) -> None:
        """Keep a run that is finished, or that failed."""
        self.log.append({**values, **place.entry})
        self.finished.add(run_key(place.entry))
        self.longest_s[place.cell.name] = max(self.longest_s.get(place.cell.name, 0.0), took_s)
        self.tried += 1
        now = time.monotonic()
        left = self.total - len(self.finished)
        left_s = min((now - self.began_s) / self.tried * left, self.deadline - now)
        where = f"{place.cell.name}: {place.configuration.name}"
        self.tell(
            f"{len(self.finished)} of {self.total}: {where}, {max(left_s, 0.0) / 60:.0f} min left"
        )


def _launched(subject: Subject[Some], left: Sequence[Place[Some]], work: _Work) -> bool:
    """One start: its runs until all are made or one fails, which is noted; False where the time is
    up or a later call goes on.
    """
    at, started, warm = left[0], False, set[tuple[str, str]]()
    try:
        with subject.launch(at.configuration) as running:
            started = True
            if running is None:
                return False
            for at in left:
                if not work.has_time_for(at):
                    return False
                if (name := (at.cell.name, at.configuration.name)) not in warm:
                    warm.add(name)
                    running.warm(at.configuration, at.group)
                began = time.monotonic()
                work.note(at, _measured(running, at), time.monotonic() - began)
    except FailedRunError as error:
        work.note(at, {FAILED: str(error)})
    except InputError as error:
        if started:
            raise
        for place in left:  # it does not start, so it would not for the other runs either
            work.note(place, {FAILED: str(error)})
    return True


def _measured(running: Running[Some], at: Place[Some]) -> dict[str, Any]:
    before = running.probes()
    run = running.run(at.configuration, at.group)
    probes = [*before, *running.probes()]
    return {**run, "probe_s": median(probes) if probes else 0.0}


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
