"""How many tokens of a draft should be verified, where that need not be all of them?

The choice of one step, for whoever decodes: the likeliest draft tokens of the batch, so many that
most tokens are expected per second. Leaves out walking along a recording by it
(`costmodel.laws.controllers`) and what steps take (`costmodel.answers.verify_widths`).

Reference: Cheng et al. 2026, DSpark (arXiv:2607.05147); Wu et al. 2025, TETRIS (arXiv:2502.15197),
for the likeliest tokens of a batch.
"""

import numpy as np
from numpy.typing import NDArray

from costmodel.passes.ops import Array
from hardware_profiles.errors import InputError

Whole = NDArray[np.int64]


def verified_widths(survival: Array, seconds: Array, worth: float | None = None) -> Whole:
    """Draft tokens of every request that a batch verifies in one pass of all of them.

    Example:
        >>> verified_widths(np.array([[0.9, 0.8], [0.3, 0.1]]), 1.0 + 0.3 * np.arange(5.0)).tolist()
        [2, 0]

    Args:
        survival: probability that a request's draft is accepted up to each token, never rising
            along a draft, 0 behind its end; shape [requests, K].
        seconds: of a step that verifies 0, 1, .. requests * K draft tokens; shape [requests * K +
            1], > 0.
        worth: tokens that a second is worth, as the long run emits per second; None: this step
            alone is weighed.

    Returns:
        int64[requests], 0 to K. Of equally likely tokens those nearer to the root come first, then
        those of the earlier request.

    Raises:
        InputError: shapes that do not go together, or a survival that rises.
    """
    requests, longest = _checked(survival)
    by_depth = survival.T.reshape(-1)
    order = np.argsort(-by_depth, kind="stable")
    budget = _paying(float(requests), by_depth[order], seconds, worth)
    widths = np.bincount(order[:budget] % requests, minlength=requests)
    assert longest >= widths.max(initial=0)
    return widths.astype(np.int64)


def padded_width(survival: Array, seconds: Array, worth: float | None = None) -> int:
    """Draft tokens that every request of a batch verifies in a pass that is padded to the longest.

    Args:
        survival: as in `verified_widths`.
        seconds: of a step in which everybody verifies 0, 1, .. K draft tokens; shape [K + 1], > 0.
        worth: as in `verified_widths`.

    Raises:
        InputError: as in `verified_widths`.
    """
    requests, _ = _checked(survival)
    return _paying(float(requests), survival.sum(axis=0), seconds, worth)


def _paying(sure: float, gains: Array, seconds: Array, worth: float | None) -> int:
    """How many of the gains, in their order, are worth their seconds beside the tokens that a step
    is sure to emit.
    """
    if seconds.shape != (gains.size + 1,) or not np.all(seconds > 0.0):
        rule = f"must be {gains.size + 1} numbers > 0"
        raise InputError(rule, key="seconds", value=list(seconds.shape))
    gains = gains[: np.count_nonzero(gains > 0.0)]
    expected = sure + np.concatenate([[0.0], np.cumsum(gains)])
    cost = seconds[: expected.size]
    values = expected / cost if worth is None else expected - worth * cost
    return int(np.argmax(values))


def _checked(survival: Array) -> tuple[int, int]:
    rising = survival.ndim != 2 or np.any(np.diff(survival, axis=1) > 0.0)
    if rising or np.any((survival < 0.0) | (survival > 1.0)) or not survival.shape[0]:
        rule = "must be probabilities per request that never rise along a draft"
        raise InputError(rule, key="survival", value=list(survival.shape))
    return survival.shape[0], survival.shape[1]
