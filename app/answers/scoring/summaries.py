"""How far off are answers, overall and in every slice of what was measured?

Counts, signed bias, median, mean and 90th percentile of errors, and how often and how widely
intervals hold what was measured. Leaves out why (`app.answers.scoring.mechanisms`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from app.answers.scoring.measured import ComparedTime, PublishedMeasurement
from app.answers.scoring.rows import BaselineErrors, OverallErrors, SliceErrors, TimeErrors

SLICES = (
    "engine",
    "model",
    "class",
    "device",
    "precision",
    "users",
    "lengths",
    "serving",
    "layout",
    "launch",
    "version",
    "setting",
)
Predicted = Mapping[str, Mapping[str, float]]


def errors(pairs: Sequence[ComparedTime]) -> TimeErrors | None:
    """Errors of answers; None where there is nothing to compare.

    Example:
        >>> low = ComparedTime(measured_ms=10.0, predicted_ms=9.0, interval_ms=(8.0, 10.5))
        >>> high = ComparedTime(measured_ms=10.0, predicted_ms=12.0, interval_ms=(8.0, 10.5))
        >>> both = errors([low, high])
        >>> both.measurements, round(both.bias_ratio, 3), round(both.mean_error_ratio, 3)
        (2, 0.05, 0.15)
        >>> both.coverage_ratio, both.width_ratio
        (1.0, 1.3125)
    """
    if not pairs:
        return None
    signed = np.array([pair.error_ratio for pair in pairs])
    with_interval = [pair for pair in pairs if pair.interval_ms is not None]
    widths = [
        p.interval_ms[1] / p.interval_ms[0]
        for p in with_interval
        if p.interval_ms is not None and p.interval_ms[0] > 0
    ]
    return TimeErrors(
        measurements=len(pairs),
        bias_ratio=float(np.median(signed)),
        median_error_ratio=float(np.median(abs(signed))),
        mean_error_ratio=float(abs(signed).mean()),
        p90_error_ratio=float(np.quantile(abs(signed), 0.9)),
        coverage_ratio=sum(pair.inside for pair in with_interval) / len(with_interval)
        if with_interval
        else None,
        width_ratio=float(np.median(widths)) if widths else None,
    )


def summary(measured: Sequence[PublishedMeasurement]) -> OverallErrors:
    """Counts of measurements and their errors by quantity."""
    whole = _slice("all", "all", measured)
    return OverallErrors(
        measurements=whole.measurements,
        answered=whole.answered,
        tpot=whole.tpot,
        ttft=whole.ttft,
    )


def _slice(name: str, value: str, measured: Sequence[PublishedMeasurement]) -> SliceErrors:
    return SliceErrors(
        slice=name,
        value=value,
        measurements=len(measured),
        answered=sum(m.reason is None for m in measured),
        tpot=errors([pair for m in measured if (pair := m.compared("tpot"))]),
        ttft=errors([pair for m in measured if (pair := m.compared("ttft"))]),
    )


def slices(measured: Sequence[PublishedMeasurement]) -> list[SliceErrors]:
    """A summary for every value of every slice, values with more measurements first; overall is the
    first row.
    """
    rows = [_slice("all", "all", measured)]
    for name in SLICES:
        values: dict[str, list[PublishedMeasurement]] = {}
        for m in measured:
            values.setdefault(m.place[name], []).append(m)
        ordered = sorted(values.items(), key=lambda item: (-len(item[1]), item[0]))
        rows += [_slice(name, value, own) for value, own in ordered]
    return rows


def beside(measured: Sequence[PublishedMeasurement], other: Predicted) -> list[SliceErrors]:
    """Slices of the measurements that both answer, each with the other's errors under `baseline`.

    Args:
        measured: with our answers.
        other: milliseconds by id of a row, then by quantity.
    """
    pairs = [
        (m, of_other)
        for m in measured
        if (of_other := _of_other(m, other)) is not None and m.reason is None
    ]
    ours, theirs = slices([m for m, _ in pairs]), slices([of_other for _, of_other in pairs])
    return [
        replace(row, baseline=BaselineErrors(tpot=errors_of_other.tpot, ttft=errors_of_other.ttft))
        for row, errors_of_other in zip(ours, theirs, strict=True)
    ]


def _of_other(m: PublishedMeasurement, other: Predicted) -> PublishedMeasurement | None:
    """The measurement with the other's answers, the median over its rows; None where it answers
    none of them.
    """
    pairs: dict[str, ComparedTime | None] = {}
    for quantity, own in (("tpot", m.tpot), ("ttft", m.ttft)):
        values = [v for name in m.ids if (v := other.get(name, {}).get(quantity)) is not None]
        pairs[quantity] = (
            None
            if own is None or not values
            else ComparedTime(measured_ms=own.measured_ms, predicted_ms=float(np.median(values)))
        )
    if not any(pairs.values()):
        return None
    return PublishedMeasurement(
        ids=m.ids,
        family=m.family,
        place=m.place,
        tpot=pairs["tpot"],
        ttft=pairs["ttft"],
        reason=None,
    )
