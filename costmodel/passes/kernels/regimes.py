"""How far may a predicted time be off, in the regime that it lies in?

Looks up the intervals of a device profile by the shares of launches and arithmetic and by the sizes
of a call. Leaves out how they were found.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from costmodel.passes.kernels.timing import Timing, shares
from costmodel.passes.ops import Array, Mask, Number
from hardware_profiles.fitted.residuals import SIZES, Regimes, Residuals


class Place(NamedTuple):
    """Where a call lies among the regimes of its operation: shares of its time and sizes, arrays
    that broadcast.

    Attributes:
        axes: by name of a share or of a size.
        shape: that they broadcast to.
    """

    axes: Mapping[str, Array]
    shape: tuple[int, ...]

    def select(self, rows: Mask) -> "Place":
        """The entries where `rows` holds, of arrays that all have one entry per row."""
        return Place({name: values[rows] for name, values in self.axes.items()}, (int(rows.sum()),))


def place(timing: Timing, sizes: Mapping[str, Number] | None = None) -> Place:
    """Where a call lies, by its predicted time and by those of its sizes that regimes may be
    distinguished by.

    Args:
        timing: as it was predicted.
        sizes: of the call by name; those that `SIZES` does not list are left out.
    """
    where = shares(timing)
    axes = {
        name: np.asarray(size, dtype=np.float64)
        for name, size in (sizes or {}).items()
        if name in SIZES
    }
    shape = np.broadcast_shapes(where.launch.shape, *(size.shape for size in axes.values()))
    return Place({"launch": where.launch, "compute": where.compute, **axes}, shape)


def holds(regimes: Regimes, where: Place) -> Mask:
    """Which regimes a call lies in, [regimes, *shape]; none that is bounded by a size that is not
    known.

    Args:
        regimes: of the operation.
        where: of `place`.
    """
    inside = np.ones((len(regimes), *[1] * len(where.shape)), dtype=bool)
    for axis, span in zip(regimes.axes, regimes.spans, strict=True):
        if axis not in where.axes:
            inside = inside & (span == (0.0, np.inf)).all(axis=1).reshape(
                -1, *[1] * len(where.shape)
            )
            continue
        at = where.axes[axis]
        low, high = span.T.reshape(2, -1, *[1] * at.ndim)
        inside = inside & ((at >= low) & (at < high)).reshape(
            len(regimes), *_padded(at.shape, len(where.shape))
        )
    return np.broadcast_to(inside, (len(regimes), *where.shape))


def log_bounds(residuals: Residuals, operation: str, where: Place) -> tuple[Array, Array]:
    """Ends of the 80 % interval of log(measured / predicted).

    Args:
        residuals: of a profile.
        operation: one of those in the table; outside its regimes its half width holds.
        where: shares of launches and arithmetic, and sizes.

    Raises:
        KeyError: an operation that the table lacks.
    """
    half = float(np.log1p(residuals[operation]))
    regimes = residuals.regimes.get(operation)
    if regimes is None:
        return np.full(where.shape, -half), np.full(where.shape, half)
    if math.prod(where.shape) == 1:  # comparing numbers is faster than arrays of one entry
        low, high = _ends_at(
            regimes, {name: values.item() for name, values in where.axes.items()}
        ) or (-half, half)
        return np.full(where.shape, low), np.full(where.shape, high)
    inside = holds(regimes, where)
    which = np.where(inside.any(axis=0), inside.argmax(axis=0), len(regimes))
    ends = np.vstack([regimes.log_ends, (-half, half)])[which]
    return ends[..., 0], ends[..., 1]


def _ends_at(regimes: Regimes, at: Mapping[str, float]) -> tuple[float, float] | None:
    """Ends of the first regime that a single call lies in, as `holds` has it."""
    values = [at.get(axis) for axis in regimes.axes]
    for spans, ends in regimes.by_regime:
        for x, (low, high) in zip(values, spans, strict=True):
            if not (low <= x < high if x is not None else (low, high) == (0.0, math.inf)):
                break
        else:
            return ends
    return None


def _padded(shape: tuple[int, ...], dimensions: int) -> tuple[int, ...]:
    return (1,) * (dimensions - len(shape)) + shape
