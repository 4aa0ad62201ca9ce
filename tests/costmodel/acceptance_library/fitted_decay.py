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
OTHER_BLOCKS = {
    # Qwen3-8B, shanjiaz/speculators-dflash-format, 200 prompts of Magpie, K=8
    "vllm pull request 38300 (DFlash)": (0.478, 0.181, 0.069, 0.023, 0.007, 0.002, 0.001, 0.0),
    # what tests/v1/spec_decode/test_speculators_correctness.py[peagle] printed, K=4
    "vllm pull request 43010 (P-EAGLE)": (0.6753, 0.3760, 0.1961, 0.0843),
    # HumanEval, K=8, in whole per cent
    "vllm pull request 32628 (P-EAGLE)": (0.63, 0.38, 0.23, 0.14, 0.09, 0.05, 0.03, 0.02),
}
"""Single results by position of other drafters of whole blocks, which say how acceptance goes on and no
acceptance to expect: a checkpoint that tests a format, models that the thread does not name."""
_SELDOM = 0.02  # share of steps below which a position is left out: two digits tell no more of it


def published_decays(drafted_by: str = "", known: int = 1) -> tuple[float, ...]:
    """By how much the acceptance of a token, given those before it, changes per position.

    Args:
        drafted_by: `head` or another proposer, without those that draft a block in one pass;
            `block`: these, with single results of others; empty: all of the library, those of
            methods without an entry too.
        known: 1: from the first position on; 2: from the second and from the third on, where two or
            more are known.

    Returns:
        One ratio per figure and start, ascending; below 1 where later tokens are kept less often.

    >>> 0.9 < float(np.median(published_decays("head"))) < 1.0
    True
    """
    decays = []
    chains = [
        entry.rates
        for entry in published()
        if entry.shape == "chain" and drafted_by in ("", goes_on_as(entry.method))
    ]
    for rates in [*chains, *(OTHER_BLOCKS.values() if drafted_by == "block" else ())]:
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


def goes_on_as(method: str) -> str | None:
    """Whose acceptance a method's goes on as; None for a name that has no entry.

    Args:
        method: slug, or a name that has no entry.
    """
    from costmodel.method_library import load_method, method_names

    return load_method(method).goes_on_as if method in method_names() else None
