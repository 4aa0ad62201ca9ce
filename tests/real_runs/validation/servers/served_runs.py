"""Cells, configurations and runs without a server, for tests of what is made of them."""

import contextlib
from dataclasses import dataclass, field
from pathlib import Path

from costmodel.configuration import DecodingConfiguration, DeploymentNames
from hardware_profiles.errors import InputError
from real_runs.servers.asking import FailedRunError
from real_runs.servers.llama_cpp.answers import Answers, ServerAnswer
from real_runs.trials.trials import Plan, PromptCell
from real_runs.validation.servers.configurations import looked_up, plain
from real_runs.validation.servers.recordings import KnownPrompts
from real_runs.validation.servers.subject import started_servers

ASKED = DecodingConfiguration(
    deployment=DeploymentNames(model="smollm2-135m", device="cpu-generic", engine="llama.cpp"),
    max_batch=1,
    max_length=400,
)
PLAIN, LOOKUP = plain(ASKED), looked_up(ASKED, 2, 4)
SINGLE = PromptCell(phase="score", kind="chat", context=256, batch=1, prompts=("a", "b"))
LONGER = PromptCell(phase="score", kind="chat", context=1024, batch=1, prompts=("c", "d"))
PLAN = [(SINGLE, [PLAIN, LOOKUP]), (LONGER, [PLAIN, LOOKUP])]


def values(**changes):
    """JSON values of a run, but for its place."""
    return {
        "tokens": 10,
        "steps": 10,
        "request_steps": 10,
        "drafted_tokens": 0,
        "decode_s": 1.0,
        "cpu_s": 1.0,
        "draft_s": 0.0,
        "verify_s": 0.0,
        "passes": [],
        "output_sha256": "0",
        "ttft_s": 0.1,
        "tpot_s": 0.1,
        "probe_s": 0.01,
    } | changes


OUTPUT = (1, 2, 3)
RECORDED = KnownPrompts(
    answers=Answers(
        setup={
            "max_new_tokens": 3,
            "context": None,
            "model_file": "tiny",
            **dict.fromkeys(("dtype", "dataset", "dataset_sha256", "recorder", "build"), ""),
            "ignore_eos": True,
        },
        requests=tuple(
            ServerAnswer(
                request=name,
                kind="",
                prompt=(5, 6),
                output=OUTPUT,
                ended="length",
                drafted=0,
                accepted=0,
            )
            for name in "abcd"
        ),
    ),
    prompt_s=dict.fromkeys("abcd", 2.0),
)


@dataclass
class PretendedServers:
    """Servers that take no time.

    Attributes:
        dies: (configuration, prompts) of runs in the middle of which the server dies, each once.
        absent: configurations with which no server comes up.
    """

    dies: list = field(default_factory=list)
    absent: tuple = ()
    started: list = field(default_factory=list)
    ran: list = field(default_factory=list)
    stop_after: int | None = None

    @contextlib.contextmanager
    def launch(self, served):
        self.started.append(served.name)
        if served.name in self.absent:
            raise InputError("did not come up", file=Path("server.log"))
        yield self

    def warm(self, served, group):
        pass

    def probes(self):
        return [0.01]

    def run(self, served, group):
        if self.stop_after is not None and len(self.ran) >= self.stop_after:
            raise KeyboardInterrupt
        if (served.name, group) in self.dies:
            self.dies.remove((served.name, group))
            raise FailedRunError("the stream ended before the answer did")
        self.ran.append((served.name, group))
        return values()


def subject(servers=None, predict=None, *, plan=PLAN, chosen=None, keep_disturbed=False):
    """What a bench runs: pretended servers."""
    return started_servers(
        Plan(cells=plan, chosen=chosen or {}),
        servers or PretendedServers(),
        RECORDED,
        predict,
        setup={},
        about={},
        keep_disturbed=keep_disturbed,
    )
