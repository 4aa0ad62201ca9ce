"""Where in its range does a form err little, and where much?

Splits the rows that a form was fitted to by shares of the predicted time and by sizes, where that
tells their errors apart best, and takes an 80 % interval of each part. Leaves out the rows that are
scored.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from costmodel.passes.kernels.regimes import Place
from costmodel.passes.ops import Array, Mask
from hardware_profiles.fitted.residuals import MOST_REGIMES, SHARES, WHOLE, Regime, Span

FEWEST_ROWS = 80  # below which an operation has one interval everywhere
# of a part: the fewest whose extremes hold four fifths of others like them, (n - 1) / (n + 1)
LEAST_ROWS = 9
CUTS = tuple(np.arange(1, 10) / 10.0)  # quantiles that are tried as ends of parts
FOLDS = 10
TAIL = 0.1
DECIMALS = 4  # of ends of parts

Index = npt.NDArray[np.intp]


class _Part(NamedTuple):
    """Rows by ascending error: those that tell the interval and those that it is judged by; limits
    by axis.
    """

    rows: Index
    judges: Index
    limits: Mapping[str, Span]


class _Split(NamedTuple):
    gain: float
    axis: str
    cut: float


def regimes(where: Place, log_error: Array, parameters: int) -> tuple[Regime, ...]:
    """Regimes of the rows that a form with `parameters` constants was fitted to; none where there
    are too few.

    Parts are split off one at a time, the one that lowers the quantile loss most first; there are
    as many as lose least on rows left out in turn. An interval holds its point: where nearly all
    errors have one sign it ends there, and still holds four fifths. Ends move outwards for what few
    rows and fitted constants hide: to the quantile at 0.9·(n + 1)/n of n rows, times the root of
    N/(N - parameters) over all N rows.

    Args:
        where: shares of launches and arithmetic, and sizes, by row.
        log_error: log(measured / predicted) by row.
        parameters: constants that were fitted to these rows.
    """
    count = len(log_error)
    if count < max(FEWEST_ROWS, parameters + 2):
        return ()
    error = log_error * np.sqrt(count / (count - parameters))
    order = np.argsort(error, kind="stable")
    axes = {name: at for name, at in where.axes.items() if np.ptp(at) > 0.0}
    lost = np.zeros(MOST_REGIMES)
    for fold in range(FOLDS):
        mine = order % FOLDS == fold
        losses = [
            _lost(stage, error)
            for stage in _stages(axes, error, order[~mine], order[mine], MOST_REGIMES)
        ]
        lost += np.pad(losses, (0, MOST_REGIMES - len(losses)), mode="edge")
    stages = _stages(axes, error, order, order[:0], int(np.argmin(lost)) + 1)
    fitted = [_regime(part, error) for part in stages[-1]]
    return tuple(
        sorted(
            fitted, key=lambda regime: (regime.launch, regime.compute, sorted(regime.sizes.items()))
        )
    )


def _stages(
    axes: Mapping[str, Array], error: Array, rows: Index, judges: Index, most: int
) -> list[list[_Part]]:
    """Parts after every split, the one that gains most first, until there are `most` or nothing
    gains.
    """
    parts = [_Part(rows, judges, {})]
    splits = [_best(axes, error, parts[0])]
    stages = [list(parts)]
    while len(parts) < most:
        index = max(range(len(parts)), key=lambda place: splits[place].gain)
        if splits[index].gain <= 0.0:
            break
        halves = _halves(axes, parts[index], splits[index])
        parts[index : index + 1] = halves
        splits[index : index + 1] = [_best(axes, error, half) for half in halves]
        stages.append(list(parts))
    return stages


def _best(axes: Mapping[str, Array], error: Array, part: _Part) -> _Split:
    """The split that lowers the loss of a part most; a gain of 0 where none does."""
    best, mine = _Split(0.0, "", 0.0), error[part.rows]
    before = _loss(mine, _bounds(mine))
    for axis, values in axes.items():
        at = values[part.rows]
        for cut in _cuts(at):
            below = at < cut
            if LEAST_ROWS <= np.count_nonzero(below) <= len(at) - LEAST_ROWS:
                gain = before - sum(
                    _loss(half, _bounds(half)) for half in (mine[below], mine[~below])
                )
                best = max(best, _Split(gain, axis, cut))
    return best


def _cuts(at: Array) -> list[float]:
    if len(at) < 2 * LEAST_ROWS:
        return []
    distinct = np.unique(at)
    ends = distinct if len(distinct) <= len(CUTS) + 1 else np.quantile(at, CUTS, method="lower")
    cuts: list[float] = np.unique(np.round(ends, DECIMALS)).tolist()
    return cuts


def _halves(axes: Mapping[str, Array], part: _Part, split: _Split) -> list[_Part]:
    _, axis, cut = split
    low, high = part.limits.get(axis, WHOLE if axis in SHARES else (0.0, np.inf))
    below, judged = axes[axis][part.rows] < cut, axes[axis][part.judges] < cut
    return [
        _Part(part.rows[below], part.judges[judged], {**part.limits, axis: (low, cut)}),
        _Part(part.rows[~below], part.judges[~judged], {**part.limits, axis: (cut, high)}),
    ]


def _quantile(ascending: Array, level: float) -> float:
    place = min(max(level, 0.0), 1.0) * (len(ascending) - 1)
    below = min(int(place), len(ascending) - 2)
    return float(ascending[below] + (place - below) * (ascending[below + 1] - ascending[below]))


def _share(rows: Mask) -> float:
    return float(np.count_nonzero(rows)) / len(rows)


def _bounds(ascending: Array) -> tuple[float, float]:
    """An 80 % interval that holds 0, of errors in ascending order."""
    # quantiles of n errors are widened by (n + 1) / n, as for split conformal intervals
    more = 1.0 + 1.0 / len(ascending)
    low, high = (
        _quantile(ascending, 1.0 - (1.0 - TAIL) * more),
        _quantile(ascending, (1.0 - TAIL) * more),
    )
    # an interval that has to reach back to 0 spends both tails on its other end
    if low > 0.0:
        return 0.0, max(
            _quantile(ascending, (1.0 - 2.0 * TAIL) * more + _share(ascending < 0.0)), 0.0
        )
    if high < 0.0:
        return min(
            _quantile(ascending, 1.0 - (1.0 - 2.0 * TAIL) * more - _share(ascending > 0.0)), 0.0
        ), 0.0
    return low, high


def _loss(error: Array, bounds: tuple[float, float]) -> float:
    """Quantile loss of both ends, over all rows."""
    below, above = error - bounds[0], error - bounds[1]
    losses = np.maximum(TAIL * below, (TAIL - 1.0) * below) + np.maximum(
        (1.0 - TAIL) * above, -TAIL * above
    )
    return float(losses.sum())


def _lost(parts: list[_Part], error: Array) -> float:
    """What intervals of the rows of each part lose on those that judge it."""
    return sum(_loss(error[part.judges], _bounds(error[part.rows])) for part in parts)


def _regime(part: _Part, error: Array) -> Regime:
    low, high = np.round(np.expm1(np.array(_bounds(error[part.rows]))), 5).tolist()
    shares = {name: span for name, span in part.limits.items() if name in SHARES}
    sizes = {name: span for name, span in part.limits.items() if name not in SHARES}
    return Regime(**shares, sizes=sizes, low_ratio=max(low, -0.95), high_ratio=min(high, 10.0))
