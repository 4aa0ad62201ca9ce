"""How far off are answers, overall and in every slice of what was measured?

Counts, signed bias, median, mean and 90th percentile of errors, and how often and how widely
intervals hold what was measured. Leaves out why (`app.answers.scoring.mechanisms`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.answers.scoring.measured import QUANTITIES, ComparedTime, PublishedMeasurement

SLICES = (
    "engine",
    "model",
    "class",
    "device",
    "precision",
    "users",
    "lengths",
    "serving",
    "version",
    "setting",
)
Json = dict[str, Any]
Predicted = Mapping[str, Mapping[str, float]]


def errors(pairs: Sequence[ComparedTime]) -> Json | None:
    """Errors of answers; None where there is nothing to compare.

    `bias_ratio` is the median of predicted over measured, minus one; the others are of its size
    without the sign. `width_ratio` is the median of the interval's upper over its lower end.

    Example:
        >>> low = ComparedTime(measured_ms=10.0, predicted_ms=9.0, interval_ms=(8.0, 10.5))
        >>> high = ComparedTime(measured_ms=10.0, predicted_ms=12.0, interval_ms=(8.0, 10.5))
        >>> found = errors([low, high])
        >>> found["measurements"], round(found["bias_ratio"], 3), round(found["mean_error_ratio"], 3)
        (2, 0.05, 0.15)
        >>> found["coverage_ratio"], found["width_ratio"]
        (1.0, 1.3125)
    """
    if not pairs:
        return None
    signed = np.array([pair.error_ratio for pair in pairs])
    held = [pair for pair in pairs if pair.interval_ms is not None]
    widths = [
        p.interval_ms[1] / p.interval_ms[0]
        for p in held
        if p.interval_ms is not None and p.interval_ms[0] > 0
    ]
    return {
        "measurements": len(pairs),
        "bias_ratio": float(np.median(signed)),
        "median_error_ratio": float(np.median(abs(signed))),
        "mean_error_ratio": float(abs(signed).mean()),
        "p90_error_ratio": float(np.quantile(abs(signed), 0.9)),
        "coverage_ratio": sum(pair.inside for pair in held) / len(held) if held else None,
        "width_ratio": float(np.median(widths)) if widths else None,
    }


def summary(measured: Sequence[PublishedMeasurement]) -> Json:
    """Counts of measurements and their errors by quantity."""
    return {
        "measurements": len(measured),
        "answered": sum(m.reason is None for m in measured),
        **{q: errors([pair for m in measured if (pair := m.compared(q))]) for q in QUANTITIES},
    }


def slices(measured: Sequence[PublishedMeasurement]) -> list[Json]:
    """A summary for every value of every slice, values with more measurements first; overall is the
    first row.
    """
    rows: list[Json] = [{"slice": "all", "value": "all", **summary(measured)}]
    for name in SLICES:
        values: dict[str, list[PublishedMeasurement]] = {}
        for m in measured:
            values.setdefault(m.place[name], []).append(m)
        ordered = sorted(values.items(), key=lambda item: (-len(item[1]), item[0]))
        rows += [{"slice": name, "value": value, **summary(own)} for value, own in ordered]
    return rows


def beside(measured: Sequence[PublishedMeasurement], other: Predicted) -> list[Json]:
    """Slices of the measurements that both answer, each with the other's errors under `baseline`.

    Args:
        measured: with our answers.
        other: milliseconds by id of a row, then by quantity.
    """
    pairs = [
        (m, theirs)
        for m in measured
        if (theirs := _of_other(m, other)) is not None and m.reason is None
    ]
    ours, those = slices([m for m, _ in pairs]), slices([theirs for _, theirs in pairs])
    return [
        mine | {"baseline": {q: other_row[q] for q in QUANTITIES}}
        for mine, other_row in zip(ours, those, strict=True)
    ]


def _of_other(m: PublishedMeasurement, other: Predicted) -> PublishedMeasurement | None:
    """The measurement with the other's answers, the median over its rows; None where it answers
    none of them.
    """
    pairs: dict[str, ComparedTime | None] = {}
    for quantity, own in (("tpot", m.tpot), ("ttft", m.ttft)):
        values = [v for each in m.ids if (v := other.get(each, {}).get(quantity)) is not None]
        pairs[quantity] = (
            None
            if own is None or not values
            else ComparedTime(measured_ms=own.measured_ms, predicted_ms=float(np.median(values)))
        )
    if not any(pairs.values()):
        return None
    return PublishedMeasurement(
        ids=m.ids, place=m.place, tpot=pairs["tpot"], ttft=pairs["ttft"], reason=None
    )
