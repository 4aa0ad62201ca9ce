"""How are tokens spread over experts when some experts are chosen more often than others?

Loads drawn from a power law, as kernel benchmarks of expert layers do, at its quantiles instead of
at random. Leaves out the routing of real models.
"""

import heapq
import math

import numpy as np
import numpy.typing as npt

MOST_SLOTS = 10_000_000


def power_law_loads(
    tokens: int, experts: int, experts_per_token: int, exponent: float
) -> npt.NDArray[np.int64]:
    """Tokens that each expert gets, most to least.

    Weights are the (i + 1/2)/E quantiles of a density x^-exponent: on [1, 0.8·tokens] where there
    are more choices than experts, on [0.01, 2] where there are fewer. Loads are the nearest whole
    numbers, and at most `tokens`. What that leaves over goes to the least loaded experts one by
    one, so that few tokens visit more experts than the law alone would have them; what it lacks is
    taken from the most loaded.

    Args:
        tokens: T, >= 1.
        experts: E, >= 1.
        experts_per_token: k, 1..E.
        exponent: of the density, > 0.

    Returns:
        Loads of shape [experts], which sum to T·k.

    Reference: aiconfigurator (github.com/ai-dynamo/aiconfigurator, Apache-2.0), the helper of its
    collector.

    >>> power_law_loads(2, 4, 1, 1.2).tolist()
    [2, 0, 0, 0]
    """
    slots = tokens * experts_per_token
    low, high = (1.0, max(0.8 * tokens, 1.0)) if slots > experts else (0.01, 2.0)
    quantile = (np.arange(experts)[::-1] + 0.5) / experts
    power = 1.0 - exponent
    if math.isclose(exponent, 1.0):
        weights = low * (high / low) ** quantile
    else:
        weights = ((high**power - low**power) * quantile + low**power) ** (1.0 / power)
    loads = np.rint(weights / weights.sum() * slots).astype(np.int64)
    return _settled(np.minimum(loads, tokens), slots)


def _settled(loads: npt.NDArray[np.int64], slots: int) -> npt.NDArray[np.int64]:
    """Loads that sum to `slots`, most to least: one more for the least loaded expert, or one fewer
    for the most loaded, again and again.
    """
    left = slots - int(loads.sum())
    queue = [int(load) if left > 0 else -int(load) for load in loads]
    heapq.heapify(queue)
    for _ in range(abs(left)):
        heapq.heapreplace(queue, queue[0] + 1)
    return np.sort(np.abs(np.array(queue, dtype=np.int64)))[::-1]


def balanced_loads(tokens: int, experts: int, experts_per_token: int) -> npt.NDArray[np.float64]:
    """Equal loads over min(E, T·k) experts, zero for the others.

    Args:
        tokens: T.
        experts: E.
        experts_per_token: k.

    Returns:
        Rows by expert, float64[E].
    """
    visited = min(experts, tokens * experts_per_token)
    return np.where(np.arange(experts) < visited, tokens * experts_per_token / visited, 0.0)
