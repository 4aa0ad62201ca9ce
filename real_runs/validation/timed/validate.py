"""How far off are predictions from the steps that a recording timed?

One file validates both halves: its acceptance, replayed, says what the steps of a shape emit, and
the cost model what they take. Costs of the loop are fitted on every other group of requests and,
where there are several shapes, on sizes that are never scored. Leaves out recording
(`real_runs.recording.timed`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from costmodel.architectures.architecture import Architecture
from costmodel.passes.deployment import Deployment, Fidelity
from costmodel.passes.measured import passes_of
from hardware_profiles.errors import InputError
from real_runs.drafters.entries.early_exit import exit_after
from real_runs.drafters.entries.layer_skip import skipped_span
from real_runs.drafters.options import DrafterOptions
from real_runs.trials.trials import PromptCell
from real_runs.validation.configurations import Configuration, is_fitted_on
from real_runs.validation.deployment import DTYPES, loop_deployment
from real_runs.validation.loop_costs import Example, as_json, check_uncalibrated, fit_costs
from real_runs.validation.predict import (
    DraftLayers,
    LoopCosts,
    Prediction,
    loop_of,
    predicted_run,
    predicted_steps,
)
from real_runs.validation.score import (
    Point,
    Validation,
    fastest_chosen,
    regrets,
    score_point,
    summary,
    write_points,
)
from real_runs.validation.subject import UnscoredError
from real_runs.validation.timed.groups import TimedGroup, drafter_of, shared, timed_groups
from traces.kinds.acceptance import AcceptanceTrace
from traces.storage.parquet_files import write_parquet

POINTS, STEPS = "validation.parquet", "steps.parquet"
_PHASES = ("draft_s", "verify_s", "rest_s")
_Place = tuple[str, Configuration, int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepErrors:
    """Single steps of one configuration at one batch and context, predicted beside measured.

    Attributes:
        kind: of the prompts, with the sampling mode.
        context: cached tokens, as the nearest power of two.
        batch: requests that began together.
        configuration: name.
        steps: passes that were compared.
        measured_s: median seconds of a step.
        predicted_s: median of what was predicted of the same steps.
        step_error_ratio: median of |predicted / measured - 1| of a step.
        draft_error_ratio: of its drafting; None where nothing drafts.
        verify_error_ratio: of its verify pass.
        agreeing_ratio: share of steps that emit what the recording says.
    """

    kind: str
    context: int
    batch: int
    configuration: str
    steps: int
    measured_s: float
    predicted_s: float
    step_error_ratio: float
    draft_error_ratio: float | None
    verify_error_ratio: float
    agreeing_ratio: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedValidation:
    """What a timed recording says of predictions.

    Attributes:
        validation: tokens per second, predicted beside measured.
        steps: the same steps one by one.
    """

    validation: Validation
    steps: tuple[StepErrors, ...]


def validate_timed(
    traces: Sequence[AcceptanceTrace],
    *,
    profile: str,
    shipped_model: str,
    fidelity: Fidelity,
    out: Path,
) -> TimedValidation:
    """Replay and price the timed steps of recordings of one model on one device.

    Args:
        traces: at least one, each with timed steps.
        profile: device that predicts, by name or TOML file.
        shipped_model: name that the cost model knows the target by.
        fidelity: of the predictions.
        out: folder for `validation.parquet` and `steps.parquet`.

    Raises:
        InputError: a trace without seconds, traces that do not go together, no such model or
            device, or nothing to fit costs on or to score.
    """
    common = shared(traces)
    if common["dtype"] not in DTYPES:
        rule = f"must be {' or '.join(DTYPES)}"
        raise InputError(rule, file=traces[0].file, key="provenance.dtype", value=common["dtype"])
    deployment = loop_deployment(
        shipped_model,
        profile,
        dtype=common["dtype"],
        fidelity=fidelity,
        graphs=not common["device"].startswith("CPU"),
    )
    groups, short = list[TimedGroup](), 0
    for trace in traces:
        of_trace, too_short = timed_groups(trace)
        groups, short = [*groups, *of_trace], short + too_short
    fitted, scored = _parts(_once(groups))
    if not fitted or not scored:
        rule = "times too few groups of requests to fit loop costs on some and score others"
        raise InputError(rule, file=traces[0].file, value=len(groups))
    layers = _layers(traces, deployment.architecture)
    costs = fit_costs(
        deployment,
        layers,
        [
            Example(
                configuration=group.configuration,
                batch=group.batch,
                context=group.context,
                steps=group.measured,
                run=group.run,
            )
            for group in fitted
        ],
    )
    places, left_out = _scored_places(scored, fitted, deployment)
    if short:
        left_out.append(f"{short} groups with no step after the first, or not all their requests")
    if not places:
        raise InputError(f"nothing could be scored; {left_out[0]}", file=traces[0].file)
    predictor = _Pricing(deployment=deployment, layers=layers, costs=costs)
    points = fastest_chosen([predictor.point(place, here) for place, here in places.items()])
    out.mkdir(parents=True, exist_ok=True)
    write_points(points, out / POINTS)
    write_parquet(
        pa.Table.from_pylist(
            [row for place, here in places.items() for row in predictor.rows(place, here)]
        ),
        out / STEPS,
    )
    lost = regrets(points)
    return TimedValidation(
        validation=Validation(
            points=tuple(points),
            regrets=tuple(lost),
            summary=summary(points, lost),
            costs=as_json(costs),
            left_out=tuple(left_out),
            about={
                **common,
                "threads": _threads(common["device"]),
                "target": shipped_model,
                "profile": deployment.device.name,
                "fidelity": fidelity,
                "drafters": sorted({drafter_of(trace) for trace in traces}),
                "acceptance": "real; predicted tokens per step replay the recording itself",
            },
        ),
        steps=tuple(predictor.errors(place, here) for place, here in places.items()),
    )


def _once(groups: Sequence[TimedGroup]) -> list[TimedGroup]:
    """Every group once: each drafter's trace of a recording holds the same plain decoding."""
    return list(
        {
            (group.mode, group.configuration, group.run.prompts, group.seconds.tobytes()): group
            for group in groups
        }.values()
    )


def _parts(groups: Sequence[TimedGroup]) -> tuple[list[TimedGroup], list[TimedGroup]]:
    """Groups to fit loop costs on, and groups to score.

    Groups of even numbers are for fitting and those of odd ones for scoring. Of several shapes that
    a drafter's loop ran, sizes that costs are fitted on everywhere are never scored.
    """
    shapes: dict[tuple[str, str], set[Configuration]] = defaultdict(set)
    for group in groups:
        shapes[_loop(group)].add(group.configuration)
    to_fit, to_score = set[Configuration](), set[Configuration]()
    for configurations in shapes.values():
        sizes = {one for one in configurations if is_fitted_on(one)}
        to_fit |= sizes or configurations
        to_score |= configurations - sizes or configurations
    return (
        [group for group in groups if group.number % 2 == 0 and group.configuration in to_fit],
        [group for group in groups if group.number % 2 == 1 and group.configuration in to_score],
    )


def _loop(group: TimedGroup) -> tuple[str, str]:
    """What costs are distinguished by: the drafter and the kind of loop."""
    return group.configuration.drafter, loop_of(group.configuration, group.batch)


def _layers(traces: Sequence[AcceptanceTrace], target: Architecture) -> DraftLayers:
    """Layers that drafters run, as the recordings state them."""
    stated: dict[str, Any] = {}
    for trace in traces:
        parameters = trace.provenance.extra.get("parameters")
        stated |= parameters if isinstance(parameters, dict) else {}
    options = DrafterOptions()
    start, stop = skipped_span(options, target.layers)
    exit_layer = stated.get("exit_layer", exit_after(options, target.layers))
    skipped = stated.get("skipped_layers", (start, stop))
    if isinstance(skipped, list | tuple) and [type(layer) for layer in skipped] == [int, int]:
        skipped = skipped[1] - skipped[0]
    for key, value in (("exit_layer", exit_layer), ("skipped_layers", skipped)):
        if type(value) is not int or not 1 <= value < target.layers:
            rule = f"must lie in 1..{target.layers - 1}, layers of {target.name}"
            raise InputError(
                rule, file=traces[0].file, key=f"provenance.extra.parameters.{key}", value=value
            )
    return DraftLayers(exit_layer=exit_layer, skipped=skipped)


def _scored_places(
    scored: Sequence[TimedGroup], fitted: Sequence[TimedGroup], deployment: Deployment
) -> tuple[dict[_Place, list[TimedGroup]], list[str]]:
    """Groups that are scored, by what a point is made of; and what is not, with the reason."""
    calibrated = passes_of(deployment).points if deployment.fidelity == "measured" else frozenset()
    known = {_loop(group) for group in fitted}
    places: dict[_Place, list[TimedGroup]] = defaultdict(list)
    left_out: dict[str, None] = {}
    for group in scored:
        try:
            if _loop(group) not in known:
                raise UnscoredError("its loop ran in no group that costs are fitted on")
            check_uncalibrated([group.run], calibrated)
        except UnscoredError as error:
            left_out[f"{group.configuration.name}, batch {group.batch}: {error.message}"] = None
            continue
        places[group.mode, group.configuration, group.batch, group.context].append(group)
    order = sorted(places, key=lambda place: (place[0], place[1].name, place[2], place[3]))
    return {place: places[place] for place in order}, list(left_out)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Pricing:
    """What prices steps, its loop costs fitted."""

    deployment: Deployment
    layers: DraftLayers
    costs: LoopCosts

    def point(self, place: _Place, groups: Sequence[TimedGroup]) -> Point:
        """Rates of a place: what replay and prices say together, beside what was measured."""
        kind, configuration, batch, context = place
        cell = PromptCell(phase="score", kind=kind, context=context, batch=batch, prompts=())
        return score_point(
            cell,
            configuration,
            {
                (str(number), *group.run.prompts): (
                    [replace(group.run, rounds=_rounds(group.trace))],
                    Prediction(
                        run=predicted_run(
                            self.deployment,
                            self.layers,
                            self.costs,
                            configuration,
                            group.replayed,
                            batch,
                        ),
                        spread_ratio=self.costs.spread_ratio,
                    ),
                )
                for number, group in enumerate(groups)
            },
            chosen=False,
            ran=sum(_rounds(group.trace) for group in groups),
            differing=0,
        )

    def priced(self, group: TimedGroup) -> NDArray[np.float64]:
        """Predicted seconds of the very steps that ran, by phase, float64 [steps, 3]."""
        steps = predicted_steps(
            self.deployment,
            self.layers,
            self.costs,
            group.configuration,
            group.measured,
            group.batch,
        )
        return np.stack([getattr(steps, name) for name in _PHASES], axis=1)

    def errors(self, place: _Place, groups: Sequence[TimedGroup]) -> StepErrors:
        """Errors of single steps of a place."""
        kind, configuration, batch, context = place
        measured = np.concatenate([group.step_seconds for group in groups])
        predicted = np.concatenate([self.priced(group) for group in groups])
        agreeing = np.array([group.agreeing_steps() for group in groups]).sum(axis=0)
        return StepErrors(
            kind=kind,
            context=context,
            batch=batch,
            configuration=configuration.name,
            steps=len(measured),
            measured_s=float(np.median(measured.sum(axis=1))),
            predicted_s=float(np.median(predicted.sum(axis=1))),
            step_error_ratio=_off(predicted.sum(axis=1), measured.sum(axis=1)),
            draft_error_ratio=(
                _off(predicted[:, 0], measured[:, 0]) if configuration.drafter else None
            ),
            verify_error_ratio=_off(predicted[:, 1], measured[:, 1]),
            agreeing_ratio=float(agreeing[0] / agreeing[1]),
        )

    def rows(self, place: _Place, groups: Sequence[TimedGroup]) -> list[dict[str, Any]]:
        """The steps of a place one by one, for later versions of the cost model."""
        kind, configuration, batch, _ = place
        rows = []
        for group in groups:
            columns = {
                "requests": group.measured.requests,
                "query_tokens": group.measured.query_tokens,
                "context": group.measured.context,
                "drafted": group.measured.drafted,
                **dict(zip((f"measured_{n}" for n in _PHASES), group.step_seconds.T, strict=True)),
                **dict(zip((f"predicted_{n}" for n in _PHASES), self.priced(group).T, strict=True)),
            }
            about = {"kind": kind, "configuration": configuration.name, "batch": batch}
            about["group"] = group.number
            listed = {name: values.tolist() for name, values in columns.items()}
            rows += [
                {**about, **dict(zip(listed, values, strict=True))}
                for values in zip(*listed.values(), strict=True)
            ]
        return rows


def _off(predicted: NDArray[np.float64], measured: NDArray[np.float64]) -> float:
    return float(np.median(np.abs(predicted / np.maximum(measured, 1e-9) - 1.0)))


def _rounds(trace: AcceptanceTrace) -> int:
    """Rounds that a median was taken over."""
    timing: Mapping[str, Any] = trace.provenance.extra["timing"]
    rounds = timing.get("rounds", 1)
    return rounds if type(rounds) is int and rounds >= 1 else 1


def _threads(device: str) -> str:
    """CPU threads, as a recording states them behind the device's name."""
    return device.rpartition(", ")[2].removesuffix(" thread(s)")
