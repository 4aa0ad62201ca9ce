"""How are tokens spread over experts when some experts are chosen more often than others?

Loads drawn from a power law, as kernel benchmarks of expert layers do, at its quantiles instead of
at random. Leaves out the routing of real models.
"""

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
    numbers; what rounding leaves over goes to the most loaded experts, and none gets more than
    `tokens`.

    Args:
        tokens: T, >= 1.
        experts: E, >= 1.
        experts_per_token: k, 1..E.
        exponent: of the density, > 0.

    Returns:
        Loads of shape [experts]; they sum to T·k unless an expert would get more than every token.

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
    loads = _settled(loads, slots)
    return np.minimum(loads, tokens)


def _settled(loads: npt.NDArray[np.int64], slots: int) -> npt.NDArray[np.int64]:
    """Loads that sum to `slots`: one more, or one fewer, for the most loaded experts in turn."""
    settled = loads.copy()
    while (left := slots - int(settled.sum())) != 0:
        where = np.flatnonzero(settled > 0) if left < 0 else np.arange(len(settled))
        settled[where[: abs(left)]] += 1 if left > 0 else -1
    return settled


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
