"""What do users of a simulated service see while it is neither filling nor draining?

From the arrival that ends the warm-up to the last one. Requests that arrive in between are waited for, those that end
in between are counted. Leaves out the whole run (`simulator.results.metrics`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from simulator.results.metrics import SimulationResult, distribution

WARM_UP_RATIO = 0.2  # of the requests
_GROWN_RATIO = 1.5
_GROWN_REQUESTS = 4


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SteadyWindow:
    """A simulated service between warm-up and last arrival.

    Args:
        begin_s: when the warm-up ends.
        end_s: when the last request arrives.
        arrived: requests that arrive within.
        goodput_per_s: requests a second that end within, and within the limits; None: no time passes.
        tokens_per_s: tokens a second of the requests that end within; None: no time passes.
        ttft_s: mean and percentiles of the requests that arrive within.
        tpot_s: of the same.
        in_flight: requests that have arrived and not ended, when it begins and when it ends.
        good_ratio: share of the requests that arrive within which finish within the limits.
    """

    begin_s: float
    end_s: float
    arrived: int
    goodput_per_s: float | None
    tokens_per_s: float | None
    ttft_s: Mapping[str, float | None]
    tpot_s: Mapping[str, float | None]
    in_flight: tuple[int, int]
    good_ratio: float

    @property
    def is_growing(self) -> bool:
        """Whether so many more requests are in flight at the end that the load is not sustained."""
        before, after = self.in_flight
        return after > _GROWN_RATIO * before + _GROWN_REQUESTS


def steady_window(
    result: SimulationResult, *, slo_ttft_s: float | None = None, slo_tpot_s: float | None = None
) -> SteadyWindow:
    """The steady part of a simulation.

    Args:
        result: of a simulation.
        slo_ttft_s: limit that goodput counts by; None: no limit.
        slo_tpot_s: limit of the time per output token; None: no limit.
    """
    arrivals = np.sort(result.arrival_s)
    begin = float(arrivals[int(WARM_UP_RATIO * (arrivals.size - 1))])
    end = float(arrivals[-1])
    good, kept = result.finished, result.within(ttft_s=slo_ttft_s, tpot_s=slo_tpot_s)
    inside = good & (result.last_token_s >= begin) & (result.last_token_s <= end)
    tokens = float(result.output_tokens[inside].sum())
    inside = inside & kept
    came = (result.arrival_s >= begin) & (result.arrival_s <= end)
    ended_s = np.where(good, result.last_token_s, result.arrival_s)  # the rejected and failed are in no one's way
    flying = [int(((result.arrival_s <= at) & (ended_s > at)).sum()) for at in (begin, end)]
    return SteadyWindow(
        begin_s=begin, end_s=end, arrived=int(came.sum()),
        goodput_per_s=float(inside.sum()) / (end - begin) if end > begin else None,
        tokens_per_s=tokens / (end - begin) if end > begin else None,
        ttft_s=distribution(result.ttft_s[came & good]), tpot_s=distribution(result.tpot_s[came & good]),
        in_flight=(flying[0], flying[1]), good_ratio=float(kept[came].mean()),
    )  # fmt: skip
