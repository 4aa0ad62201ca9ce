"""How far are predicted tokens per second of the small masked model from measured ones, and what
does a choice cost?

Anchors are recorded on some prompts, costs are fitted on others, and every setting is run live on a
third part of them, round after round. At every floor of agreement the setting that is predicted
fastest is the choice. Leaves out what is run (`settings`) and how it is predicted (`predict`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import quantiles
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import make_folder
from real_runs.masked.training import MaskedRecipe, masked_model
from real_runs.models.processor import cpu_title
from real_runs.recording.log import RecordingLog
from real_runs.recording.masked import MaskedRecording, record_masked, trace_path
from real_runs.recording.options import Progress
from real_runs.training import module_sha256
from real_runs.validation.cells import ValidationCell
from real_runs.validation.masked.bench import MaskedBench
from real_runs.validation.masked.predict import Foretold, PassCosts, fit_costs, foretold
from real_runs.validation.masked.settings import CanvasSetting, fitted_settings, scored_settings
from real_runs.validation.rounds import pooled, probe_correlation, steadied, undisturbed
from real_runs.validation.runs import Run, make_runs
from real_runs.validation.score import (
    ErrorSummary,
    Point,
    Regret,
    regrets,
    score_point,
    summary,
    write_points,
)
from traces.kinds.refine_policy import CACHES, RefinePolicy
from traces.replay.confidence.anchors import Anchors
from traces.replay.confidence.anchors import pooled as pooled_anchors
from traces.storage.confidence_file import read_confidence

FLOORS = (0.99, 0.95, 0.9, 0.8, 0.0)
_FIT_PROMPTS = 12
_DRAFTS = 4  # states that a forward confirms at most
_LEAST_SHARE = 0.5  # of a cell's batches that must have run undisturbed
_RECORDER = "rooftree-validate-masked 1"
Plan = list[tuple[ValidationCell, list[CanvasSetting]]]
Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedValidation:
    """What to validate.

    Attributes:
        out: folder for runs and report.
        model: folder of model and anchors, as `record --masked` leaves it; None: they are made in
            `out`.
        named: policies that are run beside the usual ones.
        batches: canvases together.
        prompts: that settings run on; none gave an anchor.
        rounds: times that everything is run; of every forward the median counts.
        budget_s: wall time for the runs.
        seed: of the model.
        resume: go on in a folder that holds runs.
        keep_disturbed: score runs that other processes disturbed, too.
        recipe: of the model; None: the usual one with that seed.

    Raises:
        InputError: batches or prompts out of range.
    """

    out: Path
    model: Path | None = None
    named: tuple[RefinePolicy, ...] = ()
    batches: tuple[int, ...] = (1, 4)
    prompts: int = 64
    rounds: int = 1
    budget_s: float = 900.0
    seed: int = 0
    resume: bool = False
    keep_disturbed: bool = False
    recipe: MaskedRecipe | None = None
    anchor_prompts: int = 64

    def __post_init__(self) -> None:
        if not self.batches or not all(1 <= batch <= 16 for batch in self.batches):
            raise InputError("must lie in [1, 16]", key="--batch", value=self.batches)
        held_back = (self.recipe or MaskedRecipe()).corpus.held_back
        most = held_back - self.anchor_prompts - max(*self.batches, _FIT_PROMPTS)
        if not 1 <= self.prompts <= most or any(self.prompts % batch for batch in self.batches):
            raise InputError(
                f"must be 1 to {most}, and full batches", key="prompts", value=self.prompts
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class FloorChoice:
    """The setting that is predicted fastest among those that keep to a floor of agreement.

    Attributes:
        batch: canvases together.
        floor: least predicted agreement with one token a pass.
        chosen: its name.
        allowed: settings that keep to the floor.
        predicted_agreement: of the chosen one.
        agreement: what was measured of it.
    """

    batch: int
    floor: float
    chosen: str
    allowed: int
    predicted_agreement: float
    agreement: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplayedSetting:
    """What the anchors alone say of a setting.

    Attributes:
        batch: canvases together.
        configuration: its name.
        agreement: with one token a pass.
        how: what its passes rest on, as `RefineReplay.how`.
        is_beyond_anchors: whether it commits more a pass than any anchor.
    """

    batch: int
    configuration: str
    agreement: float
    how: str
    is_beyond_anchors: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedReport:
    """What a validation found: as `Validation`, with costs of forwards, choices by floor of
    agreement, and replays.
    """

    points: tuple[Point, ...]
    regrets: tuple[Regret, ...]
    summary: ErrorSummary
    costs: PassCosts
    choices: tuple[FloorChoice, ...]
    replays: tuple[ReplayedSetting, ...]
    missing: int
    left_out: tuple[str, ...]
    about: Mapping[str, Any] = field(default_factory=dict)


def validate_masked(options: MaskedValidation, *, tell: Tell = lambda text: None) -> MaskedReport:
    """Train and record where that was not done, run everything, and score; safe to kill and to
    resume.

    Args:
        options: what and how long.
        tell: called with what is under way.

    Raises:
        InputError: a folder that holds other runs, or a budget in which nothing could be scored.
    """
    torch.set_num_threads(1)
    make_folder(options.out)
    recipe = options.recipe or MaskedRecipe(seed=options.seed)
    anchors = _anchors(options, recipe, tell)
    bench = _bench(options, recipe)
    plan = _plan(options, list(bench.prompts))
    setup = {
        "recorder": _RECORDER,
        "model_sha256": module_sha256(bench.model),
        "dataset_sha256": recipe.corpus.sha256,
        "device": cpu_title(),
        "threads": 1,
        "torch": torch.__version__,
        "dtype": "float32",
        "plan": {cell.name: [setting.name for setting in settings] for cell, settings in plan},
        "prompts": list(bench.prompts),
    }
    with RecordingLog(options.out / "runs.part.jsonl", setup, resume=options.resume) as log:
        missing = make_runs(
            bench,
            plan,
            log,
            rounds=options.rounds,
            deadline=time.monotonic() + options.budget_s,
            progress=lambda done, total, text: tell(f"{done} of {total}: {text}"),
        )
        runs = [Run.from_json(entry) for entry in log.finished]
    tell("scoring")
    report = _scored(
        options, recipe, anchors, bench, plan, runs, missing, _about(options, recipe, setup, runs)
    )
    write_points(report.points, options.out / "validation.parquet")
    return report


def _anchors(options: MaskedValidation, recipe: MaskedRecipe, tell: Tell) -> dict[str, Anchors]:
    """Anchors by cache, recorded where they are not there."""
    recording = MaskedRecording(
        out=options.model or options.out / "model",
        recipe=recipe,
        prompts=options.anchor_prompts,
        resume=True,
    )

    def report(progress: Progress) -> None:
        tell(f"{progress.stage}: {progress.done} of {progress.total}")

    paths = {cache: trace_path(recording, cache) for cache in CACHES}
    if not all(path.is_file() for path in paths.values()):
        record_masked(recording, progress=report)
    traces = {cache: read_confidence(path) for cache, path in paths.items()}
    made_by = module_sha256(masked_model(recording.out, recipe))
    for trace in traces.values():
        if trace.provenance.extra.get("model_sha256") != made_by:
            raise InputError(
                "was recorded with another model than lies beside it",
                file=trace.file,
                key="model_sha256",
            )
    return {cache: pooled_anchors(trace) for cache, trace in traces.items()}


def _bench(options: MaskedValidation, recipe: MaskedRecipe) -> MaskedBench:
    """The model, and prompts that gave no anchor: those that are scored, then those that costs are
    fitted on.
    """
    count = options.prompts + max(*options.batches, _FIT_PROMPTS)
    return MaskedBench(
        model=masked_model(options.model or options.out / "model", recipe),
        recipe=recipe,
        prompts=recipe.corpus.prompts(count, first=options.anchor_prompts),
    )


def _plan(options: MaskedValidation, prompts: Sequence[str]) -> Plan:
    """Cells to fit on, of every batch that a scored one can shrink to; then those that are scored.

    A budget that ends early has timed what every prediction needs.
    """
    scored, fitted = tuple(prompts[: options.prompts]), tuple(prompts[options.prompts :])
    plan: Plan = []
    for batch in range(1, max(*options.batches, _DRAFTS) + 1):
        cell = ValidationCell(
            phase="fit",
            kind="fit",
            context=0,
            batch=batch,
            prompts=fitted[: len(fitted) // batch * batch],
        )
        plan.append((cell, fitted_settings(batch, rules=batch in options.batches)))
    for batch in sorted(options.batches):
        cell = ValidationCell(phase="score", kind="names", context=0, batch=batch, prompts=scored)
        plan.append((cell, scored_settings(batch, options.named)))
    return plan


def _scored(
    options: MaskedValidation,
    recipe: MaskedRecipe,
    anchors: Mapping[str, Anchors],
    bench: MaskedBench,
    plan: Plan,
    runs: Sequence[Run],
    missing: int,
    about: Mapping[str, Any],
) -> MaskedReport:
    counted = pooled(steadied(runs if options.keep_disturbed else undisturbed(runs)))
    rules = {
        (cell.name, setting.name): (setting.policy.commit, cell.batch)
        for cell, every in plan
        for setting in every
    }
    fits = {cell.name for cell, _ in plan if cell.phase == "fit"}
    if not (
        fitted := [
            (*rules[run.cell, run.configuration], run) for run in counted if run.cell in fits
        ]
    ):
        raise InputError(
            "no undisturbed run to fit costs on; raise it, or quiet the machine", key="--budget"
        )
    costs = fit_costs(fitted)
    plain = anchors["none"].final_ids[_one_token_runs(anchors["none"])]
    points, replays, left_out = list[Point](), dict[tuple[int, str], Foretold](), list[str]()
    for cell, setting in (
        (cell, setting) for cell, every in plan if cell.phase == "score" for setting in every
    ):
        here = [
            run for run in counted if (run.cell, run.configuration) == (cell.name, setting.name)
        ]
        if len(here) < _LEAST_SHARE * len(cell.groups):
            left_out.append(
                f"{cell.name}: {setting.name}: {len(here)} of {len(cell.groups)} batches ran"
                " undisturbed"
            )
            continue
        states = anchors[setting.policy.cache]
        try:
            replay = foretold(
                states, plain, setting, cell.batch, costs, prompt_tokens=recipe.prompt_tokens
            )
        except InputError as error:
            left_out.append(f"{cell.name}: {setting.name}: {error}")
            continue
        replays[cell.batch, setting.name] = replay
        ran = sum((run.cell, run.configuration) == (cell.name, setting.name) for run in runs)
        points.append(
            score_point(
                cell,
                setting,
                {run.prompts: ([run], replay.run) for run in here},
                spread_ratio=replay.spread_ratio(costs, len(here)),
                chosen=False,
                disturbed=ran - sum(run.rounds for run in here),
                differing=0,
            )
        )
    if not points:
        raise InputError("no setting could be scored; raise it", key="--budget")
    lost, choices = _choices(points, replays, bench, plan)
    whole = summary(points)
    ratios = [regret.regret_ratio for regret in lost]
    if ratios:
        whole = replace(
            whole, mean_regret_ratio=float(np.mean(ratios)), most_regret_ratio=max(ratios)
        )
    return MaskedReport(
        points=tuple(points),
        regrets=tuple(lost),
        summary=whole,
        costs=costs,
        choices=tuple(choices),
        replays=tuple(
            ReplayedSetting(
                batch=batch,
                configuration=name,
                agreement=replay.agreement,
                how=replay.how,
                is_beyond_anchors=replay.is_beyond_anchors,
            )
            for (batch, name), replay in replays.items()
        ),
        missing=missing,
        left_out=tuple(left_out),
        about=about,
    )


def _one_token_runs(states: Anchors) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Every prompt's run of one token a pass."""
    policy = next(candidate for candidate in states.policies if candidate.commit == "static")
    runs = states.run_of(policy)
    if runs is None:
        raise InputError("holds no run of one token a pass for every prompt", key="policies")
    return runs


def _choices(
    points: Sequence[Point],
    replays: Mapping[tuple[int, str], Foretold],
    bench: MaskedBench,
    plan: Plan,
) -> tuple[list[Regret], list[FloorChoice]]:
    """At every floor of predicted agreement: the setting that is predicted fastest, what it lost,
    and its agreement.
    """
    lost, choices = list[Regret](), list[FloorChoice]()
    of_name = {setting.name: setting for _, every in plan for setting in every}

    @cache
    def texts(cell: ValidationCell, name: str) -> NDArray[np.int32]:
        return np.concatenate([bench.decoded(of_name[name], group).tokens for group in cell.groups])

    for cell, every in plan:
        here = [point for point in points if (point.kind, point.batch) == (cell.kind, cell.batch)]
        if not here:
            continue
        plain = next(setting for setting in every if not setting.drafter)
        for floor in FLOORS:
            allowed = [
                point
                for point in here
                if replays[cell.batch, point.configuration].agreement >= floor
            ]
            if not allowed:
                continue
            best = max(allowed, key=lambda point: point.predicted["tokens_per_s"])
            kind = f"agreement of {floor:g}"
            lost += regrets([replace(point, kind=kind, chosen=point is best) for point in allowed])
            choices.append(
                FloorChoice(
                    batch=cell.batch,
                    floor=floor,
                    chosen=best.configuration,
                    allowed=len(allowed),
                    predicted_agreement=replays[cell.batch, best.configuration].agreement,
                    agreement=float(
                        (texts(cell, best.configuration) == texts(cell, plain.name)).mean()
                    ),
                )
            )
    return lost, choices


def _about(
    options: MaskedValidation, recipe: MaskedRecipe, setup: Mapping[str, Any], runs: Sequence[Run]
) -> dict[str, Any]:
    probes = quantiles([run.probe_s for run in runs], n=10) if len(runs) > 1 else []
    correlation = probe_correlation(undisturbed(runs))
    return {
        **{key: value for key, value in setup.items() if key not in ("plan", "prompts")},
        "model": (
            f"masked diffusion, {recipe.layers} layers of width {recipe.width}, {recipe.steps}"
            " steps"
        ),
        "profile": "forwards timed on other prompts",
        "fidelity": "measured",
        "rounds": options.rounds,
        "prompts": options.prompts,
        "anchor_prompts": options.anchor_prompts,
        "seed": options.seed,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "probe_deciles_s": probes,
        "probe_correlation": None if math.isnan(correlation) else correlation,
        "acceptance": "real; predicted passes replay anchors of other prompts",
    }
