"""Where in its range does a form err little, and where much?

Splits the rows that a form was fitted to by two shares of the predicted time, where that tells their errors apart
best, and takes the tenth and ninetieth percentile of each part. Leaves out the rows that are scored.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from costmodel.kernels.timing import Shares
from costmodel.ops import Array
from hardware_profiles.residuals import Regime

MOST_PARTS = 12
LEAST_ROWS = 40  # of a part: its tenth percentile then stands between the fourth and the fifth
CUTS = tuple(np.arange(1, 10) / 10.0)  # quantiles of a share that are tried as ends of parts
LEAST_GAIN = 0.01  # of the loss of all rows together, that a split must save
TAIL = 0.1
STEP = 1e-3  # ends of parts are rounded to it


def regimes(where: Shares, log_error: Array, parameters: int) -> tuple[Regime, ...]:
    """Regimes of the rows that a form with `parameters` constants was fitted to; none where there are too few.

    Parts are split off one at a time, the one that lowers the quantile loss most first. An interval holds its
    point. Ends move outwards for what few rows and fitted constants hide: to the quantile at 0.9·(n + 1)/n of n
    rows, times the root of N/(N - parameters) over all N rows.

    Args:
        where: shares of launches and arithmetic by row.
        log_error: log(measured / predicted) by row.
        parameters: constants that were fitted to these rows.
    """
    count = len(log_error)
    if count < max(2 * LEAST_ROWS, parameters + 2):
        return ()
    parts = [_Part(rows=np.ones(count, dtype=bool), launch=(0.0, 1.0), compute=(0.0, 1.0))]
    least = LEAST_GAIN * _loss(log_error)
    while len(parts) < MOST_PARTS:
        found = [(gain, index, halves) for index, part in enumerate(parts)
                 for gain, halves in _splits(part, where, log_error)]  # fmt: skip
        best = max(found, key=lambda each: each[0], default=None)
        if best is None or best[0] < least:
            break
        parts[best[1] : best[1] + 1] = best[2]
    freedom = np.sqrt(count / (count - parameters))
    ordered = sorted(parts, key=lambda part: (part.launch, part.compute))
    return tuple(_regime(part, freedom * log_error[part.rows]) for part in ordered)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    rows: npt.NDArray[np.bool_]
    launch: tuple[float, float]
    compute: tuple[float, float]


def _splits(part: _Part, where: Shares, log_error: Array) -> list[tuple[float, list[_Part]]]:
    """Ways to halve a part that leave enough rows on both sides, and the loss that each saves."""
    before = _loss(log_error[part.rows])
    found = []
    for key in ("launch", "compute"):
        share = getattr(where, key)
        ends = np.unique(np.round(np.quantile(share[part.rows], CUTS) / STEP) * STEP)
        low, high = getattr(part, key)
        for end in ends[(ends > low) & (ends < high)].tolist():
            cut = round(end, 6)
            below, above = part.rows & (share < cut), part.rows & (share >= cut)
            if min(below.sum(), above.sum()) >= LEAST_ROWS:
                gain = before - _loss(log_error[below]) - _loss(log_error[above])
                sides = ((below, (low, cut)), (above, (cut, high)))
                found.append((gain, [replace(part, rows=rows, **{key: ends_of}) for rows, ends_of in sides]))
    return found


def _bounds(log_error: Array) -> tuple[float, float]:
    level = min((1.0 - TAIL) * (1.0 + 1.0 / len(log_error)), 1.0)
    low, high = np.quantile(log_error, [1.0 - level, level])
    return min(float(low), 0.0), max(float(high), 0.0)


def _loss(log_error: Array) -> float:
    """Quantile loss of both ends, over all rows."""
    low, high = _bounds(log_error)
    below, above = log_error - low, log_error - high
    each = np.maximum(TAIL * below, (TAIL - 1.0) * below) + np.maximum((1.0 - TAIL) * above, -TAIL * above)
    return float(each.sum())


def _regime(part: _Part, log_error: Array) -> Regime:
    low, high = np.round(np.expm1(np.array(_bounds(log_error))), 5).tolist()
    return Regime(launch=part.launch, compute=part.compute, low_ratio=max(low, -0.95), high_ratio=min(high, 10.0))
