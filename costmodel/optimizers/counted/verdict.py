"""Should what runs now be changed, and is what was counted enough to say so?

At every batch and context the draft length in use stands beside the best of those that counters
tell of, with what lengths that were never drafted could bring at most. Leaves out what to measure
next (`next_run`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from costmodel.answers.estimate import step_cost
from costmodel.answers.uncertainty import draw_steps, interval_holding
from costmodel.answers.workload import Limits
from costmodel.laws.claims import rate_claim
from costmodel.optimizers.allowed import Contender
from costmodel.optimizers.counted.lengths import KnownLength
from costmodel.optimizers.drafters.sources import Source
from costmodel.optimizers.pricing import evaluate
from costmodel.passes.ops import Array

Answer = Literal["keep", "change", "unsure"]
TOLERANCE_RATIO = 0.01
"""Speed that nobody changes a server for, nor measures longer for: a share of tokens per second."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The draft length in use beside the best at one batch and context; ratios are shares of tokens
    per second.

    Args:
        batch: requests.
        context: cached tokens per request.
        in_use: K that runs.
        in_use_tokens_per_s: predicted for it; 0 where it is not allowed here.
        best: K of the fastest of the lengths that counters tell of.
        best_tokens_per_s: predicted for it.
        gain_ratio: what the best gains on the length in use; infinite where that is not allowed.
        gain_interval: 80 % interval of the gain, by counts and cost model together.
        gain_interval_of_counts: by counts alone, as if the cost model were exact.
        faster_probability: that the best is faster than the length in use.
        counts_loss_ratio: what the best may lose against another length that was counted, since few
            steps were: the 90th percentile.
        unknown: K, of those that counters do not tell, that could gain most on the best; None where
            none could.
        unknown_gain_ratio: what that could gain at most.
        law_best: K that would be fastest if acceptance went on as it was.
        law_gain_ratio: what that gains on the best.
    """

    batch: int
    context: int
    in_use: int
    in_use_tokens_per_s: float
    best: int
    best_tokens_per_s: float
    gain_ratio: float
    gain_interval: tuple[float, float]
    gain_interval_of_counts: tuple[float, float]
    faster_probability: float
    counts_loss_ratio: float
    unknown: int | None
    unknown_gain_ratio: float
    law_best: int
    law_gain_ratio: float

    @property
    def answer(self) -> Answer:
        """Keep the length in use where nothing counted gains enough; change it where the gain is
        beyond doubt.
        """
        if self.best == self.in_use or self.gain_ratio < TOLERANCE_RATIO:
            return "keep"
        return "change" if self.gain_interval[0] > 0.0 else "unsure"

    @property
    def suffices(self) -> bool:
        """Whether more counts could move tokens per second by no more than the tolerance."""
        return max(self.counts_loss_ratio, self.unknown_gain_ratio) <= TOLERANCE_RATIO


@dataclass(frozen=True, kw_only=True, slots=True)
class Speeds:
    """Tokens per second of every length, shape [lengths, batches, contexts]; -inf where one is not
    allowed.

    Args:
        point: at the tokens per step that were counted, or that their law gives.
        least: at the fewest that they can be.
        most: at the most.
    """

    point: Array
    least: Array
    most: Array


def speeds(
    contender: Contender,
    source: Source,
    lengths: Sequence[KnownLength],
    b: Array,
    c: Array,
    limits: Limits,
) -> Speeds:
    """How fast every length is, at what is known of its tokens per step.

    Args:
        contender: the setting.
        source: the counters.
        lengths: from `known_lengths`.
        b: batches; broadcasts with `c`.
        c: contexts.
        limits: latency limits.
    """
    assert source.rates is not None
    chains = [rate_claim(source.entry, source.rates, length.draft_tokens) for length in lengths]

    def at(tokens: Sequence[float]) -> Array:
        candidates = [
            replace(a, tokens_per_step=mean) for a, mean in zip(chains, tokens, strict=True)
        ]
        held = replace(contender, candidates=candidates)
        return evaluate(held, batch=b, context=c, limits=limits).value

    return Speeds(
        point=at([length.tokens_per_step for length in lengths]),
        least=at([length.least for length in lengths]),
        most=at([length.most for length in lengths]),
    )


def verdicts(
    contender: Contender,
    source: Source,
    lengths: Sequence[KnownLength],
    in_use: int,
    *,
    batches: Sequence[int],
    contexts: Sequence[int],
    limits: Limits | None = None,
    generator: np.random.Generator,
) -> list[Verdict]:
    """One verdict for every batch and context at which anything is allowed.

    Args:
        contender: of the counters' drafter.
        source: the counters.
        lengths: from `known_lengths`.
        in_use: K that runs.
        batches: requests.
        contexts: cached tokens per request.
        limits: latency limits.
        generator: of the cost model's errors.
    """
    b, c = (
        np.array(batches, dtype=np.float64)[:, None],
        np.array(contexts, dtype=np.float64)[None, :],
    )
    known_speeds = speeds(contender, source, lengths, b, c, limits or Limits())
    longest = max(length.draft_tokens for length in lengths if length.how != "beyond")
    return [
        _verdict(
            contender,
            source,
            lengths,
            (known_speeds, row, column),
            (batch, context),
            in_use,
            longest,
            generator,
        )
        for column, context in enumerate(contexts)
        for row, batch in enumerate(batches)
        if np.isfinite(known_speeds.point[: longest + 1, row, column]).any()
    ]


def _verdict(
    contender: Contender,
    source: Source,
    lengths: Sequence[KnownLength],
    place: tuple[Speeds, int, int],
    at: tuple[int, int],
    in_use: int,
    longest: int,
    generator: np.random.Generator,
) -> Verdict:
    (known_speeds, row, column), (batch, context) = place, at
    point, least, most = (
        rates[:, row, column]
        for rates in (known_speeds.point, known_speeds.least, known_speeds.most)
    )
    best = int(np.argmax(point[: longest + 1]))
    drawn = np.stack(
        [v * k.samples / k.tokens_per_step for v, k in zip(point, lengths, strict=True)]
    )  # [K, draws]
    counted = drawn[: longest + 1]
    of_counts = (
        drawn[best] / drawn[in_use] - 1.0
        if np.isfinite(point[in_use])
        else np.full(counted.shape[1], np.inf)
    )
    gain, together = np.inf, of_counts
    if np.isfinite(point[in_use]):
        gain = float(point[best] / point[in_use] - 1.0)
        together = (1.0 + of_counts) * _model_errors(
            contender, source, in_use, best, at, of_counts.size, generator
        ) - 1
        together = together + min(float(least[best] / point[best]) - 1.0, 0.0) * (best != in_use)
    unsure = [
        k
        for k, length in enumerate(lengths)
        if length.how != "counted" and k != best and np.isfinite(point[k])
    ]
    unknown = max(unsure, key=lambda k: most[k], default=None)
    could = 0.0 if unknown is None else max(float(most[unknown] / point[best] - 1.0), 0.0)
    return Verdict(
        batch=batch,
        context=context,
        in_use=in_use,
        best=best,
        gain_ratio=gain,
        in_use_tokens_per_s=max(float(point[in_use]), 0.0),
        best_tokens_per_s=float(point[best]),
        gain_interval=_bounds(interval_holding(gain, together)),
        gain_interval_of_counts=_bounds(interval_holding(gain, of_counts)),
        faster_probability=float(np.mean(together > 0.0)) if best != in_use else 0.5,
        counts_loss_ratio=float(np.quantile(counted.max(axis=0) / counted[best] - 1.0, 0.9)),
        unknown=unknown if could > 0.0 else None,
        unknown_gain_ratio=could,
        law_best=int(np.argmax(point)),
        law_gain_ratio=float(point.max() / point[best] - 1.0),
    )


def _model_errors(
    contender: Contender,
    source: Source,
    in_use: int,
    best: int,
    at: tuple[int, int],
    draws: int,
    generator: np.random.Generator,
) -> Array:
    """Draws of how far the cost model may err in the ratio of two lengths' speeds, around 1."""
    assert source.rates is not None
    setting, (batch, context) = contender.setting, at
    if in_use == best:
        return np.ones(draws)
    one, other = (
        step_cost(setting, rate_claim(source.entry, source.rates, k), batch=batch, context=context)
        for k in sorted((in_use, best))
    )
    residuals, used = setting.device.constants.residual_ratio, setting.overhead
    drawn = draw_steps(one, other, residuals, used, generator=generator, draws=draws)
    errors = (drawn.plain_s / drawn.step_s)[:, 0] * float(other.total_s / one.total_s)
    return np.asarray(errors if best > in_use else 1.0 / errors)


def _bounds(interval: tuple[Array, Array]) -> tuple[float, float]:
    return float(interval[0]), float(interval[1])
