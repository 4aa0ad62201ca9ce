"""How far are predictions from llama.cpp's server, started with the flags that are exported?

Answers of a plain server say what drafters would propose; `optimize` chooses for every cell; what
it chose and a spread of what it did not are started, measured in rounds with a probe beside every
run, and put beside what the calibrated device, its measured passes and its engine file predict.
Nothing is fitted on what is scored. Leaves out a server that somebody else runs (`restart`).
"""

from __future__ import annotations

import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from costmodel.answers.settings import build_setting
from costmodel.answers.steps.setting import Setting
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.method_library import load_method
from real_runs.campaigns.results import offer_measured_passes
from real_runs.doctor import processor_name
from real_runs.prompt_set import read_prompts
from real_runs.recording.log import RecordingLog
from real_runs.servers.address import Address
from real_runs.servers.llama_cpp.launch import launched
from real_runs.servers.llama_cpp.recording import draft_trace
from real_runs.trials.make import Tell
from real_runs.trials.trials import Plan, PromptCell
from real_runs.validation.bench import run_bench
from real_runs.validation.predict import Prediction
from real_runs.validation.score import Point, Validation
from real_runs.validation.servers.choice import chosen_for
from real_runs.validation.servers.configurations import DRAFT, ServerConfiguration, plain
from real_runs.validation.servers.launches import Command, ServerLaunches
from real_runs.validation.servers.options import ServerOptions
from real_runs.validation.servers.plan import (
    SYNTHETIC,
    SYNTHETIC_CONTEXT,
    Wanted,
    cell_plan,
    server_cells,
)
from real_runs.validation.servers.predict import Counted, Predict, predicted_group
from real_runs.validation.servers.recordings import KnownPrompts, record_prompts
from real_runs.validation.servers.slots import cache_folder
from real_runs.validation.servers.steps_file import keep_steps
from real_runs.validation.servers.subject import Group, prompt_times, started_servers
from real_runs.validation.subject import Subject
from traces.kinds.acceptance import AcceptanceTrace
from traces.storage.acceptance_file import read_acceptance, write_acceptance

RECORDER = "rooftree-validate-server 1"
ROOM_TOKENS = 32  # of a slot behind the longest answer, for drafts that reach beyond it


def validate_server(
    options: ServerOptions, command: Command, *, tell: Tell = lambda text: None
) -> Validation:
    """Answer, choose, start, measure and score; safe to kill and to resume.

    Args:
        options: what and how long.
        command: the exported command line of a configuration, without the program's name.
        tell: called with what is under way.

    Returns:
        The validation; its points lie in the folder of runs as `validation.parquet`.

    Raises:
        InputError: no such profile or engine, a server that does not start or draft, a folder that
            holds other runs, or a budget in which nothing could be scored.
    """
    bench = options.bench
    deadline = time.monotonic() + bench.budget_s
    caches = bench.out / "caches"
    caches.mkdir(parents=True, exist_ok=True)
    offer_measured_passes()
    subject, recorded = _prepared(options, command, caches, tell)
    validation = run_bench(subject, bench, deadline=deadline, tell=tell)
    _keep_steps(validation.points, subject.plan, recorded, options)
    if not validation.missing:
        shutil.rmtree(caches, ignore_errors=True)
    return validation


def _prepared(
    options: ServerOptions, command: Command, caches: Path, tell: Tell
) -> tuple[Subject[ServerConfiguration], KnownPrompts]:
    """A plain server's answers recorded, and what is started chosen."""
    base = _base(options)
    _setting(plain(base), base)  # says now, not after the runs, what cannot be predicted
    wanted = Wanted(
        slots=options.slots,
        contexts=options.contexts,
        per_slots=options.per_slots,
        drafts=options.draft is not None,
        synthetic=options.synthetic,
        seed=options.seed,
    )
    cells, recorded = _recorded(options, wanted, base, command, caches, tell)
    predict = _predictor(options, base, recorded)
    tell("choosing")
    chosen = {
        cell.name: chosen_for(
            cell,
            recorded,
            replace(base, max_batch=cell.batch),
            options.bench.out / "traces" / str(place),
            predict,
            draft=wanted.drafts and cell.context == min(options.contexts),
            seed=options.seed,
        )
        for place, cell in enumerate(cells)
        if cell.kind != SYNTHETIC
    }
    plan = Plan(
        cells=cell_plan(cells, base, chosen, wanted),
        chosen={cell: served.name for cell, served in chosen.items()},
    )
    subject = started_servers(
        plan,
        _servers(options, command, caches, recorded.prompts),
        recorded,
        predict,
        setup={
            "recorder": RECORDER,
            "threads": options.threads,
            "max_new_tokens": options.max_new_tokens,
        },
        about=_about(options, base, recorded, plan, command),
        keep_disturbed=options.bench.keep_disturbed,
    )
    return subject, recorded


def _keep_steps(
    points: Sequence[Point],
    plan: Plan[ServerConfiguration],
    recorded: KnownPrompts,
    options: ServerOptions,
) -> None:
    """The steps behind points whose acceptance was replayed, for later versions of the cost model
    to be scored on.
    """
    scored = {
        (cell.kind, cell.context, cell.batch, served.name): (cell, served)
        for cell, served in plan.scored
    }
    named = [
        scored[point.kind, point.context, point.batch, point.configuration] for point in points
    ]
    keep_steps(
        [
            (place, recorded.steps(served, group, seed=options.seed)[0])
            for place, (cell, served) in enumerate(named)
            if not served.synthetic
            for group in cell.groups
        ],
        options.bench.out,
    )


def _base(options: ServerOptions) -> DecodingConfiguration:
    longest = max(*options.contexts, SYNTHETIC_CONTEXT if options.synthetic else 0)
    return DecodingConfiguration(
        deployment=DeploymentNames(
            model=str(options.model),
            device=options.profile,
            engine=options.engine,
            fidelity=options.fidelity,
        ),
        draft_model=None if options.draft is None else str(options.draft),
        max_batch=1,
        max_length=longest + options.max_new_tokens + ROOM_TOKENS,
    )


def _setting(served: ServerConfiguration, base: DecodingConfiguration) -> Setting:
    """What prices a configuration: the target and the engine's share; a draft model is priced
    beside it.
    """
    if served.chosen.method != DRAFT:
        return build_setting(served.chosen)
    setting = build_setting(plain(base).chosen)
    return replace(setting, overhead=setting.engine.overhead(load_method(DRAFT).drafted_by))


def _servers(
    options: ServerOptions, command: Command, caches: Path, prompts: Mapping[str, tuple[int, ...]]
) -> ServerLaunches:
    return ServerLaunches(
        command=command,
        folder=options.bench.out / "server",
        caches=caches.resolve(),
        prompts=prompts,
        max_new_tokens=options.max_new_tokens,
        threads=options.threads,
        binary=options.binary,
        cpu=options.cpu,
    )


def _recorded(
    options: ServerOptions,
    wanted: Wanted,
    base: DecodingConfiguration,
    command: Command,
    caches: Path,
    tell: Tell,
) -> tuple[list[PromptCell], KnownPrompts]:
    """Cells in the server's tokens, its plain answers, and where a draft model agrees with them."""
    setup = {
        "recorder": RECORDER,
        "slots": list(options.slots),
        "contexts": list(options.contexts),
        "seed": options.seed,
        "max_new_tokens": options.max_new_tokens,
        "synthetic": options.synthetic,
        "threads": options.threads,
        "draft": None if options.draft is None else options.draft.name,
    }
    servers, bench = _servers(options, command, caches, {}), options.bench
    with RecordingLog(bench.out / "answers.part.jsonl", setup, resume=bench.resume) as log:
        tell("starting a plain server")
        with servers.launch(plain(base)) as running:
            server = running.server
            cells, ids = server_cells(server, read_prompts(options.prompts), wanted)
            recorded = record_prompts(
                server,
                ids,
                log,
                cache_folder(caches, 1),
                max_new_tokens=options.max_new_tokens,
                model=load_model(str(options.model)).name,
                tell=tell,
            )
    if options.draft is None:
        return cells, recorded
    near = [
        name for cell in cells if cell.context == min(options.contexts) for name in cell.prompts
    ]
    trace = _draft_trace(options, recorded, list(dict.fromkeys(near)), base, command, tell)
    return cells, replace(recorded, draft=trace)


def _draft_trace(
    options: ServerOptions,
    recorded: KnownPrompts,
    names: Sequence[str],
    base: DecodingConfiguration,
    command: Command,
    tell: Tell,
) -> AcceptanceTrace:
    """The draft model's own next tokens after every position of the answers to some prompts; kept
    once recorded.
    """
    file = options.bench.out / "traces" / "draft.parquet"
    if options.bench.resume and file.exists():
        return read_acceptance(file)
    file.parent.mkdir(parents=True, exist_ok=True)
    alone = replace(
        plain(base).chosen, deployment=replace(base.deployment, model=str(options.draft))
    )
    with launched(
        command(ServerConfiguration(chosen=alone)),
        folder=options.bench.out / "server",
        binary=options.binary,
        threads=options.threads,
    ) as running:
        trace = draft_trace(
            recorded.of(names),
            Address.parse(running.url),
            tell=lambda done, total: tell(
                f"reading the draft model after answer {done} of {total}"
            ),
        )
    write_acceptance(trace, file)
    return trace


def _predictor(
    options: ServerOptions, base: DecodingConfiguration, recorded: KnownPrompts
) -> Predict:
    layers = 0 if options.draft is None else load_model(str(options.draft)).layers

    def predict(served: ServerConfiguration, group: Group, counted: Counted) -> Prediction:
        drawn = recorded.steps(served, group, seed=options.seed, counted=counted)
        cut = layers if served.chosen.method == DRAFT else 0
        return predicted_group(_setting(served, base), cut, drawn, draft_tokens=served.draft_tokens)

    return predict


def _about(
    options: ServerOptions,
    base: DecodingConfiguration,
    recorded: KnownPrompts,
    plan: Plan[ServerConfiguration],
    command: Command,
) -> dict[str, Any]:
    scored = {
        f"{served.chosen.max_batch} slots, {served.name}": served for _, served in plan.scored
    }
    return {
        "engine": "llama.cpp",
        "model": load_model(str(options.model)).name,
        "device": f"CPU: {processor_name()}",
        "threads": options.threads,
        "profile": Path(options.profile).stem,
        "fidelity": options.fidelity,
        "seed": options.seed,
        "max_new_tokens": options.max_new_tokens,
        "acceptance": (
            "text: drafters replayed on a plain server's answers; synthetic: draws with the"
            " server's counts"
        ),
        "commands": {
            name: shlex.join(["llama-server", *_shown(command(served))])
            for name, served in scored.items()
        },
        "draft_layers": 0 if options.draft is None else load_model(str(options.draft)).layers,
        "weights": load_model(str(options.model)).dtype,
        "prompts": prompt_times(build_setting(plain(base).chosen), recorded),
    }


def _shown(arguments: Sequence[str]) -> list[str]:
    """A command line whose files are named without their folders: where they lay is nobody's
    business.
    """
    return [
        Path(argument).name if argument.endswith(".gguf") else argument for argument in arguments
    ]
