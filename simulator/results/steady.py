"""What do users of a simulated service see while it is neither filling nor draining?

From the arrival that ends the warm-up to the last one. Requests that arrive in between are waited
for, those that end in between are counted. Means of successive batches of requests say how sure a
share is and whether a backlog grows, if batches last longer than requests stay. Leaves out the
whole run (`simulator.results.metrics`).

Reference: Law and Carson 1979, "A sequential procedure for determining the length of a steady-state
simulation", on batch means and on lengthening a run until they say enough.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from costmodel.answers.workload import NO_LIMITS, Limits
from simulator.results.metrics import SimulationResult, distribution

WARM_UP_RATIO = 0.2  # of the requests
BATCHES = 16  # of equally many requests; few enough for each to be long (Schmeiser 1982: 10 to 30)
_T_80 = 1.341  # 0.9 quantile of Student's law with 15 degrees of freedom: an 80 % interval
_T_TREND = 2.977  # 0.995 quantile with 14: a trend that one run in 200 without one would show
_TREND_RATIO = 0.05  # of the requests in flight, beyond which a backlog has grown; ASSUMED


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SteadyWindow:
    """A simulated service between warm-up and last arrival.

    Args:
        begin_s: when the warm-up ends.
        end_s: when the last request arrives.
        arrived: requests that arrive within.
        goodput_per_s: requests a second that end within, and within the limits; None: no time
            passes.
        tokens_per_s: tokens a second of the requests that end within; None: no time passes.
        ttft_s: mean and percentiles of the requests that arrive within.
        tpot_s: of the same.
        e2e_s: of the same.
        in_flight: requests that have arrived and not ended, when it begins and when it ends.
        good_ratio: share of the requests that arrive within which finish within the limits.
        good_half_width: half of the 80 % interval of that share, from means of batches.
        in_flight_by_batch: requests in flight when those of a batch arrive, on average, batch after
            batch.
        stays: mean times that requests stay, of which a batch lasts so many.
    """

    begin_s: float
    end_s: float
    arrived: int
    goodput_per_s: float | None
    tokens_per_s: float | None
    ttft_s: Mapping[str, float | None]
    tpot_s: Mapping[str, float | None]
    e2e_s: Mapping[str, float | None]
    in_flight: tuple[int, int]
    good_ratio: float
    good_half_width: float
    in_flight_by_batch: tuple[float, ...]
    stays: float

    @property
    def is_growing(self) -> bool:
        """Whether more requests are in flight in the second half than in the first, beyond chance:
        no steady state.
        """
        half = len(self.in_flight_by_batch) // 2
        if not half:
            return False
        early, late = (
            np.array(self.in_flight_by_batch[:half]),
            np.array(self.in_flight_by_batch[-half:]),
        )
        grown, least = float(late.mean() - early.mean()), _TREND_RATIO * float(early.mean())
        error = float(np.sqrt((early.var(ddof=1) + late.var(ddof=1)) / half))
        return grown > max(least, _T_TREND * error)

    def is_long_enough(self, share: float) -> bool:
        """Whether the run says on which side of a share its steady state lies.

        Args:
            share: of the requests within the limits, in (0, 1].
        """
        if self.good_ratio + self.good_half_width < share:
            return True  # it began empty, and a longer one would lose more
        apart = self.good_ratio - self.good_half_width >= share
        return apart and not self.is_growing and self.stays >= 1.0


def steady_window(result: SimulationResult, limits: Limits = NO_LIMITS) -> SteadyWindow:
    """The steady part of a simulation.

    Args:
        result: of a simulation.
        limits: that goodput counts by.
    """
    arrivals = np.sort(result.arrival_s)
    begin = float(arrivals[int(WARM_UP_RATIO * (arrivals.size - 1))])
    end = float(arrivals[-1])
    finished, within_limits = result.finished, result.within(limits)
    ends_inside = finished & (result.last_token_s >= begin) & (result.last_token_s <= end)
    tokens = float(result.output_tokens[ends_inside].sum())
    arrives_inside = (result.arrival_s >= begin) & (result.arrival_s <= end)
    # the rejected and failed are in no one's way
    ended_s = np.where(finished, result.last_token_s, result.arrival_s)
    batches = np.array_split(
        np.flatnonzero(arrives_inside)[np.argsort(result.arrival_s[arrives_inside], kind="stable")],
        BATCHES,
    )
    batches = batches if arrives_inside.sum() >= 2 * BATCHES else []
    shares = np.array([within_limits[batch].mean() for batch in batches])
    arrived_by_then = 1.0 + np.searchsorted(arrivals, result.arrival_s, side="left")
    in_flight = arrived_by_then - np.searchsorted(np.sort(ended_s), result.arrival_s, side="right")
    stay_s = float(np.mean(ended_s[arrives_inside] - result.arrival_s[arrives_inside]))
    in_flight_at = [int(((result.arrival_s <= at) & (ended_s > at)).sum()) for at in (begin, end)]
    return SteadyWindow(
        begin_s=begin,
        end_s=end,
        arrived=int(arrives_inside.sum()),
        goodput_per_s=float((ends_inside & within_limits).sum()) / (end - begin)
        if end > begin
        else None,
        tokens_per_s=tokens / (end - begin) if end > begin else None,
        ttft_s=distribution(result.ttft_s[arrives_inside & finished]),
        tpot_s=distribution(result.tpot_s[arrives_inside & finished]),
        e2e_s=distribution(result.e2e_s[arrives_inside & finished]),
        in_flight=(in_flight_at[0], in_flight_at[1]),
        good_ratio=float(within_limits[arrives_inside].mean()),
        good_half_width=float(_T_80 * shares.std(ddof=1) / np.sqrt(BATCHES)) if batches else 1.0,
        in_flight_by_batch=tuple(float(in_flight[batch].mean()) for batch in batches),
        stays=(end - begin) / BATCHES / stay_s if stay_s > 0.0 else float("inf"),
    )
