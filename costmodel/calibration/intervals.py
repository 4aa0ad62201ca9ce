"""How wide is the interval around a predicted kernel time, and does it hold what was measured?

Residuals of a fit, from the rows that it was made with and no others, and the coverage of intervals
on any rows. Leaves out steps and passes, whose errors `costmodel.answers.uncertainty` draws.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from costmodel.calibration.measurements import Measurements
from costmodel.calibration.parameters import GROUPS, group_of
from costmodel.calibration.regimes import regimes
from costmodel.calibration.timing import VerifyForm
from costmodel.passes.kernels.communication import VLLM_MOST_BYTES
from costmodel.passes.kernels.regimes import log_bounds, place
from costmodel.passes.kernels.timing import Timing
from costmodel.passes.ops import Array, Mask
from hardware_profiles.fitted.constants import Constants
from hardware_profiles.fitted.residuals import Residuals

COVERAGE = 0.8
NARROWEST, WIDEST = 0.011, 0.95
LEAST_ROWS = 4  # of a group, to state how far it errs

_SMALL = {"vllm": "allreduce", "vllm eager": "allreduce", "trtllm": "trtllm"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """How intervals did on some rows.

    Attributes:
        coverage: share of measured / predicted inside; NaN without rows.
        width: median of upper less lower end of measured / predicted.
    """

    coverage: float
    width: float


def part_labels(rows: Measurements) -> npt.NDArray[np.str_]:
    """What the rows of an operation are distinguished by in splits and scores.

    The routing of experts; of an all-reduce the library, "eager" outside graphs, and "large" from
    16 MiB on.
    """
    if rows.operation != "allreduce":
        return rows.part
    eager = np.where(rows.columns["graphs"] > 0, "", " eager")
    large = np.where(rows.columns["bytes"] >= VLLM_MOST_BYTES, " large", "")
    return np.char.add(np.char.add(rows.part, eager), large)


def group_labels(rows: Measurements, form: VerifyForm) -> npt.NDArray[np.str_]:
    """The group of constants, and so of residuals, behind every row.

    Args:
        rows: of one operation.
        form: of `attention_verify`: whether the kernel splits the cache.

    Returns:
        str[rows].
    """
    if rows.operation != "allreduce":
        return np.full(len(rows), group_of(rows.operation, form))
    return np.array(
        [_SMALL.get(label, "nccl") for label in part_labels(rows).tolist()], dtype=np.str_
    )


def bounds_by_row(
    constants: Constants, rows: Measurements, timing: Timing, form: VerifyForm
) -> tuple[Array, Array]:
    """Ends of the 80 % interval of log(measured / predicted) by row.

    Args:
        constants: with the residuals.
        rows: of one operation.
        timing: as the constants predict them.
        form: of `attention_verify`: whether the kernel splits the cache.

    Returns:
        Lower and upper ends, float64[rows] each.
    """
    low, high = np.zeros((2, len(rows)))
    where, labels = place(timing, rows.columns), group_labels(rows, form)
    for group in np.unique(labels).tolist():
        mine = labels == group
        part = where.select(mine)
        low[mine], high[mine] = log_bounds(constants.residuals, group, part)
    return low, high


def interval(seconds: Array, timing: Timing, bounds: tuple[Array, Array], which: Mask) -> Interval:
    """Coverage and median width of intervals on the rows where `which` holds.

    Args:
        seconds: measured, [rows].
        timing: as it was predicted.
        bounds: of `bounds_by_row`.
        which: bool[rows].
    """
    ratio = seconds[which] / timing.seconds[which]
    low, high = (np.exp(bound[which]) for bound in bounds)
    if not len(ratio):
        return Interval(coverage=np.nan, width=np.nan)
    inside = (ratio >= low) & (ratio <= high)
    return Interval(coverage=float(inside.mean()), width=float(np.median(high - low)))


def fitted_residuals(
    before: Residuals,
    rows: Measurements,
    timing: Timing,
    form: VerifyForm,
    groups: Collection[str],
    *,
    nodes: int = 0,
    crossed: bool = False,
) -> Residuals:
    """Residuals with those of fitted groups replaced by what the rows behind the fit leave.

    Few rows and fitted constants hide part of the error: the half width is the quantile at 0.8·(n +
    1)/n of n rows, times the root of n/(n - constants).

    Args:
        before: residuals of the profile.
        rows: those set aside for fitting.
        timing: predicted, with the fitted constants.
        form: of `attention_verify`.
        groups: that were fitted.
        nodes: of a correction that was fitted to the same rows.
        crossed: every row was predicted with constants fitted to others, which leaves nothing
            hidden.
    """
    labels, where = group_labels(rows, form), place(timing, rows.columns)
    log_error = np.log(rows.seconds / timing.seconds)
    eager = (
        (rows.part == "vllm") & (rows.columns["graphs"] == 0)
        if rows.operation == "allreduce"
        else labels == ""
    )
    for group in groups:
        mine = (labels == group) & ~eager
        count, parameters = int(mine.sum()), 0 if crossed else len(GROUPS[group]) + nodes
        if count < max(LEAST_ROWS, len(GROUPS[group]) + 1):
            continue
        freedom = np.sqrt(count / (count - parameters))
        level = min(COVERAGE * (1.0 + 1.0 / count), 1.0)
        half = float(np.quantile(np.abs(np.expm1(freedom * log_error[mine])), level))
        parts = regimes(where.select(mine), log_error[mine], parameters)
        before = before.changed(group, round(min(max(half, NARROWEST), WIDEST), 5), parts)
    return before
