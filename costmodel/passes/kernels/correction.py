"""What does the table of corrections in a device profile make of a predicted time?

Interpolation between nodes, linear along every axis. Leaves out how the values were found.
"""

import bisect
import itertools
import math
from collections.abc import Callable

import numpy as np

from costmodel.passes.kernels.timing import Timing, shares
from costmodel.passes.ops import Array
from hardware_profiles.fitted.corrections import Correction
from hardware_profiles.profile import Device

_PER_OCTAVE = 1.0 / np.log(2.0)


def by_size(
    device: Device,
    timing: Timing,
    rows: Array,
    outputs: Array,
    inputs: Array,
    form: Callable[[Array], Timing],
    padded: Array,
) -> Timing:
    """A matrix product's time, corrected by its rows, outputs and inputs where the profile has a
    table.

    More rows never take less than fewer: kernels of several sizes were measured, each with an error
    of its own, and a table that falls by that error from node to node would verify in less time
    than a plain pass takes. Nor do fewer take more than the sizes that they can be padded to.

    Args:
        device: profile.
        timing: of the form, before the correction.
        rows: M.
        outputs: N.
        inputs: K.
        form: the time of the same product at other rows, [nodes, 1, ...].
        padded: rows that whole tiles of each size have, [sizes, ...].
    """
    correction = device.constants.corrections.get("gemm")
    if correction is None:
        return timing
    x, above = (np.log(count) * _PER_OCTAVE for count in (rows, padded))
    if np.size(outputs) != 1 or np.size(inputs) != 1:
        sizes = [np.log(size) * _PER_OCTAVE for size in (outputs, inputs)]
        logs, at_padded = (interpolated(correction, at, *sizes) for at in (x, above))
        nodes = list(correction.axes[0][:-1])
        at_nodes = interpolated(
            correction, np.array(nodes).reshape(-1, *(1 for _ in np.shape(logs))), *sizes
        )
    else:
        column = _along_rows(
            correction, float(np.reshape(outputs, ())), float(np.reshape(inputs, ()))
        )
        logs, at_padded = (
            np.asarray(np.interp(at, correction.axes[0], column)) for at in (x, above)
        )
        falls = _before_falls(correction.axes[0], column, float(above.max(initial=0.0)))
        nodes = [correction.axes[0][at] for at in falls]
        at_nodes = np.array([column[at] for at in falls]).reshape(-1, *(1 for _ in np.shape(logs)))
    seconds = timing.seconds * np.exp(logs)
    reached = form(padded).seconds * np.exp(at_padded)
    if nodes:
        few = np.exp2(np.array(nodes)).reshape(-1, *(1 for _ in np.shape(logs)))
        least = form(few).seconds * np.exp(at_nodes)
        seconds = np.maximum(seconds, np.where(rows >= few, least, 0.0).max(axis=0))
        fewer = np.where(padded[:, None] >= few, least, 0.0).max(axis=1)
        reached = np.maximum(reached, fewer)
    seconds = np.minimum(seconds, reached.min(axis=0))
    factor = seconds / timing.seconds
    return Timing(seconds, *(factor * part for part in timing[1:]))


def _along_rows(correction: Correction, outputs: float, inputs: float) -> list[float]:
    """The correction at the nodes along rows, for a weight of that shape."""
    if (outputs, inputs) not in correction.columns:
        values = correction.grid
        for axis, size in zip(correction.axes[:0:-1], (inputs, outputs), strict=True):
            values = _between(values, axis, math.log2(size))
        correction.columns[outputs, inputs] = values.tolist()
    return correction.columns[outputs, inputs]


def _before_falls(axis: tuple[float, ...], column: list[float], most: float) -> list[int]:
    """Which nodes along rows lie higher than a later part of the correction, up to the most
    rows.
    """
    end = bisect.bisect_left(axis, most) + 1  # the node that ends the part with the most rows
    return [
        at for at in range(end - 1) if at < len(axis) - 1 and column[at] > min(column[at + 1 : end])
    ]


def by_share(
    device: Device, timing: Timing, operation: str, form: Callable[[Array], Timing]
) -> Timing:
    """A time corrected by its shares of launches and of arithmetic where the profile has a
    table.

    Faster arithmetic never takes longer: a table that falls from one share of arithmetic to the
    next falls by the errors of what was measured there.

    Args:
        device: profile.
        timing: as the form predicts it.
        operation: whose correction applies, of `CORRECTED`.
        form: the time of the same operation, uncorrected, if its arithmetic took other seconds.
    """
    correction = device.constants.corrections.get(operation)
    if correction is None:
        return timing

    def corrected_s(at: Timing) -> Array:
        where = shares(at)
        return np.asarray(
            at.seconds * np.exp(interpolated(correction, where.launch, where.compute))
        )

    seconds, most = corrected_s(timing), float(np.max(shares(timing).compute, initial=0.0))
    for share in (share for share in correction.axes[1] if share < most):
        as_fast = timing.memory_s * share / (1.0 - share)
        seconds = np.maximum(seconds, corrected_s(form(np.minimum(timing.compute_s, as_fast))))
    factor = seconds / timing.seconds
    return Timing(seconds, *(factor * part for part in timing[1:]))


def interpolated(correction: Correction, *at: Array) -> Array:
    """Corrections, as logarithms, at coordinates that broadcast; beyond the ends the last value
    holds.
    """
    values = correction.grid
    axes = list(correction.axes)
    while axes and np.size(at[len(axes) - 1]) == 1:
        # sizes of weights are single numbers, rows seldom
        values = _between(values, axes.pop(), float(np.reshape(at[len(axes)], ())))
    if not axes:
        return np.asarray(values)
    if len(axes) == 1:
        return np.asarray(np.interp(at[0], axes[0], values))
    return _multilinear(
        values, [np.asarray(axis) for axis in axes], np.broadcast_arrays(*at[: len(axes)])
    )


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
        total = (
            total
            + weight * values[tuple(index + up for index, up in zip(below, corner, strict=True))]
        )
    return total
