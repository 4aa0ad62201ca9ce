"""What does the decoding loop add, fitted on runs that are never scored?

Ratios of measured to predicted passes, costs of a step and its rows on the host, and costs of
drafting; the interval comes from predicting each fitted context with costs fitted on the others.
Leaves out the device's own constants (`real_runs.calibration.device`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import nnls  # type: ignore[import-untyped]

from costmodel.passes.forward import Deployment
from hardware_profiles.errors import InputError
from real_runs.trials.trials import Plan, PromptCell
from real_runs.validation.configurations import Configuration
from real_runs.validation.predict import (
    COVERAGE,
    DraftLayers,
    LoopCosts,
    Prediction,
    draft_network_s,
    loop_of,
    predicted_run,
    verify_s,
)
from real_runs.validation.runs import Run
from real_runs.validation.subject import Predictor, UnscoredError, grouped
from real_runs.validation.walk import Walk

Steps = Callable[[Configuration, tuple[str, ...]], Walk]
"""The steps that a configuration takes on prompts that run together."""

# pull of a slope towards none: a tenth per doubling weighs like a log error of half a per cent
_RIDGE = 0.05
_LEAST_SPREAD, _MOST_SPREAD = 0.005, 0.9
_ASSUMED_SPREAD = 0.3  # ASSUMED where no context can be left out


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Example:
    """A run to fit on.

    Attributes:
        configuration: what ran.
        batch: requests that ran together.
        context: of the cell; 0: prompts as they are.
        steps: what its recording says of its steps.
        run: what it took.
    """

    configuration: Configuration
    batch: int
    context: int
    steps: Walk
    run: Run


def fit_costs(
    deployment: Deployment, layers: DraftLayers, examples: Sequence[Example]
) -> LoopCosts:
    """Fit to all examples; the spread by leaving out one context at a time.

    A drafter that ran at one context alone says nothing about the spread: left out, its costs would
    be unknown.

    Args:
        deployment: target, device and fidelity.
        layers: of drafters that run a part of the target.
        examples: undisturbed runs.
    """
    fitted = _fit(deployment, layers, examples)
    errors = []
    for context in sorted({example.context for example in examples}):
        others = [example for example in examples if example.context != context]
        if not others:
            continue
        costs = _fit(deployment, layers, others)
        groups: dict[tuple[str, int], list[Example]] = defaultdict(list)
        places = {_place(example) for example in others}
        for example in examples:
            if example.context == context and _place(example) in places:
                groups[example.configuration.name, example.batch].append(example)
        for same in groups.values():
            predicted = sum(
                predicted_run(
                    deployment, layers, costs, example.configuration, example.steps, example.batch
                ).decode_s
                for example in same
            )
            errors.append(abs(np.log(predicted / sum(example.run.decode_s for example in same))))
    return replace(fitted, spread_ratio=_spread(errors))


def _place(example: Example) -> tuple[str, str]:
    """What costs are distinguished by."""
    return example.configuration.drafter, loop_of(example.configuration, example.batch)


def _spread(errors: Sequence[float]) -> float:
    """The quantile of left-out errors that covers a further one with the wanted probability."""
    if not errors:
        return _ASSUMED_SPREAD
    rank = min(1.0, COVERAGE * (len(errors) + 1) / len(errors))
    return float(np.clip(np.expm1(np.quantile(errors, rank)), _LEAST_SPREAD, _MOST_SPREAD))


def _fit(deployment: Deployment, layers: DraftLayers, examples: Sequence[Example]) -> LoopCosts:
    by_loop: dict[str, list[Example]] = defaultdict(list)
    by_drafter: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        loop = loop_of(example.configuration, example.batch)
        by_loop[loop].append(example)
        if example.configuration.drafter:
            by_drafter[f"{example.configuration.drafter} {loop}"].append(example)
    return LoopCosts(
        verify={loop: _verify(deployment, same) for loop, same in by_loop.items()},
        rest={loop: _rest(same) for loop, same in by_loop.items()},
        draft={name: _draft(deployment, layers, same) for name, same in by_drafter.items()},
    )


def _verify(deployment: Deployment, examples: Sequence[Example]) -> tuple[float, float]:
    """Offset and slope over log2 n of log(measured / predicted); a median per n, so that no stray
    pass counts.
    """
    ratios: dict[int, list[float]] = defaultdict(list)
    for example in examples:
        passes = np.array(example.run.passes)
        walked = Walk(
            requests=passes[:, 0].astype(np.int64),
            query_tokens=passes[:, 1].astype(np.int64),
            context=passes[:, 2].astype(np.int64),
            drafted=example.steps.drafted,
            drafting=example.steps.drafting,
            unread=example.steps.unread,
            tokens=0,
        )
        predicted = verify_s(deployment, walked, tree=example.configuration.topology == "tree")
        for n, ratio in zip(
            walked.query_tokens.tolist(), np.log(passes[:, 3] / predicted).tolist(), strict=True
        ):
            ratios[n].append(ratio)
    sizes = np.log2(np.array(list(ratios), dtype=np.float64))
    middles = np.array([np.median(values) for values in ratios.values()])
    weights = np.sqrt(np.array([len(values) for values in ratios.values()], dtype=np.float64))
    design = np.stack([np.ones_like(sizes), sizes], axis=1) * weights[:, None]
    # the ridge pulls the slope alone towards 0: few sizes say little about it
    pulled = np.vstack([design, [0.0, _RIDGE * weights.sum()]])
    line = np.linalg.lstsq(pulled, np.append(middles * weights, 0.0), rcond=None)[0]
    return float(line[0]), float(line[1])


def _rest(examples: Sequence[Example]) -> tuple[float, float]:
    """Seconds of a step and of each query row."""
    rows = [
        [example.steps.steps, float((example.steps.requests * example.steps.query_tokens).sum())]
        for example in examples
    ]
    seconds = _positive(
        rows,
        [example.run.rest_s for example in examples],
        [example.run.decode_s for example in examples],
    )
    return seconds[0], seconds[1]


def _draft(
    deployment: Deployment, layers: DraftLayers, examples: Sequence[Example]
) -> tuple[float, float, float]:
    """Ratio to the cost model's passes, seconds of a request's step, seconds of a draft token."""
    rows = [
        [
            float(draft_network_s(deployment, layers, example.configuration, example.steps).sum()),
            float(example.steps.request_steps),
            float(example.steps.drafted.sum()),
        ]
        for example in examples
    ]
    coefficients = _positive(
        rows,
        [example.run.draft_s for example in examples],
        [example.run.decode_s for example in examples],
    )
    return coefficients[0], coefficients[1], coefficients[2]


def _positive(
    rows: Sequence[Sequence[float]], seconds: Sequence[float], scale: Sequence[float]
) -> Sequence[float]:
    """Coefficients >= 0 that explain seconds; every example weighs by its share of a whole run."""
    weights = 1.0 / np.asarray(scale, dtype=np.float64)
    design = np.asarray(rows, dtype=np.float64) * weights[:, None]
    norms = np.maximum(np.linalg.norm(design, axis=0), 1e-300)
    solved, _ = nnls(design / norms, np.asarray(seconds) * weights)
    return [float(value) for value in solved / norms]


def as_json(costs: LoopCosts) -> Mapping[str, object]:
    """JSON values, for reports."""
    return {
        "verify": {loop: list(value) for loop, value in costs.verify.items()},
        "rest": {loop: list(value) for loop, value in costs.rest.items()},
        "draft": {name: list(value) for name, value in costs.draft.items()},
        "spread_ratio": costs.spread_ratio,
    }


def loop_predictor(
    deployment: Deployment,
    layers: DraftLayers,
    plan: Plan[Configuration],
    steps: Steps,
    runs: Sequence[Run],
    *,
    calibrated: frozenset[tuple[int, int]] = frozenset(),
) -> Predictor[Configuration]:
    """What a decoding loop should take, its costs fitted to the runs of cells that are never
    scored.

    Args:
        deployment: target, device and fidelity.
        layers: of drafters that run a part of the target.
        plan: what ran.
        steps: says which steps a configuration takes.
        runs: that count.
        calibrated: batches and contexts at which the deployment's passes were measured: runs that
            meet one are not scored.

    Raises:
        InputError: none of the runs is there to fit on.
    """
    examples = [
        Example(
            configuration=configuration,
            batch=cell.batch,
            context=cell.context,
            run=run,
            steps=steps(configuration, run.prompts),
        )
        for cell, configuration in plan.fitted
        for run in runs
        if (run.cell, run.configuration) == (cell.name, configuration.name)
    ]
    if not examples:
        rule = "no undisturbed run to fit loop costs on; raise the budget, or quiet the machine"
        raise InputError(rule, key="budget")
    costs = fit_costs(deployment, layers, examples)

    def predict(
        cell: PromptCell, configuration: Configuration, own: Sequence[Run]
    ) -> dict[tuple[str, ...], tuple[Sequence[Run], Prediction]]:
        groups = grouped(cell, own)
        check_uncalibrated(own, calibrated)
        stated = {
            group: predicted_run(
                deployment,
                layers,
                costs,
                configuration,
                steps(configuration, group),
                cell.batch,
            )
            for group in groups
        }
        return {
            group: (groups[group], Prediction(run=run, spread_ratio=costs.spread_ratio))
            for group, run in stated.items()
        }

    return Predictor(predict=predict, costs=as_json(costs))


def check_uncalibrated(runs: Sequence[Run], calibrated: Set[tuple[int, int]]) -> None:
    """Insist on runs whose passes stood in no calibration.

    Raises:
        UnscoredError: a batch and a context at which passes were measured.
    """
    if met := sorted({(b, c) for run in runs for b, _, c, _ in run.passes} & calibrated):
        batch, context = met[0]
        rule = f"its passes meet calibrated ones at batch {batch}, context {context}"
        raise UnscoredError(rule)
