"""How fast is this machine at the moment, by a piece of work that never changes?

The same products of small integers are timed beside every run, while the server idles. They keep
one thread and its first caches busy, as a quantised model on one thread does; what slows memory
alone is hardly seen. It is reported beside the runs and corrects none of them: it tells seconds
before and after a run, and a shared machine changes within. Leaves out which runs count
(`real_runs.validation.rounds`).
"""

from __future__ import annotations

import time
from functools import cache

import numpy as np
from numpy.typing import NDArray

_SIZE, _REPEATS = 192, 45


def probes() -> list[float]:
    """Seconds of the same product, several times; about a fifth of a second in all."""
    left, right = _operands()
    seconds = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        left @ right
        seconds.append(time.perf_counter() - began)
    return seconds


@cache
def _operands() -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The same pages of memory in every call, so that what they compete for in caches cannot differ
    between calls.
    """
    generator = np.random.default_rng(0)
    left, right = (generator.integers(-8, 8, size=(_SIZE, _SIZE), dtype=np.int32) for _ in range(2))
    return left, right
