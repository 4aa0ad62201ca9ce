"""How far are predicted tokens per second of the small masked model from measured ones, and what
does a choice cost?

Anchors are recorded on some prompts, costs are fitted on others, and every setting is run live on a
third part of them, round after round. At every floor of agreement the setting that is predicted
fastest is the choice. Leaves out what is run (`settings`) and how it is predicted (`predict`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import make_folder
from real_runs.masked.training import MaskedRecipe, masked_model
from real_runs.recording.masked import MaskedRecording, record_masked, trace_path
from real_runs.recording.options import Progress
from real_runs.training import module_sha256
from real_runs.trials.make import Tell
from real_runs.trials.trials import Plan, PromptCell
from real_runs.validation.bench import run_bench
from real_runs.validation.masked.decoder import MaskedDecoder
from real_runs.validation.masked.predict import Foretold
from real_runs.validation.masked.settings import CanvasSetting, fitted_settings, scored_settings
from real_runs.validation.masked.subject import masked_canvases
from real_runs.validation.score import Point, Regret, Validation, regrets, summary
from real_runs.validation.subject import BenchOptions
from traces.kinds.refine_policy import CACHES, RefinePolicy
from traces.replay.confidence.anchors import Anchors
from traces.replay.confidence.anchors import pooled as pooled_anchors
from traces.storage.confidence_file import read_confidence

FLOORS = (0.99, 0.95, 0.9, 0.8, 0.0)
_FIT_PROMPTS = 12
_DRAFTS = 4  # states that a forward confirms at most


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedOptions:
    """What to validate.

    Attributes:
        bench: folder for runs and report, rounds, and wall time for the runs.
        model: folder of model and anchors, as `record --masked` leaves it; None: they are made in
            the folder of runs.
        named: policies that are run beside the usual ones.
        batches: canvases together.
        prompts: that settings run on; none gave an anchor.
        seed: of the model.
        recipe: of the model; None: the usual one with that seed.

    Raises:
        InputError: batches or prompts out of range.
    """

    bench: BenchOptions
    model: Path | None = None
    named: tuple[RefinePolicy, ...] = ()
    batches: tuple[int, ...] = (1, 4)
    prompts: int = 64
    seed: int = 0
    recipe: MaskedRecipe | None = None
    anchor_prompts: int = 64

    def __post_init__(self) -> None:
        if not self.batches or not all(1 <= batch <= 16 for batch in self.batches):
            raise InputError("must lie in [1, 16]", key="batch", value=self.batches)
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
class MaskedValidation:
    """What a validation of a masked model found.

    Attributes:
        validation: points, and the regrets of the choices below.
        choices: by floor of agreement.
        replays: what anchors alone say.
    """

    validation: Validation
    choices: tuple[FloorChoice, ...]
    replays: tuple[ReplayedSetting, ...]


def validate_masked(options: MaskedOptions, *, tell: Tell = lambda text: None) -> MaskedValidation:
    """Train and record where that was not done, run everything, and score; safe to kill and to
    resume.

    Args:
        options: what and how long.
        tell: called with what is under way.

    Raises:
        InputError: a folder that holds other runs, or a budget in which nothing could be scored.
    """
    torch.set_num_threads(1)
    make_folder(options.bench.out)
    recipe = options.recipe or MaskedRecipe(seed=options.seed)
    anchors = _anchors(options, recipe, tell)
    decoder = _decoder(options, recipe)
    plan = _plan(options, list(decoder.prompts))
    replays: dict[tuple[int, str], Foretold] = {}
    subject = masked_canvases(
        plan,
        decoder,
        anchors,
        replays,
        stated={
            "prompts": options.prompts,
            "anchor_prompts": options.anchor_prompts,
            "seed": options.seed,
        },
        keep_disturbed=options.bench.keep_disturbed,
    )
    deadline = time.monotonic() + options.bench.budget_s
    validation = run_bench(subject, options.bench, deadline=deadline, tell=tell)
    lost, choices = _choices(validation.points, plan, decoder, replays)
    return MaskedValidation(
        validation=replace(
            validation, regrets=tuple(lost), summary=summary(validation.points, lost)
        ),
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
    )


def _anchors(options: MaskedOptions, recipe: MaskedRecipe, tell: Tell) -> dict[str, Anchors]:
    """Anchors by cache, recorded where they are not there."""
    recording = MaskedRecording(
        out=options.model or options.bench.out / "model",
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
    model_sha256 = module_sha256(masked_model(recording.out, recipe))
    for trace in traces.values():
        if trace.provenance.extra.get("model_sha256") != model_sha256:
            raise InputError(
                "was recorded with another model than lies beside it",
                file=trace.file,
                key="model_sha256",
            )
    return {cache: pooled_anchors(trace) for cache, trace in traces.items()}


def _decoder(options: MaskedOptions, recipe: MaskedRecipe) -> MaskedDecoder:
    """The model, and prompts that gave no anchor: those that are scored, then those that costs are
    fitted on.
    """
    count = options.prompts + max(*options.batches, _FIT_PROMPTS)
    return MaskedDecoder(
        model=masked_model(options.model or options.bench.out / "model", recipe),
        recipe=recipe,
        prompts=recipe.corpus.prompts(count, first=options.anchor_prompts),
    )


def _plan(options: MaskedOptions, prompts: Sequence[str]) -> Plan[CanvasSetting]:
    """Cells to fit on, of every batch that a scored one can shrink to; then those that are scored.

    A budget that ends early has timed what every prediction needs.
    """
    scored, fitted = tuple(prompts[: options.prompts]), tuple(prompts[options.prompts :])
    plan: list[tuple[PromptCell, list[CanvasSetting]]] = []
    for batch in range(1, max(*options.batches, _DRAFTS) + 1):
        cell = PromptCell(
            phase="fit",
            kind="fit",
            context=0,
            batch=batch,
            prompts=fitted[: len(fitted) // batch * batch],
        )
        plan.append((cell, fitted_settings(batch, rules=batch in options.batches)))
    for batch in sorted(options.batches):
        cell = PromptCell(phase="score", kind="names", context=0, batch=batch, prompts=scored)
        plan.append((cell, scored_settings(batch, options.named)))
    return Plan(cells=plan, chosen={})


def _choices(
    points: Sequence[Point],
    plan: Plan[CanvasSetting],
    decoder: MaskedDecoder,
    replays: Mapping[tuple[int, str], Foretold],
) -> tuple[list[Regret], list[FloorChoice]]:
    """At every floor of predicted agreement: the setting that is predicted fastest, what it lost,
    and its agreement.
    """
    lost, choices = list[Regret](), list[FloorChoice]()
    of_name = {setting.name: setting for _, setting in plan.scored}

    @cache
    def texts(cell: PromptCell, name: str) -> NDArray[np.int32]:
        settled = [decoder.decoded(of_name[name], group) for group in cell.groups]
        return np.concatenate([batch.tokens for batch in settled])

    for cell, settings in plan.cells:
        here = [point for point in points if (point.kind, point.batch) == (cell.kind, cell.batch)]
        if not here:
            continue
        plain = next(setting for setting in settings if not setting.drafter)
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
