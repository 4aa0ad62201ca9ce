"""How are configurations measured in servers that are started for them, round after round?

Every round starts one server per number of slots and configuration, with the exported flags, in an
order drawn anew, and runs all cells of that many slots in it: a start costs a second, a prompt is
read from a file. A run that a server fails is noted, and the next one gets a new server. Leaves out
what is measured of a run (`asking`) and what it should have taken (`predict`).
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from hardware_profiles.errors import InputError
from real_runs.recording.log import RecordingLog
from real_runs.servers.address import Address
from real_runs.servers.asking import FailedRunError, asked_together, slot_options, whole_answers
from real_runs.servers.client import Completion
from real_runs.servers.identify import Server, identify
from real_runs.servers.llama_cpp.launch import RunningServer, launched
from real_runs.validation.cells import ValidationCell
from real_runs.validation.servers.configurations import DRAFT, ServerConfiguration
from real_runs.validation.servers.probe import probes
from real_runs.validation.servers.slots import cache_folder, restore

WARM_TOKENS = 4
REPEATS = (
    3  # of a run, of which the fastest is kept: others on the machine come and go within seconds
)
# key of the other repeats, kept where each drew an acceptance of its own and is other work
AGAIN = "again"
FAILED = "failed"  # key of a run that a server failed, with the reason
_PROBES_S = 0.4
Plan = Sequence[tuple[ValidationCell, Sequence[ServerConfiguration]]]
Command = Callable[[ServerConfiguration], Sequence[str]]
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerBench:
    """What servers are started with, and what they are asked.

    Attributes:
        command: a configuration's exported command line without the program's name.
        folder: for logs.
        caches: for caches of prompts.
        prompts: token ids by name.
        max_new_tokens: of every answer.
        threads: of a server.
        binary: a build of `llama-server`; None: what is installed.
        cpu: the CPU that servers stay on; None leaves it to the system.
    """

    command: Command
    folder: Path
    caches: Path
    prompts: Mapping[str, tuple[int, ...]]
    max_new_tokens: int
    threads: int = 1
    binary: Path | None = None
    cpu: int | None = None

    def start(self, served: ServerConfiguration) -> AbstractContextManager[RunningServer]:
        """A server of a configuration, as a context: `launched` with the caches' folder."""
        caches = cache_folder(self.caches, served.chosen.max_batch or 1)
        arguments = [*self.command(served), "--slot-save-path", str(caches)]
        return launched(
            arguments, folder=self.folder, binary=self.binary, threads=self.threads, cpu=self.cpu
        )

    def server(self, running: RunningServer) -> Server:
        """What answers there."""
        return identify(Address.parse(running.url))

    def warmed(self, running: RunningServer, slots: int) -> Server:
        """The server, each slot of which has decoded a little: code that runs for the first time is
        in no run.
        """
        server = self.server(running)
        first = next(iter(self.prompts.values()))[:WARM_TOKENS]
        requests = [
            Completion(prompt=first, max_tokens=WARM_TOKENS, options=slot_options(server, slot))
            for slot in range(slots)
        ]
        whole_answers(server, requests)
        return server

    def run(
        self, server: Server, pid: int, served: ServerConfiguration, group: Sequence[str]
    ) -> dict[str, Any]:
        """Decode a group of prompts, the fastest of `REPEATS` times; JSON values of `Run`, but for
        its place.

        Where acceptance is drawn the fastest would be the luckiest: all of them are kept.
        """
        before = probes()
        made = [self._once(server, pid, served, group) for _ in range(REPEATS)]
        counted = made if served.synthetic else [min(made, key=lambda run: float(run["decode_s"]))]
        return {**counted[0], AGAIN: counted[1:], "probe_s": median([*before, *probes()])}

    def _once(
        self, server: Server, pid: int, served: ServerConfiguration, group: Sequence[str]
    ) -> dict[str, Any]:
        prompts = [self.prompts[name] for name in group]
        if (
            served.chosen.method == DRAFT and served.chosen.speculates
        ):  # files hold no cache of a draft model
            whole_answers(
                server,
                [
                    Completion(prompt=prompt, max_tokens=1, options=slot_options(server, slot))
                    for slot, prompt in enumerate(prompts)
                ],
            )
        else:
            for slot, prompt in enumerate(prompts):
                restore(
                    server, slot, prompt, cache_folder(self.caches, served.chosen.max_batch or 1)
                )
        return asked_together(
            server, prompts, max_tokens=self.max_new_tokens, cpu_s=lambda: processor_s(pid)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Unit:
    """What one start of a server is for: a configuration, and where it runs."""

    served: ServerConfiguration
    slots: int
    runs: tuple[tuple[ValidationCell, tuple[str, ...]], ...]


@dataclass(kw_only=True, slots=True)
class _Log:
    """What is finished, what it took, and until when to go on."""

    log: RecordingLog
    deadline: float
    finished: set[tuple[Any, ...]]
    longest_s: dict[str, float] = field(default_factory=dict)

    def has_time_for(self, cell: ValidationCell) -> bool:
        """Whether a run like the longest of its cell ends before the deadline."""
        return time.monotonic() + self.longest_s.get(cell.name, 0.0) <= self.deadline

    def note(self, entry: dict[str, Any]) -> None:
        """A run that is finished, or that a server failed."""
        self.log.append(entry)
        self.finished.add(_key(entry))


def processor_s(pid: int) -> float:
    """Seconds of processor time that a process has taken; wall time where the system does not
    say.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return time.monotonic()


def make_runs(
    bench: ServerBench,
    plan: Plan,
    log: RecordingLog,
    *,
    rounds: int,
    deadline: float,
    progress: Progress = lambda done, total, text: None,
) -> int:
    """Make every run that the log does not hold yet, until the deadline; how many are still
    missing.

    Args:
        bench: how servers are started and asked.
        plan: cells with their configurations.
        log: where finished runs are kept, and which runs a server failed; those are tried again by
            a later call.
        rounds: times that everything is run.
        deadline: `time.monotonic()` at which to end.
        progress: called with how many runs are done of how many.
    """
    runs_log = _Log(
        log=log,
        deadline=deadline,
        finished={_key(entry) for entry in log.finished if FAILED not in entry},
    )
    units = _units(plan)
    total = rounds * sum(len(unit.runs) for unit in units)
    for turn in range(rounds):
        # slow minutes of a shared machine must not fall on one number of slots, or on one way to
        # draft
        for unit in random.Random(turn).sample(units, len(units)):
            while left := [
                run for run in unit.runs if _place(unit, run, turn) not in runs_log.finished
            ]:
                if not runs_log.has_time_for(left[0][0]):
                    return total - len(runs_log.finished)
                _start(bench, unit, left, turn, runs_log)
                progress(len(runs_log.finished), total, f"{unit.slots} slots, {unit.served.name}")
    return 0


def _units(plan: Plan) -> list[_Unit]:
    runs: dict[tuple[int, str], list[tuple[ValidationCell, tuple[str, ...]]]] = {}
    served: dict[tuple[int, str], ServerConfiguration] = {}
    for cell, every in plan:
        for configuration in every:
            served.setdefault((cell.batch, configuration.name), configuration)
            runs.setdefault((cell.batch, configuration.name), []).extend(
                (cell, group) for group in cell.groups
            )
    return [_Unit(served=served[key], slots=key[0], runs=tuple(own)) for key, own in runs.items()]


def _start(
    bench: ServerBench,
    unit: _Unit,
    left: Sequence[tuple[ValidationCell, tuple[str, ...]]],
    turn: int,
    runs_log: _Log,
) -> None:
    """One server: its runs until all are made, the time is up, or it fails one, which is noted."""
    at = left[0]
    try:
        with bench.start(unit.served) as running:
            server = bench.warmed(running, unit.slots)
            for at in left:
                if not runs_log.has_time_for(at[0]):
                    return
                made = bench.run(server, running.pid, unit.served, at[1])
                took_s = REPEATS * (made["ttft_s"] + made["decode_s"]) + _PROBES_S
                runs_log.longest_s[at[0].name] = max(
                    runs_log.longest_s.get(at[0].name, 0.0), took_s
                )
                runs_log.note(_entry(unit, at, turn) | made)
    except FailedRunError as error:
        runs_log.note(_entry(unit, at, turn) | {FAILED: str(error)})
    except InputError as error:  # it did not come up, so it would not for the other runs either
        for run in left:
            runs_log.note(_entry(unit, run, turn) | {FAILED: str(error)})


def _entry(unit: _Unit, run: tuple[ValidationCell, tuple[str, ...]], turn: int) -> dict[str, Any]:
    return {
        "cell": run[0].name,
        "configuration": unit.served.name,
        "prompts": list(run[1]),
        "round": turn,
    }


def _place(unit: _Unit, run: tuple[ValidationCell, tuple[str, ...]], turn: int) -> tuple[Any, ...]:
    return _key(_entry(unit, run, turn))


def _key(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    return entry["cell"], entry["configuration"], tuple(entry["prompts"]), entry["round"]
