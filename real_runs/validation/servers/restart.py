"""How far are predictions from a server that somebody else runs and restarts?

The server is loaded as it is; what it should be restarted with is named, and the next call, or the
same one that waits, measures that. No process is started, and nothing but the address given is
talked to. Requests are sent together, so that as many decode at a time as users were asked for, and
decoding counts from where all of them decode. Leaves out servers that are started here
(`validate`).
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np

from costmodel.answers.estimate import estimate, intervals, prefill_s
from costmodel.configuration import DecodingConfiguration
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.drafters.sources import Source
from costmodel.optimizers.recommend import recommend
from hardware_profiles.errors import InputError
from real_runs.prompt_set import Prompt, read_prompts
from real_runs.servers.address import Address
from real_runs.servers.asking import asked_together
from real_runs.servers.exchange import Patience, UnreachableError
from real_runs.servers.identify import Server, identify
from real_runs.trials.make import Tell
from real_runs.trials.trials import Plan, PromptCell, by_configuration
from real_runs.validation.bench import run_bench
from real_runs.validation.predict import PredictedRun, Prediction
from real_runs.validation.runs import Run
from real_runs.validation.score import Groups, Validation
from real_runs.validation.servers.configurations import ServerConfiguration
from real_runs.validation.subject import BenchOptions, Predictor, Subject, grouped

RECORDER = "rooftree-validate-restarted 2"
_POLL_S = 2.0
_SHORT = Patience(connect_s=2.0, silence_s=10.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class RestartOptions:
    """What a server is asked, and what it should be restarted with.

    Attributes:
        bench: folder for runs, files to restart with and the report; and rounds. To resume says
            that the server has been restarted with what was named.
        address: of the server.
        question: model, device, engine and method that predict.
        source: drafter, and where its acceptance is known from.
        users: requests that decode together, ascending.
        draft_tokens: lengths to restart with; the server runs plainly at first.
        max_new_tokens: of every answer.
        prompts: prompt file; None: the shipped set.
        seed: of the search and of intervals.
    """

    bench: BenchOptions
    address: Address
    question: DecodingConfiguration
    source: Source
    users: tuple[int, ...] = (1, 4, 16)
    draft_tokens: tuple[int, ...] = (3, 5)
    max_new_tokens: int = 128
    prompts: Path | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedServer:
    """A running server that is asked by as many users as a group of prompts has; every run takes
    the prompts that follow those of the run before.
    """

    server: Server
    prompts: Iterator[Prompt]
    users: Mapping[tuple[str, ...], int]
    max_new_tokens: int

    def warm(self, configuration: ServerConfiguration, prompts: Sequence[str]) -> None:
        """Nothing: the server has served before."""

    def probes(self) -> list[float]:
        """None: its machine is out of reach."""
        return []

    def run(self, configuration: ServerConfiguration, prompts: Sequence[str]) -> dict[str, Any]:
        """Ask together; JSON values of `Run`, but for its place.

        Raises:
            FailedRunError: an answer that is not whole.
        """
        own = itertools.islice(self.prompts, self.users[tuple(prompts)])
        return asked_together(
            self.server, [prompt.text for prompt in own], max_tokens=self.max_new_tokens
        )


@dataclass(kw_only=True, slots=True)
class RestartedServer:
    """A server that somebody else restarts.

    Attributes:
        options: what is asked.
        users: requests that decode together, by prompts of a run.
        files: what to restart with, by configuration.
        restarted: waits until the server runs what lies there; False ends here.
        prompts: texts to send, without an end.
        running: name of the configuration that runs; "" before the first one, which is what the
            server runs when it is first asked.
    """

    options: RestartOptions
    users: Mapping[tuple[str, ...], int]
    files: Mapping[str, str]
    restarted: Callable[[str], bool]
    prompts: Iterator[Prompt]
    running: str = field(default="", init=False)

    @contextmanager
    def launch(self, configuration: ServerConfiguration) -> Iterator[AskedServer | None]:
        """The server, once it runs a configuration; None where nobody waits for that."""
        if self.running not in ("", configuration.name) and not self.restarted(
            self.files[configuration.name]
        ):
            yield None
            return
        self.running = configuration.name
        yield AskedServer(
            server=identify(self.options.address, patience=_SHORT),
            prompts=self.prompts,
            users=self.users,
            max_new_tokens=self.options.max_new_tokens,
        )


def validate_restarted(
    options: RestartOptions,
    name_files: Callable[[ServerConfiguration], str],
    *,
    restarted: Callable[[str], bool],
    tell: Tell = lambda text: None,
) -> Validation:
    """Measure what the server runs now, and every next configuration once it has been restarted
    with it.

    Args:
        options: what and how long.
        name_files: writes what starts a configuration, and says where it lies.
        restarted: waits until the server runs what lies there; False ends here, for a later call to
            go on.
        tell: called with what is under way.

    Returns:
        The validation of what has been measured; its points lie in the folder of runs as
        `validation.parquet`.

    Raises:
        InputError: not reachable, a folder that holds other runs, or a server that answers nothing
            whole.
    """
    deadline = time.monotonic() + options.bench.budget_s
    server = identify(options.address, patience=_SHORT)
    contender = _contender(options)
    plain, *drafting = [
        ServerConfiguration(chosen=replace(contender.configuration, draft_tokens=draft_tokens))
        for draft_tokens in (0, *options.draft_tokens)
    ]
    options.bench.out.mkdir(parents=True, exist_ok=True)
    cells = [
        PromptCell(
            phase="score", kind="as sent", context=0, batch=users, prompts=(f"{users} users",)
        )
        for users in options.users
    ]
    restarting = RestartedServer(
        options=options,
        users={cell.prompts: cell.batch for cell in cells},
        # says now, not after the runs, what cannot be written
        files={served.name: name_files(served) for served in drafting},
        restarted=restarted,
        prompts=itertools.cycle(read_prompts(options.prompts).prompts),
    )

    def predict(cell: PromptCell, served: ServerConfiguration, runs: Sequence[Run]) -> Groups:
        return {
            group: (own, _predicted(contender, served, cell.batch, own))
            for group, own in grouped(cell, runs).items()
        }

    names = options.question.deployment
    subject = Subject(
        plan=Plan(cells=[(cell, [plain, *drafting]) for cell in cells], chosen=None),
        setup={
            "recorder": RECORDER,
            "model": server.model,
            "kind": server.kind,
            "max_new_tokens": options.max_new_tokens,
        },
        about={
            "engine": names.engine,
            "served": server.kind,
            "model": names.model,
            "device": names.device,
            "threads": "",
            "profile": Path(names.device).stem,
            "fidelity": names.fidelity,
            "seed": options.seed,
            "max_new_tokens": options.max_new_tokens,
            "acceptance": options.source.label,
        },
        launch=restarting.launch,
        counted=list,  # nothing tells how disturbed they were
        predictor=lambda counted: Predictor(predict=predict),
        order=by_configuration,
    )
    return run_bench(subject, options.bench, deadline=deadline, tell=tell)


def _predicted(
    contender: Contender, served: ServerConfiguration, users: int, runs: Sequence[Run]
) -> Prediction:
    """What requests as long as the server counted should take."""
    setting = contender.setting
    prompt = fmean(run.prompt_tokens for run in runs)
    tokens = median(run.tokens for run in runs)
    acceptance = next(
        candidate
        for candidate in contender.candidates
        if candidate.draft_tokens == served.draft_tokens
    )
    estimated = estimate(setting, acceptance, batch=users, context=prompt + tokens / users / 2.0)
    spread = intervals(
        setting, estimated, batch=users, generator=np.random.default_rng(0)
    ).tokens_per_s
    steps = tokens / users / acceptance.tokens_per_step
    draft_s, verify_s, step_s = (
        float(seconds)
        for seconds in (estimated.step.draft_s, estimated.step.verify_s, estimated.step_s)
    )
    return Prediction(
        run=PredictedRun(
            tokens=round(tokens),
            steps=steps,
            request_steps=steps * users,
            draft_s=steps * draft_s,
            verify_s=steps * verify_s,
            rest_s=steps * (step_s - draft_s - verify_s),
        ),
        spread_ratio=math.sqrt(float(spread[1].item()) / float(spread[0].item())) - 1.0,
        ttft_s=float(prefill_s(setting, prompt_tokens=prompt, batch=users)),
        tpot_s=step_s / acceptance.tokens_per_step,
    )


def wait_until_back(address: Address, *, pressed: Callable[[], bool], tell: Tell) -> bool:
    """Wait until a server has gone and come back, or until somebody says that it has.

    Args:
        address: of the server.
        pressed: whether somebody says so.
        tell: called with what is waited for.
    """
    gone = False
    while True:
        try:
            identify(address, patience=_SHORT)
            if gone or pressed():
                return True
            tell("waiting for the server to be restarted; press Enter where it has been")
        except (UnreachableError, InputError):
            gone = True
            tell("the server is gone; waiting for it to come back")
        time.sleep(_POLL_S)


def _contender(options: RestartOptions) -> Contender:
    """The drafter in its setting, with the acceptance of every length."""
    recommendation = recommend(
        options.question,
        [options.source],
        batches=list(options.users),
        contexts=[0],
        draft_tokens=options.draft_tokens,
        tree_sizes=(),
        seed=options.seed,
    )
    return recommendation.contenders[0]
