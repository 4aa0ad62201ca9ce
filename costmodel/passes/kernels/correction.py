"""What does the table of corrections in a device profile make of a predicted time?

Interpolation between nodes, linear along every axis. Leaves out how the values were found.
"""

import bisect
import itertools

import numpy as np

from costmodel.passes.kernels.timing import Timing, shares
from costmodel.passes.ops import Array
from hardware_profiles.fitted.corrections import Correction
from hardware_profiles.profile import Device

_PER_OCTAVE = 1.0 / np.log(2.0)


def by_size(device: Device, timing: Timing, rows: Array, outputs: Array, inputs: Array) -> Timing:
    """A matrix product's time, corrected by its rows, outputs and inputs where the profile has a table."""
    correction = device.constants.corrections.get("gemm")
    if correction is None:
        return timing
    return _times(timing, interpolated(correction, *(np.log(size) * _PER_OCTAVE for size in (rows, outputs, inputs))))


def by_share(device: Device, timing: Timing, operation: str) -> Timing:
    """A time corrected by its shares of launches and of arithmetic where the profile has a table."""
    correction = device.constants.corrections.get(operation)
    if correction is None:
        return timing
    where = shares(timing)
    return _times(timing, interpolated(correction, where.launch, where.compute))


def interpolated(correction: Correction, *at: Array) -> Array:
    """Corrections, as logarithms, at coordinates that broadcast; beyond the ends the last value holds."""
    values = correction.grid
    axes = list(correction.axes)
    while axes and np.size(at[len(axes) - 1]) == 1:  # sizes of weights are single numbers, rows seldom
        values = _between(values, axes.pop(), float(np.reshape(at[len(axes)], ())))
    if not axes:
        return np.asarray(values)
    if len(axes) == 1:
        return np.asarray(np.interp(at[0], axes[0], values))
    return _multilinear(values, [np.asarray(axis) for axis in axes], np.broadcast_arrays(*at[: len(axes)]))


def _between(values: Array, axis: tuple[float, ...], x: float) -> Array:
    """Values along the other axes, where the last one has one coordinate."""
    below = min(max(bisect.bisect_right(axis, x) - 1, 0), len(axis) - 2)
    share = min(max((x - axis[below]) / (axis[below + 1] - axis[below]), 0.0), 1.0)
    return np.asarray(values[..., below] * (1.0 - share) + values[..., below + 1] * share)


def _multilinear(values: Array, axes: list[Array], at: list[Array] | tuple[Array, ...]) -> Array:
    below, share = [], []
    for axis, x in zip(axes, at, strict=True):
        index = np.clip(np.searchsorted(axis, x, side="right") - 1, 0, len(axis) - 2)
        below.append(index)
        share.append(np.clip((x - axis[index]) / (axis[index + 1] - axis[index]), 0.0, 1.0))
    total = np.zeros(np.shape(at[0]))
    for corner in itertools.product((0, 1), repeat=len(axes)):
        weight = np.ones(())
        for up, part in zip(corner, share, strict=True):
            weight = weight * (part if up else 1.0 - part)
        total = total + weight * values[tuple(index + up for index, up in zip(below, corner, strict=True))]
    return total


def _times(timing: Timing, log_factor: Array) -> Timing:
    factor = np.exp(log_factor)
    return Timing(*(factor * part for part in timing))
