"""What do whole passes take beyond the operations that were timed by themselves?

Fits the constants of the small kernels and of the sampler to whole passes, operations held at what
their own measurements say: a cost per layer, per layer and row, per pass, and per row of logits. On
a CPU these are the interpreter and the library around the kernels. Leaves out the operations
themselves (`costmodel.calibration`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.architectures.library import load_model
from costmodel.calibration.fit import search, with_constants
from costmodel.calibration.parameters import Parameter
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.ops import Array
from costmodel.passes.precision import precision
from hardware_profiles.profile import Device, NumberProvenance
from hardware_profiles.units import MICRO
from traces.storage.kernels import KernelRow

PASS_FLOOR_ROWS = 8
_LEAST_RATIO, _MOST_RATIO = 0.011, 0.95
PARAMETERS = (
    Parameter(name="elementwise.kernel_s", low=MICRO, high=50 * MICRO, start=4 * MICRO),
    Parameter(name="elementwise.bandwidth_efficiency", low=0.01, high=1.9, start=0.3),
    Parameter(name="sampler.launch_s", low=0.0, high=20_000 * MICRO, start=100 * MICRO),
    Parameter(name="sampler.row_s", low=0.0, high=2_000 * MICRO, start=30 * MICRO),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PassScore:
    """How far predicted passes stand from measured ones.

    Attributes:
        rows: measured passes.
        rows_used: of the format asked for, one per shape.
        rows_fitted: that constants were fitted to.
        rows_scored: the others; the numbers below are theirs.
        median: of |predicted / measured - 1|.
        p90: its ninetieth percentile.
        p80_ratio: eightieth percentile of |measured / predicted - 1|.
    """

    rows: int
    rows_used: int
    rows_fitted: int
    rows_scored: int
    median: float
    p90: float
    p80_ratio: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PassFit:
    """A device whose small kernels and sampler fit whole passes.

    Attributes:
        device: with the constants that were fitted.
        score: errors on passes that were set aside.
    """

    device: Device
    score: PassScore


def fit_passes(device: Device, rows: Sequence[KernelRow], *, dtype: str) -> PassFit:
    """Fit to every other pass, score on the others.

    Args:
        device: with constants of its products and attention.
        rows: rows of the operation "step"; those of another format, and plain launches beside a
            captured graph, are left out.
        dtype: number format.
    """
    usable = pass_rows(rows, dtype=dtype)
    seconds = np.array([row.median_s for row in usable])
    order = np.lexsort(([row.query_tokens for row in usable], [row.context for row in usable]))
    aside = np.zeros(len(usable), dtype=bool)
    aside[order[::2]] = True
    fitted = [row for row, chosen in zip(usable, aside, strict=True) if chosen]
    values, _ = search(
        device, PARAMETERS, seconds[aside], lambda d: predicted_passes(d, fitted, dtype=dtype)
    )
    fresh = with_constants(device, values)
    predicted = predicted_passes(fresh, usable, dtype=dtype)[~aside]
    measured = seconds[~aside]
    error, residual = np.abs(predicted / measured - 1), np.abs(measured / predicted - 1)
    score = PassScore(
        rows=len(rows),
        rows_used=len(usable),
        rows_fitted=int(aside.sum()),
        rows_scored=len(measured),
        median=float(np.median(error)),
        p90=float(np.quantile(error, 0.9)),
        p80_ratio=float(np.quantile(residual, 0.8)),
    )
    return PassFit(device=_with_sources(fresh, score, values), score=score)


def pass_rows(rows: Sequence[KernelRow], *, dtype: str) -> list[KernelRow]:
    """Passes of a format, one row per shape: the captured graph's where there is one."""
    best: dict[tuple[object, ...], KernelRow] = {}
    for row in rows:
        if row.operation != "step" or row.dtype != dtype:
            continue
        shape = (row.model, row.layers, row.mask, row.requests, row.query_tokens, row.context)
        if shape not in best or (row.graph, -row.median_s) > (
            best[shape].graph,
            -best[shape].median_s,
        ):
            best[shape] = row
    return list(best.values())


def predicted_passes(device: Device, rows: Sequence[KernelRow], *, dtype: str) -> Array:
    """Seconds of every pass by the calibrated forms, in the order of the rows."""
    groups: dict[tuple[str, int], list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        groups[row.model, row.layers].append(place)
    seconds = np.zeros(len(rows))
    for (model, layers), places in groups.items():
        whole = load_model(model)
        architecture = whole if layers in (0, whole.layers) else whole.with_layers(layers)
        deployment = Deployment(
            architecture=architecture,
            device=device,
            precision=precision(dtype, dtype),
            fidelity="calibrated",
        )
        b, n, c = (
            np.array([float(getattr(rows[place], name)) for place in places])
            for name in ("requests", "query_tokens", "context")
        )
        seconds[places] = pass_cost(deployment, batch=b, query_tokens=n, context=c).total_s
    return seconds


def _with_sources(device: Device, score: PassScore, values: dict[str, float]) -> Device:
    source = (
        f"fitted to {score.rows_fitted} of {score.rows_used} whole passes; on the others median"
        f" error {score.median:.1%}, ninetieth percentile {score.p90:.1%}"
    )
    origin = NumberProvenance(kind="measured", source=source)
    origins, residuals = dict(device.provenance), dict(device.constants.residual_ratio)
    for name in values:
        origins[f"constants.{name}"] = origin
    for group in ("elementwise", "sampler"):
        residuals[group] = float(np.clip(score.p80_ratio, _LEAST_RATIO, _MOST_RATIO))
        origins[f"constants.residual_ratio.{group}"] = origin
    return replace(
        device, constants=replace(device.constants, residual_ratio=residuals), provenance=origins
    )
