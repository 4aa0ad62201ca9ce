"""How are runs made in turn, within a time, and never twice?

Runs of a plan are made round after round, a probe of the machine beside each. A log keeps what is
finished and what failed, and a later call goes on after it. Leaves out what runs (`trials`) and
what became of it.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from hardware_profiles.errors import InputError
from real_runs.recording.log import RecordingLog
from real_runs.servers.asking import FailedRunError
from real_runs.trials.trials import Place, Running, Trials, Tried

FAILED = "failed"  # key of a run that failed, with the reason
TOOK_S = "took_s"  # key of the wall seconds that making a run took
Tell = Callable[[str], None]


def make_runs(
    trials: Trials[Tried],
    log: RecordingLog,
    *,
    rounds: int,
    deadline: float,
    tell: Tell = lambda text: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> int:
    """Make every run that the log does not hold yet, until the deadline; how many are still
    missing.

    Args:
        trials: what runs.
        log: where finished runs are kept, and which runs failed; those are tried again by a later
            call.
        rounds: times that everything is run.
        deadline: `time.monotonic()` at which to end; no run is begun that would take longer than
            its like did.
        tell: called with how many runs are done of how many.
        should_stop: asked before every run.
    """
    launches = trials.order(trials.plan, rounds)
    work = _Work(
        log=log,
        deadline=deadline,
        tell=tell,
        should_stop=should_stop,
        total=sum(map(len, launches)),
    )
    for entry in log.finished:
        work.count(entry)
    for places in launches:
        while left := work.left(places):
            if not (work.goes_on(left[0]) and _launched(trials, left, work)):
                return sum(len(work.left(places)) for places in launches)
    return 0


@dataclass(kw_only=True, slots=True)
class _Work:
    """What is finished, what it took, and until when to go on."""

    log: RecordingLog
    deadline: float
    tell: Tell
    should_stop: Callable[[], bool]
    total: int
    finished: set[tuple[Any, ...]] = field(default_factory=set)
    longest_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    tried: int = 0
    began_s: float = field(default_factory=time.monotonic)

    def left(self, places: Sequence[Place[Tried]]) -> list[Place[Tried]]:
        """Those of some runs that are not finished."""
        return [place for place in places if run_key(place.entry) not in self.finished]

    def goes_on(self, place: Place[Tried]) -> bool:
        """Whether nobody stops it, and a run like the longest of its cell ends before the
        deadline.
        """
        ends_s = time.monotonic() + self.longest_s[place.cell.name]
        return not self.should_stop() and ends_s <= self.deadline

    def count(self, entry: Mapping[str, Any]) -> None:
        """Know a run of the log; one that failed is to be made again by a later call."""
        if FAILED not in entry:
            self.finished.add(run_key(entry))
        longest_s = max(self.longest_s[entry["cell"]], entry.get(TOOK_S, 0.0))
        self.longest_s[entry["cell"]] = longest_s

    def note(self, place: Place[Tried], values: Mapping[str, Any], took_s: float = 0.0) -> None:
        """Keep a run that is finished, or that failed."""
        entry = {**values, **place.entry, TOOK_S: round(took_s, 3)}
        self.log.append(entry)
        self.count(entry)
        self.finished.add(run_key(entry))  # failed or not, it is not made again by this call
        self.tried += 1
        now = time.monotonic()
        left = self.total - len(self.finished)
        left_s = min((now - self.began_s) / self.tried * left, self.deadline - now)
        where = f"{place.cell.name}: {place.configuration.name}"
        self.tell(
            f"{len(self.finished)} of {self.total}: {where}, {max(left_s, 0.0) / 60:.0f} min left"
        )


def _launched(trials: Trials[Tried], left: Sequence[Place[Tried]], work: _Work) -> bool:
    """One start: its runs until all are made or one fails, which is noted; False where the time is
    up or a later call goes on.
    """
    at, started, warm = left[0], False, set[tuple[str, str]]()
    try:
        with trials.launch(at.configuration) as running:
            started = True
            if running is None:
                return False
            for at in left:
                if not work.goes_on(at):
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


def _measured(running: Running[Tried], at: Place[Tried]) -> dict[str, Any]:
    before = running.probes()
    run = running.run(at.configuration, at.group)
    probes = [*before, *running.probes()]
    return {**run, "probe_s": median(probes) if probes else 0.0}


def run_key(entry: Mapping[str, Any]) -> tuple[str, str, tuple[str, ...], int]:
    """Where an entry of the log belongs: cell, configuration, prompts and round."""
    return entry["cell"], entry["configuration"], tuple(entry["prompts"]), entry["round"]


def failures(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Runs that failed and that were not made up for since, in words."""
    finished = {run_key(entry) for entry in entries if FAILED not in entry}
    return [
        f"{entry['cell']}: {entry['configuration']}: round {entry['round']}: {entry[FAILED]}"
        for entry in entries
        if FAILED in entry and run_key(entry) not in finished
    ]
