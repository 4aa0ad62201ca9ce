"""What do users of a simulated service see while it is neither filling nor draining?

A run begins with an empty service, and a closed loop with all its users at once; at its end the last
requests share the service with fewer and fewer others. Counted are the requests that begin after the
warm-up and before the last ones, which drain; rates are what ends meanwhile. Means of successive
batches of requests say how sure a share is and whether a backlog grows, if batches last longer than
requests stay. Leaves out the whole run (`simulator.results.metrics`), which is what a benchmark that
starts with a burst reports.

Reference: Law and Carson 1979, "A sequential procedure for determining the length of a steady-state
simulation", on batch means and on lengthening a run until they say enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.answers.workload import NO_LIMITS, Limits
from simulator.results.metrics import SimulationResult, Span

WARM_UP_RATIO = 0.2  # of the requests, where they arrive by themselves
# of every user of a closed loop: the burst, and those that its answers make; NVIDIA's and
# SemiAnalysis' load generators warm up with as many (`simulator.closed_loop.users`)
WARM_UP_WAVES = 2
BATCHES = 16  # of equally many requests; few enough for each to be long (Schmeiser 1982: 10 to 30)
_T_80 = 1.341  # 0.9 quantile of Student's law with 15 degrees of freedom: an 80 % interval
_T_TREND = 2.977  # 0.995 quantile with 14: a trend that one run in 200 without one would show
_TREND_RATIO = 0.05  # of the requests in flight, beyond which a backlog has grown; ASSUMED


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SteadyWindow:
    """A simulated service between warm-up and draining.

    Args:
        begin_s: when the warm-up ends: that of the first request counted.
        end_s: when the first request begins that is left out at the end; of those that leave out
            none, when the last one begins.
        arrived: requests that begin from `begin_s` on.
        warming: requests that begin before.
        draining: requests that are left out at the end; 0: none is, because a backlog grows or
            there would be nothing left.
        requests_per_s: requests that end a second; None: no time passes.
        goodput_per_s: requests a second that end within the limits; None: no time passes.
        tokens_per_s: tokens a second of the requests that end; None: no time passes.
        in_flight: requests that have arrived and not ended, when the warm-up ends and when the last
            one arrives.
        good_ratio: share of the requests counted that finish within the limits.
        good_half_width: half of the 80 % interval of that share, from means of batches.
        in_flight_by_batch: requests in flight when those of a batch arrive, on average, batch after
            batch.
        stays: mean times that requests stay, of which a batch lasts so many.
        users: of a closed loop; None: arrivals wait for no answer.
        first_s: when the first request arrives.
        stay_s: mean time that requests stay.
    """

    begin_s: float
    end_s: float
    arrived: int
    warming: int
    draining: int
    requests_per_s: float | None
    goodput_per_s: float | None
    tokens_per_s: float | None
    in_flight: tuple[int, int]
    good_ratio: float
    good_half_width: float
    in_flight_by_batch: tuple[float, ...]
    stays: float
    users: int | None
    first_s: float
    stay_s: float

    @property
    def requests(self) -> int:
        """Requests counted."""
        return self.arrived - self.draining

    @property
    def why_none(self) -> str | None:
        """Why the run has no steady part, in words; None: it has one.

        Of open arrivals so many requests must count that growth would show, and the warm-up must
        last as long as requests stay; of a closed loop one of every user must count.
        """
        if self.is_growing:
            return "more and more requests are in flight"
        whole = self.draining > 0 and self.requests_per_s is not None
        if self.users is not None:
            words = f"fewer than {WARM_UP_WAVES + 2} requests of every user"
            return None if whole and self.requests >= self.users else words
        if not whole or self.requests < 2 * BATCHES:
            return f"fewer than {2 * BATCHES} requests between warm-up and draining"
        if self.begin_s - self.first_s < self.stay_s:
            return "the warm-up is shorter than requests stay"
        return None

    def counts(self, result: SimulationResult) -> NDArray[np.bool_]:
        """Which requests of a result count.

        Args:
            result: of which this is the steady part, or some of its requests.
        """
        late = result.arrival_s >= self.end_s if self.draining else False
        return np.asarray((result.arrival_s >= self.begin_s) & ~np.asarray(late))

    def span(self, result: SimulationResult) -> Span:
        """The steady part, for summaries.

        Args:
            result: as in `counts`.
        """
        # whoever ends as the warm-up does was served in it
        ended = (result.last_token_s > self.begin_s) & (result.last_token_s <= self.end_s)
        return Span(
            counted=self.counts(result),
            ended=np.asarray(ended),
            seconds=self.end_s - self.begin_s,
        )

    @property
    def is_growing(self) -> bool:
        """Whether more requests are in flight in the second half than in the first, beyond chance:
        no steady state.
        """
        return _grows(self.in_flight_by_batch)

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

    Where a backlog grows there is none, and requests that drain count, which waited longest.

    Args:
        result: of a simulation.
        limits: that goodput counts by.
    """
    arrivals, finished = np.sort(result.arrival_s), result.finished
    last = arrivals.size - 1
    warming = int(WARM_UP_RATIO * last)
    if result.users is not None:
        warming = min(WARM_UP_WAVES * result.users, last)
    begin, end = float(arrivals[warming]), float(arrivals[-1])
    # the rejected and failed are in no one's way
    ended_s = np.where(finished, result.last_token_s, result.arrival_s)
    arrives_inside = result.arrival_s >= begin
    batches = _batches(result, arrives_inside)
    arrived_by_then = 1.0 + np.searchsorted(arrivals, result.arrival_s, side="left")
    in_flight = arrived_by_then - np.searchsorted(np.sort(ended_s), result.arrival_s, side="right")
    in_flight_by_batch = tuple(float(in_flight[batch].mean()) for batch in batches)
    in_flight_at = [int(((result.arrival_s <= at) & (ended_s > at)).sum()) for at in (begin, end)]
    left_out = max(in_flight_at[1], 1)
    if result.users is not None:  # equal requests go in waves, of which whole ones are counted
        left_out = result.users + arrivals.size % result.users
    drain = float(arrivals[max(arrivals.size - left_out, 0)])
    counted = arrives_inside
    if drain > begin and not _grows(in_flight_by_batch):
        counted, end = arrives_inside & (result.arrival_s < drain), drain
    within_limits = result.within(limits)
    shares = [float(within_limits[batch].mean()) for batch in _batches(result, counted)]
    stay_s = float(np.mean(ended_s[counted] - result.arrival_s[counted]))
    seconds = end - begin if end > begin else None
    ends_inside = finished & (result.last_token_s > begin) & (result.last_token_s <= end)

    def per_second(amount: float) -> float | None:
        return None if seconds is None else float(amount) / seconds

    return SteadyWindow(
        begin_s=begin,
        end_s=end,
        arrived=int(arrives_inside.sum()),
        warming=int((~arrives_inside).sum()),
        draining=int((arrives_inside & ~counted).sum()),
        requests_per_s=per_second(ends_inside.sum()),
        goodput_per_s=per_second((ends_inside & within_limits).sum()),
        tokens_per_s=per_second(result.output_tokens[ends_inside].sum()),
        in_flight=(in_flight_at[0], in_flight_at[1]),
        good_ratio=float(within_limits[counted].mean()),
        good_half_width=(
            float(_T_80 * np.std(shares, ddof=1) / np.sqrt(BATCHES)) if shares else 1.0
        ),
        in_flight_by_batch=in_flight_by_batch,
        stays=(end - begin) / BATCHES / stay_s if stay_s > 0.0 else float("inf"),
        users=result.users,
        first_s=float(arrivals[0]),
        stay_s=stay_s,
    )


def steady_summary(
    result: SimulationResult, limits: Limits = NO_LIMITS, window: SteadyWindow | None = None
) -> dict[str, Any]:
    """The summary of a run whose times and rates are those of its steady part.

    Totals of the engines, waits between deliveries among them, stay those of the whole run. Where
    it has no steady part, everything is of the whole run.

    Args:
        result: of a simulation.
        limits: that goodput counts by.
        window: the steady part; None: that of the result.

    Returns:
        The whole run's summary with times and rates of the steady part; `whole_run` has those of
        all requests in their place, and `window` says what was counted.
    """
    window = steady_window(result, limits) if window is None else window
    whole, reason = result.summary(limits), window.why_none
    seen = result.seen(result.whole if reason else window.span(result), limits)
    of_all = {name: whole[name] for name in seen if name not in ("by_replica", "idle_passes")}
    counted = {
        "reason": reason,
        "begin_s": None if reason else window.begin_s,
        "end_s": None if reason else window.end_s,
        "requests": int(result.request.size) if reason else window.requests,
        "warm_up": 0 if reason else window.warming,
        "draining": 0 if reason else window.draining,
    }
    return whole | seen | {"window": counted, "whole_run": of_all}


def _batches(result: SimulationResult, counted: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Successive batches of requests in their order of arrival; none where they are too few."""
    if counted.sum() < 2 * BATCHES:
        return []
    order = np.argsort(result.arrival_s[counted], kind="stable")
    return np.array_split(np.flatnonzero(counted)[order], BATCHES)


def _grows(in_flight_by_batch: tuple[float, ...]) -> bool:
    """Whether there are more in the second half than in the first, beyond chance."""
    half = len(in_flight_by_batch) // 2
    if not half:
        return False
    early, late = np.array(in_flight_by_batch[:half]), np.array(in_flight_by_batch[-half:])
    grown, least = float(late.mean() - early.mean()), _TREND_RATIO * float(early.mean())
    error = float(np.sqrt((early.var(ddof=1) + late.var(ddof=1)) / half))
    return grown > max(least, _T_TREND * error)
