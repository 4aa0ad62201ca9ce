"""Which ranges of batches are worth telling apart?

A kernel's tiles and waves make rates jagged, so that a choice made batch by batch changes back and
forth. A range that is narrow, or stands between two ranges of one choice, is kept only where what
it gains over its neighbour's choice is more than the prediction can tell. Leaves out
what is chosen, and how sure a gain is (`costmodel.answers.uncertainty`).
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

SHORT_RATIO = 1.125
"""First batch behind a range over its own first one, below which the range is narrow. ASSUMED: the
running batch of an engine moves by more than an eighth within seconds."""

Measure = Callable[[slice, int], float]  # of a range of places, and another choice for it


def joined_ranges(
    batches: NDArray[np.int64], choices: Sequence[int], gain: Measure, doubt: Measure
) -> list[int]:
    """The choices by batch, narrow ranges of little gain joined to a neighbour, that of the least
    gain first.

    Example:
        >>> rates = np.array([[1.0, 0.9], [1.0, 1.01], [1.0, 0.9]])
        >>> def gain(run, other):
        ...     return float(np.max(np.log(rates[run].max(axis=1) / rates[run, other])))
        >>> joined_ranges(np.array([88, 89, 90]), [0, 1, 0], gain, lambda run, other: 0.05)
        [0, 0, 0]

    Args:
        batches: increasing, shape [m].
        choices: number of what is chosen at every batch, shape [m].
        gain: logarithm of the rate of the first choices over another's, where it is largest in a
            range; inf where the other does not run.
        doubt: half width of the interval of that logarithm.
    """
    chosen = list(choices)
    while True:
        runs = _runs(chosen)
        joins = []
        for place, run in enumerate(runs):
            behind = batches[run.stop] if run.stop < len(batches) else batches[-1] + 1
            near = runs[max(place - 1, 0) : place] + runs[place + 1 : place + 2]
            others = {chosen[beside.start] for beside in near}
            is_island = len(near) == 2 and len(others) == 1
            if not near or not (is_island or behind < SHORT_RATIO * batches[run.start]):
                continue
            gained, other = min((gain(run, other), other) for other in others)
            if np.isfinite(gained) and gained < doubt(run, other):
                joins.append((gained, run.start, run, other))
        if not joins:
            return chosen
        _, _, run, other = min(joins, key=lambda join: join[:2])
        chosen[run] = [other] * (run.stop - run.start)


def _runs(choices: Sequence[int]) -> list[slice]:
    """The ranges of places with one choice."""
    edges = [0, *(np.flatnonzero(np.diff(choices)) + 1).tolist(), len(choices)]
    return [slice(start, stop) for start, stop in pairwise(edges)]
