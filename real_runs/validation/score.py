"""How far off were the predictions, and what did the choice cost?

Measured runs beside predicted ones per cell and configuration: times by phase, tokens per step,
tokens per second, error, coverage of the intervals, and the regret of what was chosen. Leaves out
running and drawing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from real_runs.validation.cells import ValidationCell
from real_runs.validation.configurations import NamedConfiguration
from real_runs.validation.predict import PredictedRun
from real_runs.validation.runs import Run


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
        measured: tokens_per_s, tokens_per_step, step_s, draft_s, verify_s, rest_s.
        predicted: the same.
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
    """What the choice of a cell cost: 1 - its measured tokens per second over the best measured
    ones.
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
    """Errors over points: |predicted / measured - 1|."""

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


def score_point(
    cell: ValidationCell,
    configuration: NamedConfiguration,
    groups: Mapping[tuple[str, ...], tuple[Sequence[Run], PredictedRun]],
    *,
    spread_ratio: float,
    chosen: bool,
    disturbed: int,
    differing: int,
) -> Point:
    """Predicted beside measured.

    Args:
        cell: where.
        configuration: what.
        groups: by prompts that ran together, the runs that count (at least one) and what was
            predicted.
        spread_ratio: half width of the 80 % interval of measured / predicted - 1.
        chosen: whether it was `optimize`'s choice.
        disturbed: runs left out.
        differing: runs with another text than recorded.
    """
    took: dict[str, float] = defaultdict(float)
    stated: dict[str, float] = defaultdict(float)
    for runs, predicted in groups.values():
        for name in (
            "decode_s",
            "draft_s",
            "verify_s",
            "rest_s",
            "tokens",
            "steps",
            "request_steps",
        ):
            took[name] += median(getattr(run, name) for run in runs)
            stated[name] += getattr(predicted, name)
    measured, foretold = _rates(took), _rates(stated)
    rate = foretold["tokens_per_s"]
    interval = (rate / (1.0 + spread_ratio), rate * (1.0 + spread_ratio))
    return Point(
        kind=cell.kind,
        context=cell.context,
        batch=cell.batch,
        configuration=configuration.name,
        drafter=configuration.drafter,
        topology=configuration.topology,
        draft_tokens=configuration.draft_tokens,
        chosen=chosen,
        runs=sum(run.rounds for runs, _ in groups.values() for run in runs),
        disturbed=disturbed,
        differing=differing,
        measured=measured,
        predicted=foretold,
        error_ratio=rate / measured["tokens_per_s"] - 1.0,
        interval=interval,
        covered=interval[0] <= measured["tokens_per_s"] <= interval[1],
    )


def _rates(total: Mapping[str, float]) -> dict[str, float]:
    steps = max(total["steps"], 1.0)
    return {
        "tokens_per_s": total["tokens"] / total["decode_s"],
        "tokens_per_step": total["tokens"] / max(total["request_steps"], 1.0),
        "step_s": total["decode_s"] / steps,
        **{name: total[name] / steps for name in ("draft_s", "verify_s", "rest_s")},
    }


def regrets(points: Sequence[Point]) -> list[Regret]:
    """Of every cell in which the choice and another configuration were measured."""
    cells: dict[tuple[str, int, int], list[Point]] = defaultdict(list)
    for point in points:
        cells[point.kind, point.context, point.batch].append(point)
    lost = []
    for (kind, context, batch), here in cells.items():
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


def summary(points: Sequence[Point]) -> ErrorSummary:
    """Over all points, at least one."""
    errors = np.array([point.error_ratio for point in points])
    lost = [regret.regret_ratio for regret in regrets(points)]
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
    """Summaries by kind and batch, by drafter and by context."""
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
    import pyarrow as pa

    from traces.storage.parquet_files import write_parquet

    rows = []
    for point in points:
        values = asdict(point)
        for side in ("measured", "predicted"):
            values |= {f"{side}_{name}": value for name, value in values.pop(side).items()}
        values["interval_low"], values["interval_high"] = values.pop("interval")
        rows.append(values)
    write_parquet(pa.Table.from_pylist(rows), path)
