"""How often does a policy that was not recorded write what one token a pass writes?

Replay says too often: recorded states hold fewer wrong tokens than a bold live run would, and a
wrong token makes others wrong. How much too often is told by the recording itself: each anchor is
replayed without its own runs, and its odds of an agreeing token are compared with what it really
wrote. Between anchors, at half the distance, half of that shift of log odds is the estimate; none
and all of it are the bounds, which are heuristic. Of fourteen live rules of a small model replay
alone was .15 off in the mean and the estimate .05, and thirteen lay within the bounds. All prompts
lose the same share. Leaves out passes, which need no such shift.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Shares = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Agreement:
    """Share of P prompts' positions with the token that one token a pass puts there; NaN where that
    is unknown.

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


def lowered(replayed: Shares, shift: float) -> Agreement:
    """Agreement of a policy that no anchor followed.

    Args:
        replayed: float64[P], what replay says.
        shift: log odds by which replay overstates it (`walk.log_odds_shift`), >= 0.
    """
    mean = float(replayed.mean())
    if math.isnan(mean) or mean in (0.0, 1.0):
        return Agreement.exact(replayed)
    half, whole = (replayed * (_lowered(mean, part * shift) / mean) for part in (0.5, 1.0))
    return Agreement(estimate=half, lower=whole, upper=replayed)


def _lowered(share: float, log_odds: float) -> float:
    """A share between 0 and 1 at odds that are exp(log_odds) times lower."""
    return share / (share + (1.0 - share) * math.exp(log_odds))
