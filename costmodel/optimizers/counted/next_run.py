"""What should an engine run for a while, so that its counters tell what they do not tell yet?

Names a draft length, for how many steps, what is known afterwards, and what it costs meanwhile.
Leaves out errors of the cost model, which only times can mend.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from costmodel.laws.acceptance import DepthRates
from costmodel.method import Method
from costmodel.optimizers.counted.lengths import KnownLength, independent_steps, spread_ratio
from costmodel.optimizers.counted.verdict import TOLERANCE_RATIO, Verdict
from traces.kinds.summary import Summary

Reason = Literal["never drafted", "mean alone", "mixed lengths", "few steps", "cost model"]


@dataclass(frozen=True, kw_only=True, slots=True)
class NextRun:
    """One measurement.

    Args:
        draft_tokens: K to run.
        steps: with a draft, to be counted at that K; 0 where the run is for times, not counts.
        batch: at which it matters most.
        context: at which it matters most.
        reason: what is not known.
        could_gain_ratio: share of tokens per second that knowing it could gain there, at most.
        law_gain_ratio: what it gains if acceptance goes on as it was; None where nothing says.
        interval_ratio: half width of the 80 % interval of its tokens per step afterwards, as a
            share of them.
    """

    draft_tokens: int
    steps: int
    batch: int
    context: int
    reason: Reason
    could_gain_ratio: float
    law_gain_ratio: float | None
    interval_ratio: float


def next_runs(
    method: Method,
    rates: DepthRates,
    counts: Summary,
    lengths: Sequence[KnownLength],
    verdicts: Sequence[Verdict],
) -> list[NextRun]:
    """What to measure next, what could gain most first; empty where counters tell enough.

    Args:
        method: that made the drafts.
        rates: as counted.
        counts: level 0.
        lengths: what is known of each draft length.
        verdicts: at every batch and context that matters.
    """
    runs: list[NextRun] = []
    unknown = [verdict for verdict in verdicts if verdict.unknown_gain_ratio > TOLERANCE_RATIO]
    if unknown:
        worst = max(
            unknown, key=lambda verdict: (verdict.law_gain_ratio, verdict.unknown_gain_ratio)
        )
        assert worst.unknown is not None
        runs.append(_unknown_length(method, rates, lengths, worst))
    few = [verdict for verdict in verdicts if verdict.counts_loss_ratio > TOLERANCE_RATIO]
    if few:
        worst = max(few, key=lambda verdict: verdict.counts_loss_ratio)
        runs.append(_more_steps(rates, counts, lengths, worst))
    doubtful = [verdict for verdict in verdicts if verdict.answer == "unsure" and verdict.suffices]
    if doubtful and not runs:
        worst = max(doubtful, key=lambda verdict: verdict.gain_ratio)
        runs.append(
            NextRun(
                draft_tokens=worst.best,
                steps=0,
                batch=worst.batch,
                context=worst.context,
                reason="cost model",
                could_gain_ratio=max(worst.gain_interval[1], 0.0),
                law_gain_ratio=worst.gain_ratio,
                interval_ratio=TOLERANCE_RATIO,
            )
        )
    return runs


def steps_for(method: Method, rates: DepthRates, draft_tokens: int, ratio: float) -> int:
    """Steps to count at a draft length until its tokens per step are known to a share of them, two
    digits.

    Args:
        method: that drafts.
        rates: what is expected.
        draft_tokens: K >= 1.
        ratio: half width of the 80 % interval wanted, > 0.
    """
    kept = [rates.proposal_ratio * rate for rate in rates.at(draft_tokens)]
    alone = spread_ratio(kept, 1.0 + sum(kept), 1.0)
    steps = (alone / ratio) ** 2 / independent_steps(method, Summary(drafts=1))
    return _rounded_up(max(steps, 100.0))


def _unknown_length(
    method: Method, rates: DepthRates, lengths: Sequence[KnownLength], at: Verdict
) -> NextRun:
    """Run what could gain most; of longer drafts one more than would be best if acceptance went on
    as it was.
    """
    assert at.unknown is not None
    length = lengths[at.unknown]
    used = max(entry.draft_tokens for entry in lengths if entry.how != "beyond")
    draft_tokens = at.unknown
    reason: Reason = "never drafted"
    if length.how == "beyond":
        draft_tokens = min(max(at.law_best, used) + 1, lengths[-1].draft_tokens)
    else:
        reason = "mixed lengths" if length.how == "mixed" else "mean alone"
    return NextRun(
        draft_tokens=draft_tokens,
        steps=steps_for(method, rates, draft_tokens, TOLERANCE_RATIO),
        batch=at.batch,
        context=at.context,
        reason=reason,
        could_gain_ratio=at.unknown_gain_ratio,
        law_gain_ratio=at.law_gain_ratio,
        interval_ratio=TOLERANCE_RATIO,
    )


def _more_steps(
    rates: DepthRates, counts: Summary, lengths: Sequence[KnownLength], at: Verdict
) -> NextRun:
    """Run on as now: intervals shrink with the root of the steps counted."""
    missing_drafts = counts.drafts * ((at.counts_loss_ratio / TOLERANCE_RATIO) ** 2 - 1.0)
    used = rates.measured or len(rates.by_depth)
    low, high = lengths[used].interval
    half = (high - low) / 2.0 / lengths[used].tokens_per_step
    return NextRun(
        draft_tokens=used,
        steps=_rounded_up(max(missing_drafts, 100.0)),
        batch=at.batch,
        context=at.context,
        reason="few steps",
        could_gain_ratio=at.counts_loss_ratio,
        law_gain_ratio=None,
        interval_ratio=half * TOLERANCE_RATIO / at.counts_loss_ratio,
    )


def _rounded_up(count: float) -> int:
    """The next number of two digits.

    >>> _rounded_up(1234.5)
    1300
    """
    unit = float(10 ** max(math.floor(math.log10(count)) - 1, 0))
    return int(math.ceil(count / unit) * unit)
