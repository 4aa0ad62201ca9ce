"""Are these arrays what a trace may hold?

Range, length and type checks shared by the trace records, done before values are converted to a
smaller type, so that no value wraps around. Leaves out what the records mean
(`traces.kinds.acceptance`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError

IntArray = NDArray[np.int8] | NDArray[np.int16]
Shape = tuple[int | None, ...]


def checked_integers(
    values: object,
    dtype: type[np.signedinteger[Any]],
    name: str,
    shape: Shape,
    *,
    lowest: int,
    highest: int | None = None,
) -> NDArray[Any]:
    """Contiguous read-only integers of one type.

    Args:
        values: anything numpy reads as whole numbers.
        dtype: type to store.
        name: key for the message.
        shape: lengths that must hold, None where any length will do.
        lowest: least value allowed.
        highest: largest value allowed; None: what `dtype` holds.

    Raises:
        InputError: another type, shape or range.
    """
    array = _shaped(values, name, shape)
    if array.dtype.kind not in "iu" and array.size:
        raise InputError("must be whole numbers", key=name, value=str(array.dtype))
    limit = int(np.iinfo(dtype).max) if highest is None else highest
    if array.size:
        least, most = int(array.min()), int(array.max())
        if least < lowest or most > limit:
            wrong = least if least < lowest else most
            raise InputError(f"must lie in {lowest}..{limit}", key=name, value=wrong)
    return _frozen(array.astype(dtype, copy=False))


def checked_floats(
    values: object, dtype: type[np.floating[Any]], name: str, shape: Shape, *, highest: float = 1.0
) -> NDArray[Any]:
    """Contiguous read-only numbers in [0, highest], NaN refused; half-precision rounding above 1 is
    clipped.

    Args:
        values: anything numpy reads as real numbers.
        dtype: type to store.
        name: key for the message.
        shape: lengths that must hold, None where any length will do.
        highest: largest value allowed; infinity itself is never allowed.

    Raises:
        InputError: another type, shape or range.
    """
    array = _shaped(values, name, shape)
    if array.dtype.kind not in "iuf" and array.size:
        raise InputError("must be numbers", key=name, value=str(array.dtype))
    array = array.astype(np.result_type(dtype, np.float32), copy=False)
    # a sum of rounded probabilities may exceed 1 by what half precision rounds
    good = (array >= 0) & (array <= highest * (1 + 1e-3)) & np.isfinite(array)
    if not np.all(good):
        wrong = float(array[~good].flat[0])
        raise InputError(f"must be finite and lie in [0, {highest}]", key=name, value=wrong)
    return _frozen(np.minimum(array, highest).astype(dtype, copy=False))


def _shaped(values: object, name: str, shape: Shape) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise InputError("must be a rectangular array of numbers", key=name) from None
    expected = tuple("any" if length is None else str(length) for length in shape)
    fits = array.ndim == len(shape) and all(
        length is None or length == actual
        for length, actual in zip(shape, array.shape, strict=False)
    )
    if not fits:
        raise InputError(
            f"must have the lengths ({', '.join(expected)})", key=name, value=array.shape
        )
    return array


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def leading_hits(rank: IntArray, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many draft tokens of a chain match from every position on, as far as the ranks reach.

    Args:
        rank: [n] (depth invariant: the run goes on along the text) or [n, depth].
        offsets: int64[r+1], where requests begin and end; no run crosses an end.

    Returns:
        int64[n]: length of the run of zeros, at most the positions left in the request.
    """
    n = int(rank.shape[0])
    position = np.arange(n)
    left = np.repeat(offsets[1:], np.diff(offsets)) - position
    if rank.ndim == 1:
        # the next position at or behind each one whose rank is not 0; n where none is
        miss = np.append(np.flatnonzero(rank), n)
        run = miss[np.searchsorted(miss, position)] - position
    else:
        missed = rank != 0
        run = np.where(missed.any(axis=1), missed.argmax(axis=1), rank.shape[1])
    capped: NDArray[np.int64] = np.minimum(run, left)
    return capped


def consistent_ranks(
    rank: IntArray,
    offsets: NDArray[np.int64],
    emitted: NDArray[np.int16],
    drafted: NDArray[np.int16] | None,
) -> None:
    """Hold the emitted lengths against the ranks: a chain goes on exactly while the true token has
    rank 0.

    The lengths may stop short at the longest length recorded, at `drafted` or at the end of the
    text, and may go on where the ranks end.

    Args:
        rank: int8[n] or int8[n, levels], rank of the true token among the candidates, -1 where it
            is none.
        offsets: int64[r + 1], where every request begins.
        emitted: int16[n], tokens that a step emits where it starts.
        drafted: int16[n], draft tokens of such a step; None: not recorded.

    Raises:
        InputError: the first position at which the two disagree.
    """
    if not emitted.size:
        return
    run = leading_hits(rank, offsets)
    left = np.repeat(offsets[1:], np.diff(offsets)) - np.arange(emitted.size)
    reach = left if rank.ndim == 1 else np.minimum(left, rank.shape[1])
    run_has_ended = run < reach
    limit = np.full(emitted.size, int(emitted.max()) - 1)
    if drafted is not None:
        limit = np.minimum(limit, drafted)
    expected = np.minimum(run, limit) + 1
    # where the ranks end before the run does, a step may emit more than they show
    wrong = np.where(run_has_ended, emitted != expected, emitted < np.minimum(expected, left))
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"position {at} has {run[at]} leading hits in rank, so a step there emits"
            f" {expected[at]}",
            key="emitted",
            value=int(emitted[at]),
        )
