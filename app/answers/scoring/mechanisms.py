"""Through what are answers off? Parts of the predicted time, and places where errors gather.

A part is blamed by what would happen if it alone took longer or shorter everywhere. That is
arithmetic on answers that stand, neither a fit nor a proof: a part that grows with the true cause
is blamed as well. Leaves out what a schedule would do if a part were slower.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from app.answers.scoring.measured import ComparedTime, PublishedMeasurement
from app.answers.scoring.rows import GatheredErrors, TimePart
from app.answers.scoring.summaries import SLICES

_WORST = 0.1  # share of measurements that count as the worst
_SCALES = np.exp(np.linspace(-np.log(8.0), np.log(8.0), 121))
_NAMED = 8  # values of slices
_LEAST = 5  # measurements of a value of a slice that is named


def parts(measured: Sequence[PublishedMeasurement], quantity: str) -> list[TimePart]:
    """What each part takes of the predicted time, and which factor on it alone would bring answers
    nearest.

    Args:
        measured: measurements.
        quantity: `tpot` or `ttft`.

    Returns:
        A row a part, the most helpful first.
    """
    pairs = [
        (pair, m.shares[quantity])
        for m in measured
        if (pair := m.compared(quantity)) and m.shares.get(quantity)
    ]
    if not pairs:
        return []
    ratio = np.array([1.0 + pair.error_ratio for pair, _ in pairs])
    off = abs(np.log(ratio))
    worst = off >= np.quantile(off, 1.0 - _WORST)
    rows = []
    for name in dict.fromkeys(part for _, shares in pairs for part in shares):
        share = np.array([shares.get(name, 0.0) for _, shares in pairs])
        tried = ratio[:, None] * (1.0 + (_SCALES - 1.0) * share[:, None])
        means = abs(np.log(tried)).mean(axis=0)
        best = int(means.argmin())
        rows.append(
            TimePart(
                quantity=quantity,
                part=name,
                share_ratio=float(share.mean()),
                worst_share_ratio=float(share[worst].mean()),
                factor=float(_SCALES[best]),
                median_error_ratio=float(np.median(abs(ratio - 1.0))),
                median_error_then_ratio=float(np.median(abs(tried[:, best] - 1.0))),
                log_error=float(means[best]),
            )
        )
    return sorted(rows, key=lambda row: row.log_error)


def gathered(measured: Sequence[PublishedMeasurement], quantity: str) -> list[GatheredErrors]:
    """Values of slices that hold more of the error than of the measurements, the largest surplus
    first.
    """
    compared = [(m, pair) for m in measured if (pair := m.compared(quantity))]
    total = sum(_off(pair) for _, pair in compared)
    if total <= 0.0:
        return []
    rows = []
    for name in SLICES:
        values: dict[str, list[tuple[PublishedMeasurement, ComparedTime]]] = {}
        for m, pair in compared:
            values.setdefault(m.place[name], []).append((m, pair))
        rows += [
            _gathered(name, value, own, total, len(compared), quantity)
            for value, own in values.items()
        ]
    rows = [r for r in rows if r.measurements >= _LEAST and r.error_share_ratio > r.count_ratio]
    rows.sort(key=lambda r: r.count_ratio - r.error_share_ratio)
    return [_blamed(row, [m for m, _ in compared]) for row in rows[:_NAMED]]


def _gathered(
    name: str,
    value: str,
    own: Sequence[tuple[PublishedMeasurement, ComparedTime]],
    total: float,
    measurements: int,
    quantity: str,
) -> GatheredErrors:
    return GatheredErrors(
        quantity=quantity,
        slice=name,
        value=value,
        measurements=len(own),
        count_ratio=len(own) / measurements,
        error_share_ratio=sum(_off(pair) for _, pair in own) / total,
        bias_ratio=float(np.median([pair.error_ratio for _, pair in own])),
        part=None,
        factor=None,
    )


def _blamed(row: GatheredErrors, compared: Sequence[PublishedMeasurement]) -> GatheredErrors:
    """A row with the part that helps most in its value of the slice."""
    of_value = [m for m in compared if m.place[row.slice] == row.value]
    helpful = next(iter(parts(of_value, row.quantity)), None)
    return row if helpful is None else replace(row, part=helpful.part, factor=helpful.factor)


def _off(pair: ComparedTime) -> float:
    return float(abs(np.log1p(pair.error_ratio)))
