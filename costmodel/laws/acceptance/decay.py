"""How does acceptance go on at positions that nobody measured, and how far may that be off?

The ratios that published drafters with rates by position show, as quantiles: their median is the
point, their spread the doubt. Leaves out how they were fitted
(`tests/costmodel/acceptance_library`, where a test compares).
"""

from functools import cache

import numpy as np

_HEADS = (
    (
        0.791,
        0.879,
        0.914,
        0.926,
        0.929,
        0.939,
        0.956,
        0.970,
        0.973,
        0.978,
        0.979,
        0.980,
        0.980,
        0.980,
        0.994,
        1.000,
    ),
    (
        0.860,
        0.904,
        0.935,
        0.953,
        0.969,
        0.978,
        0.981,
        0.985,
        0.991,
        0.996,
        1.005,
        1.008,
        1.033,
        1.035,
        1.052,
        1.091,
    ),
)
"""Draft heads that draft in turn (EAGLE, multi-token prediction) beyond one known position (14
figures), and beyond two or more (19 fits). Source: the shipped `costmodel/acceptance_library/data`, entries with rates
by position."""
_BLOCKS = (
    (
        0.837,
        0.856,
        0.888,
        0.937,
        0.967,
        0.980,
        0.983,
        0.988,
        0.996,
        0.998,
        1.006,
        1.030,
        1.110,
        1.346,
        1.379,
        1.515,
    ),
    (
        0.862,
        0.927,
        0.959,
        0.972,
        0.977,
        0.983,
        0.986,
        0.989,
        1.002,
        1.006,
        1.009,
        1.013,
        1.023,
        1.034,
        1.074,
        1.105,
    ),
)
"""Drafters of a block in one pass, whose tokens do not see those before them (14 figures, 25 fits): 11 figures
of DSpark from the same source, and single results of DFlash and P-EAGLE (vllm pull requests 38300,
43010 and 32628), which are no acceptance to expect of their methods."""
_ALL = (
    (
        0.841,
        0.896,
        0.927,
        0.937,
        0.951,
        0.972,
        0.979,
        0.980,
        0.980,
        0.986,
        0.997,
        0.999,
        1.007,
        1.067,
        1.265,
        1.433,
    ),
    (
        0.890,
        0.949,
        0.961,
        0.972,
        0.979,
        0.983,
        0.986,
        0.994,
        1.002,
        1.008,
        1.013,
        1.027,
        1.032,
        1.036,
        1.086,
        1.099,
    ),
)
"""All drafters of the same source (26 figures, 40 fits). ASSUMED for draft models, of which it has
none, and for look-ups, of which it has one."""

_FIGURES = {"head": _HEADS, "block": _BLOCKS}


def ratio_cases(drafted_by: str, known_tokens: int) -> tuple[float, ...]:
    """By how much a token's acceptance, given those before it, changes per position: equally likely
    ratios, ascending.

    Args:
        drafted_by: whose figures, as `costmodel.method.Method.goes_on_as` says it; drafters that
            the library hardly knows take all figures.
        known_tokens: positions that are known, >= 1.

    >>> ratio_cases("head", 1)[0], len(ratio_cases("head", 3))
    (0.791, 16)
    """
    return _FIGURES.get(drafted_by, _ALL)[min(known_tokens, 2) - 1]


@cache
def usual_ratio(drafted_by: str, known_tokens: int) -> float:
    """The median of the ratios.

    >>> round(usual_ratio("head", 1), 3)
    0.972

    Args:
        drafted_by: kind of drafter, as of `ratio_cases`.
        known_tokens: draft tokens whose acceptance is known, >= 1.
    """
    return float(np.median(ratio_cases(drafted_by, known_tokens)))
