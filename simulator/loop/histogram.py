"""How are many waits distributed, when there are too many of them to keep?

Counts in logarithmic bins, about one per cent wide, from a microsecond to a few hours. Leaves out
exact order statistics: percentiles are right to half a bin.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.loop.compiled import compiled

BINS = 2048
LEAST_S = 1e-6
WIDTH = math.log(1e10) / (BINS - 2)  # natural logarithm of the ratio of neighbouring edges


@compiled
def bin_of(seconds: float) -> int:
    """The bin of a wait; 0 holds everything below a microsecond, the last one everything above ten
    thousand s.
    """
    if seconds < LEAST_S:
        return 0
    return int(min(1 + math.log(seconds / LEAST_S) / WIDTH, BINS - 1))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Histogram:
    """Waits by bin.

    Args:
        counts: int64[BINS].
        total_s: sum of all waits, exactly.
    """

    counts: NDArray[np.int64]
    total_s: float

    @property
    def count(self) -> int:
        """Number of waits."""
        return int(self.counts.sum())

    @property
    def mean_s(self) -> float:
        """Mean wait; nan where there is none."""
        return self.total_s / self.count if self.count else math.nan

    def percentile_s(self, percent: float) -> float:
        """The wait that `percent` per cent of all do not exceed; nan where there is none.

        Args:
            percent: 0 to 100.
        """
        if not self.count:
            return math.nan
        wanted = percent / 100.0 * self.count
        below = np.cumsum(self.counts)
        index = min(int(np.searchsorted(below, wanted, side="left")), BINS - 1)
        while index < BINS - 1 and not self.counts[index]:
            index += 1
        if index == 0:
            return 0.0
        inside = (wanted - (below[index] - self.counts[index])) / self.counts[index]
        return LEAST_S * math.exp((index - 1 + min(max(inside, 0.0), 1.0)) * WIDTH)
