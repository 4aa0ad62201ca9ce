"""What times ranks that begin every iteration together?

Each rank's own part, and what all of them spend together on the tokens of all. Leaves out how the
ranks run (`simulator.cluster.ranks`) and where the seconds come from (`simulator.timing`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from simulator.loop.step_time import StepTimer

IDLE_TOKENS = 1  # with which a rank takes part that has nothing to do
Together = Callable[[Sequence[int]], float]


@runtime_checkable
class TabledTogether(Protocol):
    """Seconds that ranks spend together, as a sum of two look-ups.

    Attributes:
        by_mean_s: by the mean tokens of a rank.
        by_most_s: by the most tokens of any.
    """

    by_mean_s: NDArray[np.float64]
    by_most_s: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RankTimer:
    """Seconds of an iteration of ranks in step; a `StepTimer` of one of them whose peers are idle.

    Args:
        own: what one rank computes by itself.
        together_s: seconds that all wait for together, by the query tokens of every rank: tokens go
            to their experts, are computed and come back.
        ranks: how many there are.
    """

    own: StepTimer
    together_s: Together
    ranks: int

    def __call__(
        self,
        decode_requests: int,
        query_tokens: float,
        decode_context_tokens: float,
        prefill: Sequence[tuple[int, int]],
        longest_context: float = 0.0,
    ) -> float:
        """Seconds of one iteration: see `StepTimer`."""
        own = self.own(
            decode_requests, query_tokens, decode_context_tokens, prefill, longest_context
        )
        rows = round(decode_requests * query_tokens) + sum(new for new, _ in prefill)
        return own + self.together_s([rows, *[IDLE_TOKENS] * (self.ranks - 1)]) if rows else own
