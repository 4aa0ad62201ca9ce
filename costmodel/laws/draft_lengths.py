"""How long are drafts that differ from step to step, and what do the drafts of a batch add up to?

The distribution of draft tokens and draft passes over the steps of a request. Requests of a batch
are taken as independent: the verify pass has the sum of their rows, and drafting goes on until the
request with most passes is done. Leaves out seconds (`costmodel.answers.steps.dynamic_step`) and
where the distributions come from (`costmodel.laws.drafting`).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.passes.ops import Array, Number
from hardware_profiles.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DraftLengths:
    """Draft tokens and passes of a request's step.

    Args:
        tokens: probability of n draft tokens in the verify pass, n = 0..N; shape [N + 1], sums to
            1.
        passes: probability of p draft passes, p = 0..P; shape [P + 1], sums to 1.
        rows: mean tokens that a request reads in each pass, among those that take part in it; shape
            [P].
        ranked: candidates are ranked once more to choose those that are verified (dynamic trees).
        shared: one length holds for all requests of a batch's step, as a controller of the batch
            sets it.
        of_batch: pairs (share of steps, draft tokens per request) of the batch that divided its
            tokens among its requests; empty: requests are independent.

    Raises:
        InputError: probabilities that are negative or do not sum to 1, or rows that do not belong
            to passes.
    """

    tokens: Array
    passes: Array
    rows: Array
    ranked: bool = False
    shared: bool = False
    of_batch: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        for name in ("tokens", "passes"):
            shares = getattr(self, name)
            if shares.ndim != 1 or np.any(shares < 0.0) or not np.isclose(shares.sum(), 1.0):
                raise InputError(
                    "must be probabilities that sum to 1", key=name, value=shares.tolist()
                )
        if self.rows.shape != (self.passes.size - 1,) or np.any(self.rows < 0.0):
            raise InputError(
                "must hold one number >= 0 per pass", key="rows", value=self.rows.tolist()
            )

    @property
    def mean_tokens(self) -> float:
        """Draft tokens of a step."""
        return float(self.tokens @ np.arange(self.tokens.size))

    @property
    def mean_passes(self) -> float:
        """Draft passes of a request's step, were it alone."""
        return float(self.passes @ np.arange(self.passes.size))

    @property
    def reached(self) -> Array:
        """Probability that a request takes part in pass 1, 2, .. P; shape [P], never increasing."""
        return np.clip(1.0 - np.cumsum(self.passes)[:-1], 0.0, 1.0)

    def batch_runs(self, batch: Number) -> list[Array]:
        """Probability that any request of a batch takes part in pass 1, 2, .. P: each of the
        batch's shape.

        Args:
            batch: requests, > 0.
        """
        requests = (
            np.ones_like(batch, dtype=np.float64)
            if self.shared
            else np.asarray(batch, dtype=np.float64)
        )
        return [1.0 - (1.0 - share) ** requests for share in self.reached.tolist()]

    def batch_means(self, batch: Number) -> list[tuple[Array, Array]]:
        """Draft tokens per request of a batch, as (weight, mean) pairs.

        Returns:
            The two-point distribution with mean, variance and skewness of the mean of so many
            independent draws; of one request that has only two lengths, the distribution itself.
            `of_batch` where that is there.

        Args:
            batch: requests, > 0.
        """
        if self.of_batch:
            return [(np.full((), share), np.full((), mean)) for share, mean in self.of_batch]
        requests = (
            np.ones_like(batch, dtype=np.float64)
            if self.shared
            else np.asarray(batch, dtype=np.float64)
        )
        values = np.arange(self.tokens.size)
        mean = self.mean_tokens
        variance = float(self.tokens @ (values - mean) ** 2)
        if variance < 1e-12:
            return [(np.ones(()), np.full((), mean))]
        skewness = float(self.tokens @ (values - mean) ** 3) / variance**1.5
        deviation, half = np.sqrt(variance / requests), skewness / np.sqrt(requests) / 2.0
        root = np.sqrt(1.0 + half**2)
        weight = (1.0 - half / root) / 2.0
        high, low = mean + deviation * (half + root), mean + deviation * (half - root)
        return [(weight, high), (1.0 - weight, np.maximum(low, 0.0))]


def draft_lengths(
    tokens: NDArray[Any],
    passes: NDArray[Any],
    rows: NDArray[Any] | None = None,
    *,
    weights: NDArray[Any] | None = None,
    ranked: bool = False,
) -> DraftLengths:
    """The lengths that were counted over steps.

    Args:
        tokens: draft tokens of every step, whole numbers; shape [steps].
        passes: draft passes of every step; shape [steps].
        rows: tokens that every step reads in each of its passes, 0 in the others; shape [steps,
            passes]. None: one.
        weights: how often each step is taken; shape [steps]. None: once each.
        ranked: as in `DraftLengths`.

    Raises:
        InputError: no step.
    """
    often = np.ones(len(tokens)) if weights is None else np.asarray(weights, dtype=np.float64)
    if not often.sum() > 0.0:
        raise InputError("the trace has no decoding step to average over", key="steps", value=0)
    counts = np.bincount(np.asarray(passes, dtype=np.int64), often)
    most = counts.size - 1
    taking = np.maximum(np.cumsum(counts[::-1])[::-1][1:], np.finfo(np.float64).tiny)
    read = (
        np.ones(most)
        if rows is None
        else often @ np.asarray(rows, dtype=np.float64)[:, :most] / taking
    )
    return DraftLengths(
        tokens=np.bincount(np.asarray(tokens, dtype=np.int64), often) / often.sum(),
        passes=counts / often.sum(),
        rows=np.asarray(read, dtype=np.float64),
        ranked=ranked,
    )
