"""How far could tokens per step lie elsewhere, had other requests been recorded?

A bootstrap over whole requests, stratified by prompt kind: positions are never shuffled, so the
correlation of each text stays. Recordings hold few requests of unequal lengths, where resampling
them with replacement spreads too little: intervals that say 80 % hold for 58 to 79 % of recordings
of 5 to 80 requests. Requests are therefore weighed by normal deviates, by what each of them moves
the ratio when it is left out, and stretched to Student's distribution with as many degrees of
freedom as the lengths leave. Leaves out every other doubt (borrowed acceptance, sampling of the
texts, the cost model).

Reference: Bell & McCaffrey, Bias Reduction in Standard Errors for Linear Regression with
Multi-Stage Samples (2002), of a weighted mean: squared residuals over one minus their leverage, and
the degrees of freedom; Fay & Graubard, Small-Sample Adjustments for Wald-Type Tests (2001), for
strata; Efron & Tibshirani, An Introduction to the Bootstrap (1993), chapters 6 and 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError

Floats = NDArray[np.float64]


class Replayed(Protocol):
    """Counts per request, shape [requests], of steps that were taken (`Replay`) or are expected
    (`ExpectedReplay`).
    """

    @property
    def draft_tokens(self) -> int:
        """Of a step, root excluded."""

    @property
    def tokens(self) -> NDArray[np.int64]:
        """Tokens emitted by steps."""

    @property
    def steps(self) -> NDArray[Any]:
        """Steps, whole or expected."""

    @property
    def tokens_per_step(self) -> float:
        """Pooled over requests."""

    @property
    def proposal_ratio(self) -> float:
        """Share of steps with a proposal."""

    @property
    def drafted_per_step(self) -> float:
        """Draft tokens verified per step, averaged over all steps."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RequestDraws:
    """Other recordings of as many requests, drawn once and shared between replays so that
    comparisons are paired.

    Args:
        kinds: number of the prompt kind of every request, shape [requests].
        deviates: standard normal deviate of every request in every draw, shape [draws, requests].
    """

    kinds: NDArray[np.int64]
    deviates: Floats


def request_draws(
    kinds: Sequence[str], *, generator: np.random.Generator, draws: int = 1000
) -> RequestDraws:
    """Draws of the requests of a recording.

    Args:
        kinds: prompt kind of every request.
        generator: source of randomness.
        draws: number of draws, >= 1.

    Raises:
        InputError: no request, or no draw.
    """
    if not len(kinds) or draws < 1:
        raise InputError(
            "the bootstrap needs requests and at least one draw", key="draws", value=draws
        )
    _, numbers = np.unique(np.asarray(kinds, dtype=str), return_inverse=True)
    return RequestDraws(
        kinds=numbers.astype(np.int64), deviates=generator.standard_normal((draws, len(kinds)))
    )


def drawn_ratios(
    numerators: NDArray[Any],
    denominators: NDArray[Any],
    draws: RequestDraws,
    *,
    bounds: tuple[float, float],
) -> Floats:
    """Ratio of sums over requests, in every draw of them: the one source of intervals over
    requests.

    Every prompt kind keeps its number of requests. Kinds with a single request are drawn together,
    as a sample of kinds: alone they would never vary. Requests without a denominator tell nothing
    and are left out.

    Example:
        >>> draws = request_draws(["chat"] * 20, generator=np.random.default_rng(0))
        >>> tokens, steps = np.arange(20.0, 40.0), np.full(20, 10.0)
        >>> np.quantile(drawn_ratios(tokens, steps, draws, bounds=(1.0, 5.0)), [0.1, 0.5, 0.9]).round(2).tolist()
        [2.78, 2.95, 3.11]

    Args:
        numerators: of every request, shape [requests].
        denominators: of every request, >= 0, shape [requests].
        draws: of these requests.
        bounds: least and most that a ratio can be.

    Returns:
        float64[draws]; all alike where one request alone has a denominator.

    Raises:
        InputError: draws of another number of requests, or nothing to divide by.
    """
    if draws.kinds.size != denominators.size:
        rule = f"must be of as many requests ({denominators.size})"
        raise InputError(rule, key="draws", value=draws.kinds.size)
    is_defined = np.asarray(denominators) > 0
    if not is_defined.any():
        raise InputError("the trace has no decoding step to average over", key="steps", value=0)
    over, under = (
        np.asarray(values, dtype=np.float64)[is_defined] for values in (numerators, denominators)
    )
    stratum = _strata(draws.kinds[is_defined])
    moves = _moves(over, under, stratum)
    spread = float(np.sqrt(moves @ moves))
    ratio = float(over.sum() / under.sum())
    if not spread > 0.0:
        return np.full(len(draws.deviates), ratio)
    normal = draws.deviates[:, is_defined] @ (moves / spread)
    drawn = ratio + spread * _student(normal, _freedom(under, stratum))
    return np.asarray(np.clip(drawn, *bounds), dtype=np.float64)


def bootstrap_tokens_per_step(
    replay: Replayed,
    kinds: Sequence[str],
    *,
    generator: np.random.Generator,
    coverage: float = 0.8,
    draws: RequestDraws | None = None,
) -> tuple[float, float]:
    """Interval of the pooled tokens per step: percentiles over draws of the requests, stratified by
    kind.

    It covers which texts were recorded, and nothing else; a single request gives an interval of no
    width.

    Args:
        replay: what was replayed.
        kinds: prompt kind of every request.
        generator: source of randomness; unused where `draws` is there.
        coverage: probability that the interval holds, in (0, 1).
        draws: from `request_draws`, to share them.

    Returns:
        (low, high) in tokens per step.

    Raises:
        InputError: coverage out of range, lengths that differ, or no step at all.
    """
    if not 0 < coverage < 1:
        raise InputError("must lie strictly between 0 and 1", key="coverage", value=coverage)
    if len(kinds) != replay.steps.size:
        raise InputError(
            f"must have one entry per request ({replay.steps.size})", key="kinds", value=len(kinds)
        )
    ratios = drawn_tokens_per_step(replay, draws or request_draws(kinds, generator=generator))
    low, high = np.quantile(ratios, [(1 - coverage) / 2, (1 + coverage) / 2])
    return float(low), float(high)


def drawn_tokens_per_step(replay: Replayed, draws: RequestDraws) -> Floats:
    """Pooled tokens per step in every draw, float64[draws], within what a step can emit.

    Args:
        replay: tokens and steps by request.
        draws: of requests, with replacement.

    Raises:
        InputError: draws of another number of requests, or nothing has a step.
    """
    return drawn_ratios(replay.tokens, replay.steps, draws, bounds=(1.0, 1.0 + replay.draft_tokens))


def _strata(kinds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of the stratum of every request: its kind, or the one of all kinds with a single
    request.
    """
    _, stratum, sizes = np.unique(kinds, return_inverse=True, return_counts=True)
    single = sizes[stratum] == 1
    if single.sum() == 1 and single.size > 1:  # alone it joins the smallest kind
        single |= stratum == stratum[np.argmin(np.where(single, kinds.size + 1, sizes[stratum]))]
    return np.unique(np.where(single, sizes.size, stratum), return_inverse=True)[1].astype(np.int64)


def _moves(over: Floats, under: Floats, stratum: NDArray[np.int64]) -> Floats:
    """What every request moves the ratio, so that the sum of squares is the ratio's variance.

    Its kind's ratio without it counts for as many requests as before. The residual that this leaves
    is divided by one minus its leverage; the root of that leverage correction is taken back, so
    that of equal requests the variance is unbiased.
    """
    own = np.bincount(stratum)[stratum]
    more = own / np.maximum(own - 1.0, 1.0)

    def left(values: Floats) -> Floats:
        kind = np.bincount(stratum, values)[stratum]
        return np.asarray(values.sum() - kind + (kind - values) * more)

    left_over, left_under = left(over), left(under)
    able = (own > 1) & (left_under > 0.0)
    without = np.where(able, left_over / np.where(able, left_under, 1.0), over.sum() / under.sum())
    moved = (np.bincount(stratum, without) / np.bincount(stratum))[stratum] - without
    moves: Floats = moved * np.sqrt(np.where(able, left_under / under.sum() / more, 0.0))
    return moves


def _freedom(under: Floats, stratum: NDArray[np.int64]) -> float:
    """Degrees of freedom of the variance: by Satterthwaite, where requests' ratios spread alike
    whatever their length.

    Of a stratum with shares w of its denominators, squared residuals weigh w²/(1 - w), and have the
    covariance of residuals from a weighted mean; strata count by the square of their share.
    """
    mean = square = 0.0
    for values in (under[stratum == number] for number in range(int(stratum.max()) + 1)):
        if values.size < 2:
            continue
        share, w = values.sum() / under.sum(), values / values.sum()
        s, weight = float(w @ w), w**2 / (1.0 - w)
        p0, p1, p2 = (float(weight @ w**power) for power in range(3))
        pairs = s * s * p0 * p0 + 2.0 * p0 * p2 + 2.0 * p1 * p1 - 4.0 * s * p0 * p1
        diagonal = (1.0 - 2.0 * w + s) ** 2 - (s - 2.0 * w) ** 2
        mean += share**2 * float(weight @ (1.0 - 2.0 * w + s))
        square += share**4 * (pairs + float(weight**2 @ diagonal))
    return max(mean**2 / square, 1.0) if square > 0.0 else 1.0


def _student(normal: Floats, freedom: float) -> Floats:
    """Deviates of Student's distribution at the same probabilities as normal ones.

    Within 5 % of the quantiles at 0.1 and 0.9 from one degree of freedom on, within 0.2 % from
    three on.

    Reference: Abramowitz & Stegun, Handbook of Mathematical Functions (1964), 26.7.5.
    """
    x, v = normal, freedom
    near = x + (x**3 + x) / (4 * v) + (5 * x**5 + 16 * x**3 + 3 * x) / (96 * v**2)
    return np.asarray(near + (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / (384 * v**3))
