"""Which constants make a device's profile time the operations that were measured on it?

The cost model's own search over a few constants per operation, as many as a short calibration can
determine. Rows rotated through memory larger than the cache, so each of them is cold, whatever its
size. Leaves out whole passes (`real_runs.calibration.passes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from costmodel.calibration.fit import LEAST_ROWS, search, with_constants
from costmodel.calibration.measurements import Measurements, together
from costmodel.calibration.parameters import GROUPS, Parameter
from costmodel.calibration.timing import timed
from costmodel.passes.ops import Array
from hardware_profiles.fitted.constants import SPLIT_CONSTANTS
from hardware_profiles.profile import Device, NumberProvenance

# of a trace, the group of constants behind each, and the constants that are distinguished
OPERATIONS = {
    "gemm": ("gemm", ("launch_s", "compute_efficiency", "bandwidth_efficiency", "norm")),
    "attention_generation": (
        "attention",
        ("launch_s", "wave_s", "bandwidth_efficiency", "compute_efficiency"),
    ),
    "attention_verify": (
        "verify",
        ("launch_s", "wave_s", "bandwidth_efficiency", "compute_efficiency"),
    ),
    "attention_context": ("context", ("launch_s", "compute_efficiency", "bandwidth_efficiency")),
}
# so many times the usual range of launches: a CPU's library call takes longer than a kernel launch
ROOMY = 12.0
LAUNCH_S = (1e-6, 5e-5)
_LEAST_RATIO, _MOST_RATIO = 0.011, 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationScore:
    """Errors of one operation: |predicted / measured - 1|, on rows that were not fitted where there
    were enough.

    Attributes:
        rows: measured.
        rows_fitted: that constants were fitted to; 0: the profile's own were kept.
        rows_scored: that the numbers are of.
        median: error.
        p90: error.
        p80_ratio: eightieth percentile of |measured / predicted - 1|.
    """

    rows: int
    rows_fitted: int
    rows_scored: int
    median: float
    p90: float
    p80_ratio: float


def fit_operations(
    tables: Sequence[Measurements],
    device: Device,
    *,
    dtype: str,
    conditions: str = "timed on this device",
    seed: int = 0,
) -> tuple[Device, dict[str, OperationScore]]:
    """Fit half of each operation's rows and score the other half.

    Args:
        tables: of one device.
        device: profile to start from.
        dtype: number format whose rows are used.
        conditions: how the rows were timed, for the sources of the constants.
        seed: of the halves.
    """
    scores = {}
    for operation, rows in together(tables).items():
        if operation not in OPERATIONS:
            continue
        own = rows.select(rows.cold & (rows.dtype == dtype))
        if not len(own):
            continue
        group, names = OPERATIONS[operation]
        parameters = _parameters(group, names)
        device, scores[operation] = _fitted(device, own, parameters, group, dtype, conditions, seed)
    return _verified(device), scores


def _verified(device: Device) -> Device:
    """Verification that could not be fitted is timed as decoding, or it would mix constants of two
    devices.
    """
    if device.provenance["constants.residual_ratio.verify"].kind == "measured":
        return device
    decoding = device.constants.attention
    return with_constants(
        device, {f"verify.{name}": getattr(decoding, name) for name in SPLIT_CONSTANTS}
    )


def _parameters(group: str, names: Sequence[str]) -> list[Parameter]:
    by_name: Mapping[str, Parameter] = {row.name: row for row in GROUPS[group]}
    parameters = [by_name[f"{group}.{name}"] for name in names]
    return [_roomy(parameter) for parameter in parameters]


def _roomy(parameter: Parameter) -> Parameter:
    """A CPU's constants lie further out than a GPU's; a launch takes 1 to 50 µs anywhere."""
    if parameter.name.endswith("launch_s"):
        return replace(
            parameter, low=LAUNCH_S[0], high=LAUNCH_S[1], start=min(parameter.start, 1e-5)
        )
    if parameter.name.endswith("_s"):
        return replace(parameter, high=parameter.high * ROOMY)
    return (
        replace(parameter, low=0.01, high=1.9)
        if parameter.name.endswith("efficiency")
        else parameter
    )


def _fitted(
    device: Device,
    rows: Measurements,
    parameters: Sequence[Parameter],
    group: str,
    dtype: str,
    conditions: str,
    seed: int,
) -> tuple[Device, OperationScore]:
    least = LEAST_ROWS * len(parameters)
    aside = np.zeros(len(rows), dtype=bool)
    aside[np.random.default_rng(seed).permutation(len(rows))[: max(least, len(rows) // 2)]] = True
    if len(rows) < least:
        return device, _score(rows, timed(device, rows, dtype=dtype)[0], fitted_rows=0)
    chosen = rows.select(aside)
    left_out = ("combine_s", "tile_s", "unit_s", "wave_ratio")
    fixed = {
        f"{group}.{constant.name}": 0.0
        for constant in fields(device.constants.of(group))
        if constant.name in left_out
    }
    if group == "attention":
        fixed["attention.short_wave_s"] = 0.0
    if group == "gemm":
        fixed["gemm.tile_ratio"] = 0.0
    start = with_constants(device, fixed)
    values, _ = search(
        start, parameters, chosen.seconds, lambda d: timed(_whole(d, group), chosen, dtype=dtype)[0]
    )
    fresh = _whole(with_constants(start, values), group)
    left = rows.select(~aside) if (~aside).sum() >= len(parameters) else rows
    score = _score(left, timed(fresh, left, dtype=dtype)[0], fitted_rows=int(aside.sum()))
    score = replace(score, rows=len(rows))
    return _with_sources(fresh, score, group, conditions), score


def _whole(device: Device, group: str) -> Device:
    """Constants that follow from others: outputs move like weights, short caches like long ones."""
    c = device.constants
    if group == "gemm":
        return with_constants(
            device, {"gemm.output_efficiency": min(c.gemm.bandwidth_efficiency, 2.0)}
        )
    if group == "attention":
        return with_constants(device, {"attention.short_wave_s": c.attention.wave_s})
    return device


def _score(rows: Measurements, predicted: Array, *, fitted_rows: int) -> OperationScore:
    error, residual = np.abs(predicted / rows.seconds - 1), np.abs(rows.seconds / predicted - 1)
    return OperationScore(
        rows=len(rows),
        rows_fitted=fitted_rows,
        rows_scored=len(rows),
        median=float(np.median(error)),
        p90=float(np.quantile(error, 0.9)),
        p80_ratio=float(np.quantile(residual, 0.8)),
    )


def _with_sources(device: Device, score: OperationScore, group: str, conditions: str) -> Device:
    """The device with provenance and residual of a group."""
    source = (
        f"fitted to {score.rows_fitted} of {score.rows} rows {conditions}; on"
        f" {score.rows_scored} rows median error {score.median:.1%}, ninetieth percentile"
        f" {score.p90:.1%}"
    )
    origin = NumberProvenance(kind="measured", source=source)
    origins, residuals = dict(device.provenance), dict(device.constants.residual_ratio)
    for name in origins:
        if name.startswith(f"constants.{group}."):
            origins[name] = origin
    origins[f"constants.residual_ratio.{group}"] = origin
    residuals[group] = float(np.clip(score.p80_ratio, _LEAST_RATIO, _MOST_RATIO))
    return replace(
        device, constants=replace(device.constants, residual_ratio=residuals), provenance=origins
    )
