"""How many tokens a step would each draft length emit, as far as an engine's counters tell?

Counters hold for the draft length in use. Shorter chains follow from rates by position, longer ones
were never drafted: of those it is known what they emit at least and at most. Leaves out what a step
costs (`verdict`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from costmodel.answers.uncertainty import HALF_WIDTH_SIGMA, interval_holding
from costmodel.laws.acceptance import DepthRates
from costmodel.laws.claims import rate_claim
from costmodel.method import Method
from costmodel.passes.ops import Array
from traces.kinds.summary import Summary

How = Literal["counted", "mixed", "between", "beyond"]
DRAWS = 2000
STEPS_A_SAMPLE, STEPS_A_SAMPLE_OF_LOOKUPS = 4.0, 10.0
"""Counted steps that tell as much as one independent step, since steps of one text are alike: the
variance of tokens per step between requests over that of independent steps, in the median of the
shipped recordings of level 3 with 50 to 125 steps a request. It is 2.8 to 5.7 for draft models and
heads, 6.4 to 15 for look-ups in the text."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class KnownLength:
    """What is known of chains of one length.

    Args:
        draft_tokens: K.
        tokens_per_step: emitted over all steps: counted, or by the law that goes through what was.
        least: what they emit at least, whatever the law; sampling error apart.
        most: what they emit at most, whatever the law; sampling error apart.
        samples: draws of `tokens_per_step` had other steps been counted, [draws], the same draws
            for all lengths.
        how: `counted` by position; of `mixed` lengths, where counts below the longest are too low;
            `between` none and the only length whose mean is known; or `beyond` what was ever
            drafted.
    """

    draft_tokens: int
    tokens_per_step: float
    least: float
    most: float
    samples: Array
    how: How

    @property
    def interval(self) -> tuple[float, float]:
        """80 % interval of the tokens per step, sampling error alone."""
        low, high = interval_holding(self.tokens_per_step, self.samples)
        return float(low), float(high)


def known_lengths(
    method: Method,
    rates: DepthRates,
    counts: Summary,
    *,
    longest: int,
    generator: np.random.Generator,
) -> list[KnownLength]:
    """Chains of 0 to `longest` tokens, as far as counts tell.

    Args:
        method: that made the drafts.
        rates: as `counted_rates` reads the counts.
        counts: level 0.
        longest: K of the longest chain, at least that in use.
        generator: of the draws.
    """
    used = rates.measured or len(rates.by_depth)
    drawn = _drawn_rates(rates, used, independent_steps(method, counts), generator)
    known_chains = []
    for draft_tokens in range(longest + 1):
        point = rate_claim(method, rates, draft_tokens).tokens_per_step
        law = 1.0 + rates.proposal_ratio * float(np.sum(rates.at(draft_tokens)))
        kept = drawn[:, : min(draft_tokens, used)].sum(axis=1)
        if draft_tokens > used:
            kept = kept + drawn[:, -1] * np.resize(_further(rates, used, draft_tokens), len(drawn))
        least, most, how = _bounds(rates, counts, draft_tokens, used, point)
        known_chains.append(
            KnownLength(
                draft_tokens=draft_tokens,
                tokens_per_step=point,
                least=least,
                most=most,
                how=how,
                samples=point + (1.0 + rates.proposal_ratio * kept - law),
            )
        )
    return known_chains


def _further(rates: DepthRates, used: int, draft_tokens: int) -> Array:
    """Tokens accepted beyond those in use, of steps that accepted all of these, in the ways it may
    go on.
    """
    last = rates.at(used)[-1]
    ways = rates.cases(draft_tokens) or (rates,)
    return np.array(
        [sum(way.at(draft_tokens)[used:]) / last if last > 0.0 else 0.0 for way in ways]
    )


def independent_steps(method: Method, counts: Summary) -> float:
    """Independent steps that counted ones are worth; 0 where drafts were not counted."""
    alike = STEPS_A_SAMPLE_OF_LOOKUPS if method.may_propose_nothing else STEPS_A_SAMPLE
    return counts.drafts / alike


def spread_ratio(rates: Sequence[float], tokens_per_step: float, independent: float) -> float:
    """Half width of the 80 % interval of a mean over steps, as a share of the tokens per step.

    Args:
        rates: P(the first d draft tokens are all accepted), d = 1 to K, over all steps.
        tokens_per_step: their sum and 1.
        independent: steps, > 0.
    """
    depths = np.arange(1, len(rates) + 1)
    second = float(
        np.sum((2 * depths - 1) * np.asarray(rates))
    )  # of the accepted tokens: sum over d of (2d - 1) S_d
    variance = max(second - (tokens_per_step - 1.0) ** 2, 0.0)
    return float(HALF_WIDTH_SIGMA * np.sqrt(variance / independent) / tokens_per_step)


def _drawn_rates(
    rates: DepthRates, used: int, independent: float, generator: np.random.Generator
) -> Array:
    """Rates by position had other steps been counted, [draws, K]: how many steps accepted 0, 1, ..
    K tokens.
    """
    unconditional = [1.0, *rates.at(used), 0.0]
    shares = np.array([before - after for before, after in pairwise(unconditional)])
    drawn = generator.standard_gamma(
        np.maximum(independent * shares, 0.0) + 1.0 / shares.size, (DRAWS, shares.size)
    )
    drawn /= drawn.sum(axis=1, keepdims=True)
    return np.asarray(1.0 - np.cumsum(drawn, axis=1)[:, :-1])


def _bounds(
    rates: DepthRates, counts: Summary, draft_tokens: int, used: int, point: float
) -> tuple[float, float, How]:
    """What chains of a length emit at least and at most, and how that is known."""
    share, by_position = rates.proposal_ratio, rates.at(used)
    if draft_tokens == 0:
        return 1.0, 1.0, "counted"
    total = float(np.sum(by_position))
    if (
        rates.tokens_per_step is not None
    ):  # a mean alone: rates that never increase may bring it early or evenly
        within = min(draft_tokens, used)
        least = 1.0 + share * total * within / used
        most = 1.0 + share * (
            min(float(within), total) + total / used * max(draft_tokens - used, 0)
        )
        if draft_tokens == used:
            return point, point, "counted"
        least = max(least, 1.0 + share * total) if draft_tokens > used else least
        return min(least, point), max(most, point), "between" if draft_tokens < used else "beyond"
    reached = _most_rates(counts, by_position)
    if draft_tokens <= used:
        unseen = share * float(np.sum(reached[:draft_tokens]) - np.sum(by_position[:draft_tokens]))
        return (point, point + unseen, "mixed") if unseen > 1e-9 else (point, point, "counted")
    most = 1.0 + share * (float(np.sum(reached)) + reached[-1] * (draft_tokens - used))
    return 1.0 + share * total, max(point, most), "beyond"


def _most_rates(counts: Summary, rates: Sequence[float]) -> list[float]:
    """The most that rates by position can be where some drafts were shorter than the longest.

    A count at position d was made in the steps that drafted so deep: at least (T - (d - 1) N) / (K
    - d + 1) of the N that drafted T tokens in all. Lengths are taken not to depend on what will be
      accepted.
    """
    steps, drafted, longest = counts.drafts, counts.draft_tokens, len(rates)
    if not steps or not drafted or drafted >= steps * longest:
        return list(rates)
    highest: list[float] = []
    for depth, rate in enumerate(rates, 1):
        fewest = max((drafted - (depth - 1) * steps) / (longest - depth + 1), rate * steps, 1e-9)
        fewest = steps if depth == 1 else fewest
        highest.append(min(rate * steps / min(fewest, steps), highest[-1] if highest else 1.0))
    return highest
