"""How are configurations measured in servers that are started for them?

A server is started with the exported flags, a prompt is read from a file, and the fastest of
several repeats of a run counts. Leaves out in which order servers are started (`subject`), what is
measured of a run (`asking`) and what it should have taken (`predict`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from real_runs.servers.address import Address
from real_runs.servers.asking import asked_together, slot_options, whole_answers
from real_runs.servers.client import Completion
from real_runs.servers.identify import Server, identify
from real_runs.servers.llama_cpp.launch import launched
from real_runs.validation.runs import AGAIN
from real_runs.validation.servers.configurations import DRAFT, ServerConfiguration
from real_runs.validation.servers.probe import probes
from real_runs.validation.servers.slots import cache_folder, restore

WARM_TOKENS = 4
# of a run, of which the fastest is kept: others on the machine come and go within seconds
REPEATS = 3
Command = Callable[[ServerConfiguration], Sequence[str]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerLaunches:
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

    @contextmanager
    def launch(self, served: ServerConfiguration) -> Iterator[LaunchedServer]:
        """A server of a configuration, ready to be asked."""
        caches = cache_folder(self.caches, served.chosen.max_batch or 1)
        with launched(
            [*self.command(served), "--slot-save-path", str(caches)],
            folder=self.folder,
            binary=self.binary,
            threads=self.threads,
            cpu=self.cpu,
        ) as running:
            server = identify(Address.parse(running.url))
            yield LaunchedServer(launches=self, server=server, pid=running.pid)


@dataclass(frozen=True, kw_only=True, slots=True)
class LaunchedServer:
    """A server that was started for its runs.

    Attributes:
        launches: what it is asked.
        server: where it answers.
        pid: its process.
    """

    launches: ServerLaunches
    server: Server
    pid: int

    def warm(self, configuration: ServerConfiguration, prompts: Sequence[str]) -> None:
        """Let a slot decode a little for every prompt."""
        self._answer([self.launches.prompts[name][:WARM_TOKENS] for name in prompts], WARM_TOKENS)

    def probes(self) -> list[float]:
        """Seconds of the same small work, while the server idles."""
        return probes()

    def run(self, configuration: ServerConfiguration, prompts: Sequence[str]) -> dict[str, Any]:
        """Decode a group of prompts, the fastest of `REPEATS` times; JSON values of `Run`, but for
        its place.

        Where acceptance is drawn the fastest would be the luckiest: all of them are kept.

        Raises:
            FailedRunError: the server did not answer whole, or refuses a prompt's cache.
        """
        runs = [self._once(configuration, prompts) for _ in range(REPEATS)]
        if configuration.synthetic:
            return {**runs[0], AGAIN: runs[1:]}
        return min(runs, key=lambda run: float(run["decode_s"]))

    def _once(self, served: ServerConfiguration, group: Sequence[str]) -> dict[str, Any]:
        launches = self.launches
        prompts = [launches.prompts[name] for name in group]
        if served.chosen.method == DRAFT and served.chosen.speculates:
            self._answer(prompts, 1)  # files hold no cache of a draft model
        else:
            folder = cache_folder(launches.caches, served.chosen.max_batch or 1)
            for slot, prompt in enumerate(prompts):
                restore(self.server, slot, prompt, folder)
        return asked_together(
            self.server,
            prompts,
            max_tokens=launches.max_new_tokens,
            cpu_s=lambda: processor_s(self.pid),
        )

    def _answer(self, prompts: Sequence[tuple[int, ...]], max_tokens: int) -> None:
        """Let every prompt be answered in a slot of its own."""
        requests = [
            Completion(
                prompt=prompt, max_tokens=max_tokens, options=slot_options(self.server, slot)
            )
            for slot, prompt in enumerate(prompts)
        ]
        whole_answers(self.server, requests)


def processor_s(pid: int) -> float:
    """Seconds of processor time that a process has taken; wall time where the system does not
    say.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return time.monotonic()
