"""What is peculiar to a masked model whose settings are run beside their predictions?

Leaves out recording anchors and choosing by floors of agreement (`validate`), and the steps that
all subjects take alike (`real_runs.validation.bench`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from real_runs.models.processor import cpu_title
from real_runs.training import module_sha256
from real_runs.trials.trials import Plan, PromptCell
from real_runs.validation.masked.decoder import MaskedDecoder
from real_runs.validation.masked.predict import Foretold, fit_costs, foretold
from real_runs.validation.masked.settings import CanvasSetting
from real_runs.validation.predict import Prediction
from real_runs.validation.rounds import pooled, steadied, undisturbed
from real_runs.validation.runs import Run
from real_runs.validation.score import Groups
from real_runs.validation.subject import Predictor, Subject, UnscoredError
from traces.replay.confidence.anchors import Anchors

_LEAST_SHARE = 0.5  # of a cell's batches that must have run undisturbed
_RECORDER = "rooftree-validate-masked 1"


def masked_canvases(
    plan: Plan[CanvasSetting],
    decoder: MaskedDecoder,
    anchors: Mapping[str, Anchors],
    replays: dict[tuple[int, str], Foretold],
    *,
    stated: Mapping[str, Any],
    keep_disturbed: bool = False,
) -> Subject[CanvasSetting]:
    """Canvases of the small masked model as a bench runs them.

    Args:
        plan: cells and settings.
        decoder: model and prompts.
        anchors: by cache.
        replays: takes what the anchors say, by batch and setting, of all that is predicted.
        stated: what was asked for, for the report.
        keep_disturbed: runs that other processes disturbed count, too.
    """
    recipe = decoder.recipe
    setup = {
        "recorder": _RECORDER,
        "model_sha256": module_sha256(decoder.model),
        "dataset_sha256": recipe.corpus.sha256,
        "device": cpu_title(),
        "threads": 1,
        "torch": torch.__version__,
        "dtype": "float32",
    }
    title = f"masked diffusion, {recipe.layers} layers of width {recipe.width}"
    return Subject(
        plan=plan,
        setup=setup | {"prompts": list(decoder.prompts)},
        about=setup
        | {
            "model": f"{title}, {recipe.steps} steps",
            "profile": "forwards timed on other prompts",
            "fidelity": "measured",
            **stated,
            "acceptance": "real; predicted passes replay anchors of other prompts",
        },
        launch=lambda setting: nullcontext(decoder),
        counted=lambda runs: pooled(steadied(runs if keep_disturbed else undisturbed(runs))),
        predictor=partial(_predictor, plan, anchors, recipe.prompt_tokens, replays),
    )


def _predictor(
    plan: Plan[CanvasSetting],
    anchors: Mapping[str, Anchors],
    prompt_tokens: int,
    replays: dict[tuple[int, str], Foretold],
    counted: Sequence[Run],
) -> Predictor[CanvasSetting]:
    """What settings should take, from anchors of other prompts and costs of forwards and rules."""
    fits = {
        (cell.name, setting.name): (setting.policy.commit, cell.batch)
        for cell, setting in plan.fitted
    }
    timed = [
        (*fits[run.cell, run.configuration], run)
        for run in counted
        if (run.cell, run.configuration) in fits
    ]
    if not timed:
        rule = "no undisturbed run to fit costs on; raise it, or quiet the machine"
        raise InputError(rule, key="budget")
    costs, plain = fit_costs(timed), anchors["none"]
    one_token = plain.final_ids[_one_token_runs(plain)]

    def predict(cell: PromptCell, setting: CanvasSetting, runs: Sequence[Run]) -> Groups:
        """The batches that ran, beside the mean batch of anchors' prompts."""
        if len(runs) < _LEAST_SHARE * len(cell.groups):
            rule = f"{len(runs)} of {len(cell.groups)} batches ran undisturbed"
            raise UnscoredError(rule)
        replay = foretold(
            anchors[setting.policy.cache],
            one_token,
            setting,
            cell.batch,
            costs,
            prompt_tokens=prompt_tokens,
        )
        replays[cell.batch, setting.name] = replay
        spread_ratio = replay.spread_ratio(costs, len(runs))
        prediction = Prediction(run=replay.run, spread_ratio=spread_ratio)
        return {run.prompts: ([run], prediction) for run in runs}

    return Predictor(predict=predict, costs=costs.as_json())


def _one_token_runs(states: Anchors) -> NDArray[np.int64]:
    """Every prompt's run of one token a pass."""
    policy = next(candidate for candidate in states.policies if candidate.commit == "static")
    runs = states.run_of(policy)
    if runs is None:
        raise InputError("holds no run of one token a pass for every prompt", key="policies")
    return runs
