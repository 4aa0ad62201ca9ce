"""How fast is this machine at the moment, by a piece of work that never changes?

The same products of small integers are timed beside every run, while the server idles. They keep one thread and its
first caches busy, as a quantised model on one thread does; what slows memory alone is hardly seen. Leaves out the
correction (`real_runs.validation.rounds`).
"""

from __future__ import annotations

import time

import numpy as np

_SIZE, _REPEATS = 192, 45


def probes() -> list[float]:
    """Seconds of the same product, several times; about a fifth of a second in all."""
    generator = np.random.default_rng(0)
    left, right = (generator.integers(-8, 8, size=(_SIZE, _SIZE), dtype=np.int32) for _ in range(2))
    found = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        left @ right
        found.append(time.perf_counter() - began)
    return found
