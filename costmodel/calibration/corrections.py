"""What do measured rows leave of a fitted form, smooth enough to interpolate in?

Values at the nodes of a fixed grid by robust ridge regression on the rows behind the fit; where no
rows are, none. Leaves out the rows that are scored.
"""

import numpy as np

from costmodel.calibration.measurements import Measurements
from costmodel.passes.kernels.correction import interpolated
from costmodel.passes.kernels.timing import Timing, shares
from costmodel.passes.ops import Array
from hardware_profiles.fitted.corrections import LARGEST, Correction

SIZES = (11.0, 12.0, 13.0, 14.0, 16.0)  # log2 of outputs and inputs
AXES: dict[str, tuple[tuple[float, ...], ...]] = {
    "gemm": ((0.0, 6.0, 8.0, 10.0), SIZES, SIZES),
    "moe": ((0.0, 0.1, 0.2, 0.4, 0.7, 1.0), (0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0)),
}
RIDGE = 1.0  # every node starts with the weight of one row that says 0
SOFT = 0.02  # errors beyond this count linearly instead of squared
ROWS_PER_NODE = 4
ROUNDS = 15


def correction(group: str, rows: Measurements, timing: Timing) -> Correction | None:
    """The correction of a fitted form; None where the operation has none or rows are too few.

    Args:
        group: of constants.
        rows: those behind the fit.
        timing: predicted without a correction.
    """
    if group not in AXES:
        return None
    axes = AXES[group]
    nodes = int(np.prod([len(axis) for axis in axes]))
    if len(rows) < ROWS_PER_NODE * nodes:
        return None
    design = _design(axes, coordinates(group, rows, timing), nodes)
    log_error = np.log(rows.seconds / timing.seconds)
    values: Array = np.zeros(nodes)
    for _ in range(ROUNDS):
        weight = 1.0 / np.sqrt(1.0 + ((log_error - design @ values) / SOFT) ** 2)
        weighted = design * weight[:, None]
        normal = weighted.T @ design + RIDGE * np.eye(nodes)
        values = np.asarray(np.linalg.solve(normal, weighted.T @ log_error))
    kept = np.round(np.clip(values, -LARGEST, LARGEST), 4) + 0.0
    return Correction(axes=axes, values=tuple(kept.tolist()))


def coordinates(group: str, rows: Measurements, timing: Timing) -> tuple[Array, ...]:
    """Where rows lie on the axes of a group's correction.

    Args:
        group: of constants, of `CORRECTED`.
        rows: measured.
        timing: as the form predicts them.

    Returns:
        An array [rows] per axis.
    """
    if group == "gemm":
        return tuple(np.log2(rows.columns[name]) for name in ("rows", "outputs", "inputs"))
    where = shares(timing)
    return where.launch, where.compute


def _design(axes: tuple[tuple[float, ...], ...], at: tuple[Array, ...], nodes: int) -> Array:
    """Weights of every node at every row, [rows, nodes]."""
    columns = [
        interpolated(Correction(axes=axes, values=tuple(unit)), *at)
        for unit in (LARGEST * np.eye(nodes)).tolist()
    ]
    return np.stack(columns, axis=1) / LARGEST
