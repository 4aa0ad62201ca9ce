"""The max-plus convolution: which split of a budget over two parts is worth most?

Trees (children of a node share its budget) and batches (requests share a step's budget) are the
same question. Leaves out which split it was: a caller that needs it recomputes the argmax along the
chosen path with `best_share`.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Values = NDArray[np.float64]
INFEASIBLE = -np.inf
_MOST_PLAIN = 257
"""Budgets, zero among them, up to which arrays of numpy take less time than loading a compiler."""


@cache
def _compiled() -> Callable[[Values, Values, Values], None]:
    from hardware_profiles.machine_code import cached_njit

    # nnan and nsz let the maximum become one vector instruction; infinities keep their meaning
    compiled: Callable[[Values, Values, Values], None] = cached_njit(
        __file__, fastmath={"nnan", "nsz"}
    )(_raise_to_best)
    return compiled


# slices keep sums out of the index, whose possible sign would keep the loop scalar
def _raise_to_best(best: Values, rest: Values, gains: Values) -> None:
    """Raise `best[n]` to every `rest[n - y] + gains[y]`, four shares y a sweep to spare loads and
    stores.

    `rest` carries three infeasible entries in front, so that the four shifted reads stay inside the
    array.
    """
    for y in range(0, gains.size, 4):
        first, second, third, fourth = gains[y], gains[y + 1], gains[y + 2], gains[y + 3]
        if max(first, second, third, fourth) == -np.inf:
            continue
        target = best[y:]
        unshifted, by_one, by_two = rest[3:], rest[2:], rest[1:]
        for n in range(best.size - y):
            low = max(unshifted[n] + first, by_one[n] + second)
            high = max(by_two[n] + third, rest[n] + fourth)
            target[n] = max(target[n], low, high)


def max_plus(rest: Values, gains: Values) -> Values:
    """Best total over every split of a budget: `out[n] = max over y of rest[n - y] + gains[y]`.

    Sums and maxima are the same to the last bit, in numpy for small budgets and compiled for large
    ones.

    Args:
        rest: float64 [size], value of the other parts by budget; -inf where no such choice exists,
            no NaN.
        gains: float64 [at most size], value of this part by its share y = 0, 1, ...; -inf: not
            possible; no NaN.

    Returns:
        float64 [size], -inf where no split exists.

    Reference:
        The recursion of Sequoia, Chen et al. 2024 (arXiv 2402.12374), in convolution form.
    """
    if gains.size > 0 and rest.size <= _MOST_PLAIN:
        padded = np.full(rest.size + gains.size - 1, INFEASIBLE)
        padded[gains.size - 1 :] = rest
        return np.asarray((sliding_window_view(padded, gains.size)[:, ::-1] + gains).max(axis=1))
    padded_rest = np.full(rest.size + 3, INFEASIBLE)
    padded_rest[3:] = rest
    padded_gains = np.full(-(-gains.size // 4) * 4, INFEASIBLE)
    padded_gains[: gains.size] = gains
    best = np.full(rest.size, INFEASIBLE)
    _compiled()(best, padded_rest, padded_gains)
    return best


def best_share(rest: Values, gains: Values, budget: int) -> int:
    """The share y of `gains` in a best split of exactly `budget` (the smallest of equals)."""
    largest = min(budget, gains.size - 1)
    totals = gains[: largest + 1] + rest[budget - largest : budget + 1][::-1]
    return int(np.argmax(totals))
