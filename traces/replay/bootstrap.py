"""How far could tokens per step lie elsewhere, had other requests been recorded?

A bootstrap over whole requests, stratified by prompt kind: positions are never shuffled, so the correlation
of each text stays. Leaves out every other doubt (borrowed acceptance, sampling of the texts, the cost model).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError


class Replayed(Protocol):
    """Counts per request, shape [requests], of steps that were taken (`Replay`) or are expected (`ExpectedReplay`)."""

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


def resample_counts(
    kinds: Sequence[str], *, generator: np.random.Generator, resamples: int = 1000
) -> NDArray[np.int32]:
    """How often each request is drawn, per resample: the bootstrap's multiplicities.

    Every prompt kind keeps its number of requests. Kinds with a single request are drawn together: alone they
    would never vary. Hand the result to several intervals so that they share their resamples.

    Args:
        kinds: prompt kind of every request.
        generator: source of randomness.
        resamples: number of resamples, >= 1.

    Returns:
        int32[resamples, r]; every row sums to r.

    Raises:
        InputError: no request, or no resample.

    Reference: Efron & Tibshirani, An Introduction to the Bootstrap (1993), chapters 6 and 8.
    """
    if not len(kinds) or resamples < 1:
        raise InputError("the bootstrap needs requests and at least one resample", key="resamples", value=resamples)
    _, stratum = np.unique(np.asarray(kinds, dtype=str), return_inverse=True)
    sizes = np.bincount(stratum)
    single = sizes[stratum] == 1
    if single.sum() == 1:
        single |= stratum == stratum[np.argmin(np.where(single, len(kinds) + 1, sizes[stratum]))]
    stratum[single] = sizes.size
    counts = np.zeros((resamples, len(kinds)), dtype=np.int32)
    for each in np.unique(stratum):
        members = np.flatnonzero(stratum == each)
        cells = generator.integers(members.size, size=(resamples, members.size))
        cells += members.size * np.arange(resamples)[:, None]
        drawn = np.bincount(cells.reshape(-1), minlength=cells.size)
        counts[:, members] = drawn.reshape(cells.shape)
    return counts


def bootstrap_tokens_per_step(
    replay: Replayed,
    kinds: Sequence[str],
    *,
    generator: np.random.Generator,
    coverage: float = 0.8,
    resamples: int = 1000,
    counts: NDArray[np.int32] | None = None,
) -> tuple[float, float]:
    """Interval of the pooled tokens per step: percentiles of the bootstrap over requests, stratified by kind.

    It covers which texts were recorded, and nothing else; a single request gives an interval of no width.

    Args:
        replay: what was replayed.
        kinds: prompt kind of every request.
        generator: source of randomness; unused where `counts` is given.
        coverage: probability that the interval holds, in (0, 1).
        resamples: number of resamples.
        counts: multiplicities from `resample_counts`, to share resamples.

    Returns:
        (low, high) in tokens per step.

    Raises:
        InputError: coverage out of range, lengths that differ, or no step at all.
    """
    if not 0 < coverage < 1:
        raise InputError("must lie strictly between 0 and 1", key="coverage", value=coverage)
    if len(kinds) != replay.steps.size:
        raise InputError(f"must have one entry per request ({replay.steps.size})", key="kinds", value=len(kinds))
    if counts is None:
        counts = resample_counts(kinds, generator=generator, resamples=resamples)
    ratios = resampled_tokens_per_step(replay, counts)
    low, high = np.quantile(ratios, [(1 - coverage) / 2, (1 + coverage) / 2])
    return float(low), float(high)


def resampled_tokens_per_step(replay: Replayed, counts: NDArray[np.int32] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Pooled tokens per step of every resample, float64[resamples]; resamples without a step are left out.

    Raises:
        InputError: the counts are for another number of requests, or nothing has a step.
    """
    if counts.ndim != 2 or counts.shape[1] != replay.steps.size:
        raise InputError(f"must have one column per request ({replay.steps.size})", key="counts", value=counts.shape)
    weights = counts.astype(np.float64)
    tokens, steps = weights @ replay.tokens, weights @ replay.steps
    if not steps.any():
        raise InputError("the trace has no decoding step to average over", key="steps", value=0)
    ratios: NDArray[np.float64] = tokens[steps > 0] / steps[steps > 0]
    return ratios
