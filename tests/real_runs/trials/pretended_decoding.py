"""Something that decodes in no time, and the runs that are made of it."""

import contextlib
import time
from dataclasses import dataclass, field

from real_runs.recording.log import RecordingLog
from real_runs.servers.asking import FailedRunError
from real_runs.trials.make import make_runs
from real_runs.trials.trials import Plan, PromptCell, Trials
from real_runs.validation.configurations import Configuration, chain
from tests.real_runs.validation.servers.served_runs import values

CELL = PromptCell(phase="score", kind="k", context=0, batch=1, prompts=("a", "b"))
PLAN = Plan(
    cells=[(CELL, [Configuration(), chain("prompt-lookup", 2)])],
    chosen={CELL.name: "prompt-lookup-2"},
)


@dataclass
class Pretended:
    """What decodes, started, too.

    Attributes:
        ends_after: runs after which somebody presses Ctrl-C.
        refuses: prompts that fail a run, each once.
        later: a start is left to a later call.
    """

    plan: Plan = PLAN
    ends_after: int | None = None
    refuses: list = field(default_factory=list)
    later: bool = False
    warmed: list = field(default_factory=list)
    ran: list = field(default_factory=list)

    @property
    def trials(self):
        return Trials(plan=self.plan, launch=self.launch)

    @contextlib.contextmanager
    def launch(self, configuration):
        yield None if self.later else self

    def warm(self, configuration, prompts):
        self.warmed.append((configuration.name, prompts))

    def probes(self):
        return [0.01, 0.03, 0.02]

    def run(self, configuration, prompts):
        if len(self.ran) == self.ends_after:
            raise KeyboardInterrupt
        if prompts in self.refuses:
            self.refuses.remove(prompts)
            raise FailedRunError("it stopped")
        self.ran.append((configuration.name, prompts))
        return {**values(), "decode_s": 1.0 if configuration.drafter else 2.0}


def made(pretended, folder, *, rounds=2, resume=False, left_s=60.0, **options):
    """How many runs are missing, and what the log holds."""
    with RecordingLog(folder / "r.part.jsonl", {}, resume=resume) as log:
        deadline = time.monotonic() + left_s
        missing = make_runs(pretended.trials, log, rounds=rounds, deadline=deadline, **options)
        return missing, list(log.finished)
