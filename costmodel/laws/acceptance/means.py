"""Which rates by depth have the mean accepted lengths that were measured at several draft lengths?

Leaves out one mean alone, which has the geometric law (`stated.length_rates`).
"""

from collections.abc import Mapping

import numpy as np


def rates_of_means(means: Mapping[int, float]) -> list[float]:
    """Rates by depth whose sums are the measured means, as near as rates that never increase can come.

    What a longer draft gains over the next shorter one is spread as if each of its further tokens were accepted at one
    rate. Gains per further token are made non-increasing by isotonic regression, which averages the noise of
    neighbouring K.

    Example:
        >>> [round(rate, 3) for rate in rates_of_means({1: 1.8, 3: 2.85})]
        [0.8, 0.6, 0.45]

    Args:
        means: tokens per step by draft tokens K >= 1, the bonus token counted, each in [1, K + 1]; at least one.

    Returns:
        P(the first d draft tokens are all accepted), d = 1 to the longest K.
    """
    from scipy.optimize import isotonic_regression  # type: ignore[import-untyped]

    lengths = sorted(means)
    spans = np.diff([0, *lengths])
    gains = np.diff([1.0, *(means[k] for k in lengths)]) / spans
    falling = np.clip(isotonic_regression(gains, weights=spans, increasing=False).x, 0.0, 1.0)
    found: list[float] = []
    for span, gain in zip(spans.tolist(), (falling * spans).tolist(), strict=True):
        before = found[-1] if found else 1.0
        rate = _rate_of(gain / before, span) if before > 0 else 0.0
        found += [before * rate**step for step in range(1, span + 1)]
    return found


def _rate_of(gain: float, steps: int) -> float:
    """The rate r with r + r² + ... of so many steps equal to the gain, held in [0, 1]."""
    from scipy.optimize import brentq

    if gain >= steps:
        return 1.0
    return float(brentq(lambda rate: sum(rate**step for step in range(1, steps + 1)) - gain, 0.0, 1.0))
