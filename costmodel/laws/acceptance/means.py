"""Which rates by depth have the mean accepted lengths that were measured at several draft lengths?

Leaves out one mean alone, which has the geometric law (`stated.length_rates`).
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def rates_of_means(means: Mapping[int, float]) -> list[float]:
    """Rates by depth whose sums are the measured means, as near as rates that never increase can
    come.

    What a longer draft gains over the next shorter one is spread as if each of its further tokens
    were accepted at one rate. Gains per further token are made non-increasing by isotonic
    regression, which averages the noise of neighbouring K. Both it and the rates of a gain are
    computed here, since loading scipy takes longer than either.

    Example:
        >>> [round(rate, 3) for rate in rates_of_means({1: 1.8, 3: 2.85})]
        [0.8, 0.6, 0.45]

    Args:
        means: tokens per step by draft tokens K >= 1, the bonus token counted, each in [1, K + 1];
            at least one.

    Returns:
        P(the first d draft tokens are all accepted), d = 1 to the longest K.
    """
    lengths = sorted(means)
    spans = np.diff([0, *lengths])
    gains = np.diff([1.0, *(means[k] for k in lengths)]) / spans
    falling = np.clip(_non_increasing(gains, spans), 0.0, 1.0)
    rates: list[float] = []
    for span, gain in zip(spans.tolist(), (falling * spans).tolist(), strict=True):
        before = rates[-1] if rates else 1.0
        rate = _rate_of(gain / before, span) if before > 0 else 0.0
        rates += [before * rate**step for step in range(1, span + 1)]
    return rates


def _non_increasing(gains: Array, weights: NDArray[np.int64]) -> Array:
    """The nearest gains by weighted squares that never increase: neighbours that do are averaged,
    pool by pool.
    """
    pools: list[tuple[float, int, int]] = []  # mean, weight, and how many gains it stands for
    for gain, weight in zip(gains.tolist(), weights.tolist(), strict=True):
        pool = gain, weight, 1
        while pools and pools[-1][0] < pool[0]:
            before, heavy, others = pools.pop()
            mean, weighs, count = pool
            both = heavy + weighs
            pool = (before * heavy + mean * weighs) / both, both, others + count
        pools.append(pool)
    return np.repeat([mean for mean, _, _ in pools], [count for _, _, count in pools])


def _rate_of(gain: float, steps: int) -> float:
    """The rate r with r + r² + ... of so many steps equal to the gain, held in [0, 1]."""
    if gain >= steps:
        return 1.0
    if gain <= 0.0:
        return 0.0
    rate = 1.0
    # Newton's steps on a convex rising sum fall to its root from above, and end where they no
    # longer fall
    while True:
        powers = [rate**step for step in range(steps + 1)]
        slope = sum(step * power for step, power in enumerate(powers[:-1], start=1))
        lower = rate - (sum(powers[1:]) - gain) / slope
        if not lower < rate:
            return rate
        rate = lower
