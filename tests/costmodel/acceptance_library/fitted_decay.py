"""How does the acceptance of published drafters go on from one position to the next?

Fitted to every figure of chains with rates by position. Means at several draft lengths come from
runs of their own, whose noise their differences carry: they check the fit. Leaves out what follows
for positions that nobody measured: `costmodel.laws.acceptance.decay` holds what is fitted here.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from costmodel.acceptance_library.library import published

_RATIOS = np.geomspace(0.4, 2.5, 2101)
_SELDOM = 0.02  # share of steps below which a position is left out: two digits tell no more of it


def published_decays(drafted_by: str = "", known: int = 1) -> tuple[float, ...]:
    """By how much the acceptance of a token, given those before it, changes per position.

    Args:
        drafted_by: `head`, as methods' entries say who drafts, without those that draft a block in
            one pass; empty: all, those of methods without an entry too.
        known: 1: from the first position on; 2: from the second and from the third on, where two or
            more are known.

    Returns:
        One ratio per figure and start, ascending; below 1 where later tokens are kept less often.

    >>> 0.9 < float(np.median(published_decays("head"))) < 1.0
    True
    """
    decays = []
    for entry in published():
        if drafted_by not in ("", drafted_in_turn(entry.method)):
            continue
        rates = entry.rates if entry.shape == "chain" else ()
        seldom = next((place for place, rate in enumerate(rates) if rate <= _SELDOM), len(rates))
        for start in (1,) if known == 1 else (2, 3):
            if seldom > start:
                before = rates[start - 2] if start > 1 else 1.0
                decays.append(
                    fitted_decay([min(rate / before, 1.0) for rate in rates[start - 1 : seldom]])
                )
    return tuple(sorted(decays))


def fitted_decay(rates: Sequence[float]) -> float:
    """The ratio per position at which chains of every length emit most nearly what was measured, in
    squares.

    The first position's acceptance is taken as measured; no token's acceptance exceeds 1.

    Args:
        rates: P(the first d drafts are all accepted), d = 1, 2, ..; at least two.

    >>> round(fitted_decay([0.8, 0.8 * 0.72, 0.8 * 0.72 * 0.648]), 2)
    0.9
    """
    given_before = np.minimum(rates[0] * _RATIOS[:, None] ** np.arange(len(rates)), 1.0)
    emitted: NDArray[np.float64] = np.cumsum(np.cumprod(given_before, axis=1), axis=1)
    missed = np.sum((emitted - np.cumsum(rates)) ** 2, axis=1)
    return float(_RATIOS[np.argmin(missed)])


def drafted_in_turn(method: str) -> str | None:
    """Who drafts for a method of the catalogue; None for others, and for blocks of one pass.

    Positions of a block do not see the tokens drafted before them, and their acceptance goes on
    otherwise than a head's: DSpark's figures keep 1.0 of it per position in the median.

    Args:
        method: slug, or a name that has no entry.
    """
    from costmodel.method_library import load_method, method_names

    if method not in method_names() or load_method(method).drafts_blocks:
        return None
    return load_method(method).drafted_by
