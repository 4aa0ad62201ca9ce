"""How far off were the predictions, and what did the choice cost?

Measured runs beside predicted ones per cell and configuration: times by phase, tokens per step,
tokens per second, error, coverage of the intervals, and the regret of what was chosen. Leaves out
running and drawing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import pyarrow as pa

from real_runs.trials.trials import PromptCell
from real_runs.validation.configurations import NamedConfiguration
from real_runs.validation.predict import Prediction
from real_runs.validation.runs import Run
from traces.storage.parquet_files import write_parquet

Groups = Mapping[tuple[str, ...], tuple[Sequence[Run], Prediction]]
"""By prompts that ran together: the runs that count, at least one, and what was predicted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One configuration in one cell, predicted and measured. Times are seconds per step.

    Attributes:
        kind: of the prompts.
        context: tokens that prompts were filled up to; 0: as they are.
        batch: requests together.
        configuration: name.
        drafter: "" for plain decoding.
        topology: off, chain or tree.
        draft_tokens: K, or the tree's; the root never counts.
        chosen: what `optimize` chose for the cell.
        runs: that count, rounds and prompts together.
        disturbed: runs left out because something else held the processor.
        differing: runs whose text was another than the recorded one.
        measured: tokens_per_s, tokens_per_step, step_s, draft_s, verify_s, rest_s; where requests
            were sent, ttft_s, tpot_s and drafted_tokens_per_step.
        predicted: the same, but for the drafted tokens.
        error_ratio: predicted / measured tokens per second - 1.
        interval: 80 % interval of tokens per second.
        covered: whether the measured value lies within.
    """

    kind: str
    context: int
    batch: int
    configuration: str
    drafter: str
    topology: str
    draft_tokens: int
    chosen: bool
    runs: int
    disturbed: int
    differing: int
    measured: Mapping[str, float]
    predicted: Mapping[str, float]
    error_ratio: float
    interval: tuple[float, float]
    covered: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Regret:
    """What the choice of a cell cost.

    Attributes:
        kind: of the prompts.
        context: tokens that prompts were filled up to; 0: as they are.
        batch: requests together.
        chosen: name of the choice.
        best: name of the configuration that was measured fastest.
        chosen_tokens_per_s: measured of the choice.
        best_tokens_per_s: measured of the best.
        plain_tokens_per_s: measured of plain decoding.
        regret_ratio: 1 - the choice's measured tokens per second over the best's, >= 0.
    """

    kind: str
    context: int
    batch: int
    chosen: str
    best: str
    chosen_tokens_per_s: float
    best_tokens_per_s: float
    plain_tokens_per_s: float
    regret_ratio: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorSummary:
    """Errors over points: |predicted / measured - 1|, of tokens per second where nothing else is
    named.

    Attributes:
        configurations: points.
        median_error_ratio: of the errors.
        p90_error_ratio: their ninetieth percentile.
        step_median_error_ratio: the median error of the seconds per step.
        tokens_per_step_median_error_ratio: the median error of the tokens per step.
        bias_ratio: median of predicted / measured - 1, sign kept.
        coverage_ratio: share of points whose 80 % interval holds the measured value.
        median_half_width_ratio: the median upper half width of the intervals.
        mean_regret_ratio: over cells; None where no cell compares anything.
        most_regret_ratio: the largest of them; None where no cell compares anything.
    """

    configurations: int
    median_error_ratio: float
    p90_error_ratio: float
    step_median_error_ratio: float
    tokens_per_step_median_error_ratio: float
    bias_ratio: float
    coverage_ratio: float
    median_half_width_ratio: float
    mean_regret_ratio: float | None
    most_regret_ratio: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """What a validation found.

    Attributes:
        points: predicted beside measured.
        regrets: of the choices.
        summary: over all points.
        costs: what was fitted on runs that are not scored, as JSON values.
        missing: runs that the budget left out.
        left_out: configurations that were not scored, and runs that failed, with the reason.
        about: provenance.
        counted: the runs behind the points, and those that costs were fitted on.
    """

    points: tuple[Point, ...]
    regrets: tuple[Regret, ...]
    summary: ErrorSummary
    costs: Mapping[str, object] = field(default_factory=dict)
    missing: int = 0
    left_out: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    counted: tuple[Run, ...] = ()


def score_point(
    cell: PromptCell,
    configuration: NamedConfiguration,
    groups: Groups,
    *,
    chosen: bool,
    ran: int,
    differing: int,
) -> Point:
    """Predicted beside measured.

    Args:
        cell: where.
        configuration: what.
        groups: the runs that count, and what was predicted of them.
        chosen: whether it was `optimize`'s choice.
        ran: runs that there are, those that do not count among them.
        differing: runs with another text than recorded.
    """
    measured: dict[str, float] = defaultdict(float)
    predicted: dict[str, float] = defaultdict(float)
    for runs, prediction in groups.values():
        for name in (
            "decode_s",
            "draft_s",
            "verify_s",
            "rest_s",
            "tokens",
            "steps",
            "request_steps",
        ):
            measured[name] += median(getattr(run, name) for run in runs)
            predicted[name] += getattr(prediction.run, name)
    rounds = sum(run.rounds for runs, _ in groups.values() for run in runs)
    point = Point(
        kind=cell.kind,
        context=cell.context,
        batch=cell.batch,
        configuration=configuration.name,
        drafter=configuration.drafter,
        topology=configuration.topology,
        draft_tokens=configuration.draft_tokens,
        chosen=chosen,
        runs=rounds,
        disturbed=ran - rounds,
        differing=differing,
        **compared(
            _rates(measured),
            _rates(predicted),
            spread_ratio=fmean(prediction.spread_ratio for _, prediction in groups.values()),
        ),
    )
    sent = all(prediction.ttft_s is not None for _, prediction in groups.values())
    return _with_times(point, groups) if sent else point


def compared(
    measured: Mapping[str, float], predicted: Mapping[str, float], *, spread_ratio: float
) -> dict[str, Any]:
    """The part of a point that says how far its two sides are from each other.

    Args:
        measured: values of a point, `tokens_per_s` among them.
        predicted: the same.
        spread_ratio: half width of the 80 % interval of measured / predicted - 1.
    """
    predicted_rate, measured_rate = predicted["tokens_per_s"], measured["tokens_per_s"]
    interval = (predicted_rate / (1.0 + spread_ratio), predicted_rate * (1.0 + spread_ratio))
    return {
        "measured": measured,
        "predicted": predicted,
        "error_ratio": predicted_rate / measured_rate - 1.0,
        "interval": interval,
        "covered": interval[0] <= measured_rate <= interval[1],
    }


def _with_times(point: Point, groups: Groups) -> Point:
    """A point of requests that were sent: also the times that their users see."""
    measured, predicted = dict(point.measured), dict(point.predicted)
    for name in ("ttft_s", "tpot_s"):
        measured[name] = fmean(
            median(getattr(run, name) for run in runs) for runs, _ in groups.values()
        )
        predicted[name] = fmean(getattr(prediction, name) for _, prediction in groups.values())
    counted = [run for runs, _ in groups.values() for run in runs]
    measured["drafted_tokens_per_step"] = sum(run.drafted_tokens for run in counted) / max(
        sum(run.request_steps for run in counted), 1
    )
    return replace(point, measured=measured, predicted=predicted)


def _rates(total: Mapping[str, float]) -> dict[str, float]:
    steps = max(total["steps"], 1.0)
    return {
        "tokens_per_s": total["tokens"] / total["decode_s"],
        "tokens_per_step": total["tokens"] / max(total["request_steps"], 1.0),
        "step_s": total["decode_s"] / steps,
        **{name: total[name] / steps for name in ("draft_s", "verify_s", "rest_s")},
    }


def fastest_chosen(points: Sequence[Point]) -> list[Point]:
    """The points, the fastest prediction of every cell marked as its choice."""
    best = {id(max(here, key=_predicted_rate)) for here in _cells(points).values()}
    return [replace(point, chosen=id(point) in best) for point in points]


def _predicted_rate(point: Point) -> float:
    return point.predicted["tokens_per_s"]


def _cells(points: Sequence[Point]) -> dict[tuple[str, int, int], list[Point]]:
    """Points by kind, context and batch."""
    cells: dict[tuple[str, int, int], list[Point]] = defaultdict(list)
    for point in points:
        cells[point.kind, point.context, point.batch].append(point)
    return cells


def regrets(points: Sequence[Point]) -> list[Regret]:
    """What the choice loses against the best measured configuration, in every cell in which the
    choice, plain decoding and another configuration were measured.
    """
    lost = []
    for (kind, context, batch), here in _cells(points).items():
        chosen = next((point for point in here if point.chosen), None)
        plain = next((point for point in here if not point.drafter), None)
        if chosen is None or plain is None or len(here) < 2:
            continue
        best = max(here, key=lambda point: point.measured["tokens_per_s"])
        lost.append(
            Regret(
                kind=kind,
                context=context,
                batch=batch,
                chosen=chosen.configuration,
                best=best.configuration,
                chosen_tokens_per_s=chosen.measured["tokens_per_s"],
                best_tokens_per_s=best.measured["tokens_per_s"],
                plain_tokens_per_s=plain.measured["tokens_per_s"],
                regret_ratio=1.0 - chosen.measured["tokens_per_s"] / best.measured["tokens_per_s"],
            )
        )
    return lost


def summary(points: Sequence[Point], choices: Sequence[Regret] | None = None) -> ErrorSummary:
    """Errors over points and regrets over cells.

    Args:
        points: at least one.
        choices: regrets to sum up; None: those of the points.
    """
    errors = np.array([point.error_ratio for point in points])
    lost = [regret.regret_ratio for regret in (regrets(points) if choices is None else choices)]
    widths = [point.interval[1] / point.predicted["tokens_per_s"] - 1.0 for point in points]

    def off(name: str) -> float:
        return float(
            np.median([abs(point.predicted[name] / point.measured[name] - 1.0) for point in points])
        )

    return ErrorSummary(
        configurations=len(points),
        median_error_ratio=float(np.median(np.abs(errors))),
        p90_error_ratio=float(np.quantile(np.abs(errors), 0.9)),
        step_median_error_ratio=off("step_s"),
        tokens_per_step_median_error_ratio=off("tokens_per_step"),
        bias_ratio=float(np.median(errors)),
        coverage_ratio=float(np.mean([point.covered for point in points])),
        median_half_width_ratio=float(np.median(widths)),
        mean_regret_ratio=float(np.mean(lost)) if lost else None,
        most_regret_ratio=max(lost) if lost else None,
    )


def breakdown(points: Sequence[Point]) -> dict[str, dict[str, ErrorSummary]]:
    """Summaries by kind and batch, by drafter and by context: title to group to summary."""
    summaries: dict[str, dict[str, ErrorSummary]] = {}
    keys: tuple[tuple[str, Callable[[Point], str]], ...] = (
        ("kind and batch", lambda p: f"{p.kind}, batch {p.batch}"),
        ("drafter", lambda p: f"{p.drafter or 'plain'} {p.topology}".replace(" off", "")),
        ("context", lambda p: f"{p.context} tokens" if p.context else "as they are"),
    )
    for title, key in keys:
        groups: dict[str, list[Point]] = defaultdict(list)
        for point in points:
            groups[key(point)].append(point)
        summaries[title] = {name: summary(here) for name, here in sorted(groups.items())}
    return summaries


def write_points(points: Sequence[Point], path: Path) -> None:
    """Write points as Parquet, one row each, whole or not at all."""
    rows = []
    for point in points:
        values = asdict(point)
        for side in ("measured", "predicted"):
            values |= {f"{side}_{name}": value for name, value in values.pop(side).items()}
        values["interval_low"], values["interval_high"] = values.pop("interval")
        rows.append(values)
    write_parquet(pa.Table.from_pylist(rows), path)
