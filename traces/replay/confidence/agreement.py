"""How often does a policy that was not recorded write what one token a pass writes?

Replay says too often: recorded states hold fewer wrong tokens than a bold live run would, and a wrong token makes
others wrong. How much too often is told by the recording itself: each anchor is replayed without its own runs, and
its odds of an agreeing token are compared with what it really wrote. Between anchors, at half the distance, half of
that shift of log odds is the estimate; none and all of it are the bounds, which are heuristic. Of fourteen live rules
of a small model replay alone was .15 off in the mean and the estimate .05, and thirteen lay within the bounds. All
prompts lose the same share. Leaves out passes, which need no such shift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from traces.replay.confidence.anchors import Anchors

Shares = NDArray[np.float64]
_known: WeakKeyDictionary[Anchors, float] = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Agreement:
    """Share of P prompts' positions with the token that one token a pass puts there; NaN where that is unknown.

    Attributes:
        estimate: float64[P].
        lower, upper: float64[P], by the whole shift and by none; `estimate` where it is exact.
    """

    estimate: Shares
    lower: Shares
    upper: Shares

    @property
    def mean(self) -> float:
        """The estimate over prompts."""
        return float(self.estimate.mean())

    @property
    def words(self) -> str:
        """For a sentence; empty where it is unknown."""
        if math.isnan(self.mean):
            return ""
        low, high = float(self.lower.mean()), float(self.upper.mean())
        spread = f" ({low:.0%} to {high:.0%})" if low < high else ""
        return f"{self.mean:.1%}{spread} of the tokens those of one a pass"

    @classmethod
    def exact(cls, shares: Shares) -> Agreement:
        """Of a text that live decoding would write."""
        return cls(estimate=shares, lower=shares, upper=shares)


def unrecorded(states: Anchors, replayed: Shares) -> Agreement:
    """Agreement of a policy that no anchor followed.

    Args:
        states: the anchors.
        replayed: float64[P], what replay says.
    """
    if np.isnan(replayed).all():
        return Agreement.exact(replayed)
    mean, shift = float(replayed.mean()), log_odds_shift(states)
    if mean in (0.0, 1.0):
        return Agreement.exact(replayed)
    half, whole = (replayed * (_lowered(mean, part * shift) / mean) for part in (0.5, 1.0))
    return Agreement(estimate=half, lower=whole, upper=replayed)


def log_odds_shift(states: Anchors) -> float:
    """By how much the log odds of a token that agrees are too high, replayed without the policy's own runs.

    The mean of anchors, none counted below 0. 0 where there is nothing to learn it from: no run of one token a pass,
    or no other anchor of a rule that nearest states can answer for.
    """
    if states not in _known:
        found = [shift for place in range(len(states.policies)) if (shift := _left_out(states, place)) is not None]
        _known[states] = float(np.mean(found)) if found else 0.0
    return _known[states]


def _left_out(states: Anchors, place: int) -> float | None:
    """The shift of one anchor, or None where it says nothing."""
    from traces.replay.confidence.rules import closed_form_passes
    from traces.replay.confidence.walk import static_run, usable_runs, walked

    policy = states.policies[place]
    own, static = states.run_of(policy), static_run(states, policy)
    by_number = closed_form_passes(policy, states.canvas_tokens) is not None
    if own is None or static is None or by_number or policy.rule.own_anchor or policy.commit == "self_verified":
        return None
    others = ~np.isin(np.arange(len(states.policy_of_run)), own)
    wrote = states.final_ids[static]
    replayed = float((walked(states, policy, usable_runs(states, None) & others).tokens == wrote).mean())
    true = float((states.final_ids[own] == wrote).mean())
    if not 0.0 < true < 1.0 or not 0.0 < replayed < 1.0:
        return None
    return max(0.0, math.log(replayed / (1.0 - replayed)) - math.log(true / (1.0 - true)))


def _lowered(share: float, log_odds: float) -> float:
    """A share between 0 and 1 at odds that are exp(log_odds) times lower."""
    return share / (share + (1.0 - share) * math.exp(log_odds))
