"""What did the users of a simulated service see, and what did its engines do?

Columns per request, counters and a time series, with percentiles and goodput. Leaves out joules and
dollars (`simulator.results.resources`), intervals over seeds and drawing
(`simulator.results.timeline`, the app).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.answers.workload import NO_LIMITS, Limits, RequestTimes
from simulator.loop.histogram import Histogram
from simulator.loop.replica_sample import ReplicaSample
from simulator.loop.request import ENDINGS, FAILED, FINISHED, REJECTED

Seconds = NDArray[np.float64]
PERCENTILES = (50, 90, 99)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Series:
    """States of one replica at the ends of evenly spaced iterations.

    Args:
        t_s: float64[n].
        running: int32[n], requests that hold cache.
        waiting: int32[n], requests in the queue.
        kv_used_ratio: float64[n], share of the blocks that requests hold.
    """

    t_s: Seconds
    running: NDArray[np.int32]
    waiting: NDArray[np.int32]
    kv_used_ratio: Seconds


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Span:
    """A part of a run that is summarised; masks have one entry per request.

    Args:
        counted: requests whose times count.
        ended: requests whose ends and tokens count for rates.
        seconds: that it lasts.
    """

    counted: NDArray[np.bool_]
    ended: NDArray[np.bool_]
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SimulationResult:
    """Outcome of a simulation; arrays have one entry per request of the workload, in its order.

    Args:
        request: int64[r], index in the workload.
        input_tokens: int32[r].
        output_tokens: int32[r], tokens asked for.
        arrival_s: float64[r]; in a closed loop, when the request was sent.
        scheduled_s: float64[r], start of the first iteration it took part in; nan where there was
            none.
        first_token_s: float64[r]; nan for requests that never emitted a token.
        last_token_s: float64[r], nan for requests that did not finish.
        ending: uint8[r], `FINISHED`, `REJECTED` or `FAILED` of `simulator.loop.request`.
        replica: int32[r], which replica decoded it.
        itl: waits between successive deliveries to a user; a step delivers all tokens that it emits
            at once.
        iterations: of all replicas together.
        clock_s: when the last request ended.
        busy_s: seconds in which replicas ran iterations, all together.
        replicas: engines, those for prompts included.
        counters: totals by name.
        steps_by_batch: int64[b], (request, step) pairs by the number of requests that decoded
            together.
        emitted_by_batch: int64[b], tokens that they emitted.
        iterations_by_rows: int64[rows], iterations of all replicas by the rows of their pass; the
            last entry counts larger ones too.
        iterations_by_sampled: int64[rows], the same by the rows that were sampled.
        exposed_host_s: of `busy_s`, seconds in which devices waited for the host to launch a pass.
        kv_peak_ratio: most of its cache that any replica used.
        series: one per replica.
        busy_by_replica_s: float64[n], `busy_s` of the replicas that decode.
        idle_passes: of ranks in step, passes of those that had nothing to do while others had;
            None: the replicas are no such ranks.
        sample: the replicas are some of a fleet; None: they are all.
        alone: of a sample, what is above of every replica by itself, but for the time of all.
        users: of a closed loop; None: arrivals wait for no answer.
    """

    request: NDArray[np.int64]
    input_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    arrival_s: Seconds
    scheduled_s: Seconds
    first_token_s: Seconds
    last_token_s: Seconds
    ending: NDArray[np.uint8]
    replica: NDArray[np.int32]
    itl: Histogram
    iterations: int
    clock_s: float
    busy_s: float
    replicas: int
    counters: Mapping[str, int]
    steps_by_batch: NDArray[np.int64]
    emitted_by_batch: NDArray[np.int64]
    iterations_by_rows: NDArray[np.int64]
    iterations_by_sampled: NDArray[np.int64]
    exposed_host_s: float
    kv_peak_ratio: float
    series: tuple[Series, ...]
    busy_by_replica_s: Seconds
    idle_passes: int | None = None
    sample: ReplicaSample | None = None
    alone: tuple[SimulationResult, ...] = ()
    users: int | None = None

    @property
    def state(self) -> NDArray[np.str_]:
        """`finished`, `rejected` or `failed` for every request."""
        names = np.array([ENDINGS.get(code, "") for code in range(int(max(ENDINGS)) + 1)])
        return np.asarray(names[self.ending])

    @property
    def finished(self) -> NDArray[np.bool_]:
        """Which requests got all their tokens."""
        return np.asarray(self.ending == FINISHED)

    @property
    def ttft_s(self) -> Seconds:
        """Time to first token of every request, nan where there was none."""
        return np.asarray(self.first_token_s - self.arrival_s)

    @property
    def tpot_s(self) -> Seconds:
        """Time per output token after the first; nan for outputs of one token and for the
        unfinished.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(
                np.where(
                    self.output_tokens > 1,
                    (self.last_token_s - self.first_token_s) / (self.output_tokens - 1.0),
                    np.nan,
                )
            )

    @property
    def e2e_s(self) -> Seconds:
        """Arrival to last token; nan for the unfinished."""
        return np.asarray(self.last_token_s - self.arrival_s)

    @property
    def queue_s(self) -> Seconds:
        """Arrival to the first iteration; nan for the rejected."""
        return np.asarray(self.scheduled_s - self.arrival_s)

    @property
    def tokens_per_step(self) -> float:
        """Tokens emitted per decoding request and iteration; nan where nobody decoded."""
        steps = self.counters["steps"]
        return self.counters["emitted"] / steps if steps else float("nan")

    @property
    def times(self) -> RequestTimes[Seconds]:
        """The three times that are limited, of every request."""
        return RequestTimes(ttft_s=self.ttft_s, tpot_s=self.tpot_s, e2e_s=self.e2e_s)

    def within(self, limits: Limits) -> NDArray[np.bool_]:
        """Which requests finish within limits, each by itself.

        Args:
            limits: most of their times; outputs of one token meet any on the time per token.
        """
        return np.asarray(self.finished & limits.met(self.times))

    def goodput_per_s(self, limits: Limits = NO_LIMITS) -> float:
        """Requests a second that finish within limits, as `within` takes them."""
        return float(self.within(limits).sum()) / self.clock_s if self.clock_s > 0 else 0.0

    @property
    def whole(self) -> Span:
        """The whole run, from the start to the end of the last request."""
        everyone = np.ones(self.request.size, dtype=np.bool_)
        return Span(counted=everyone, ended=everyone, seconds=self.clock_s)

    def summary(self, limits: Limits = NO_LIMITS) -> dict[str, Any]:
        """The whole run in numbers, its filling and draining included; what cannot be known is
        None.

        Args:
            limits: that goodput counts by.
        """
        clock = self.clock_s if self.clock_s > 0 else float("nan")
        steps = np.nonzero(self.steps_by_batch)[0]
        itl = {"mean": self.itl.mean_s} | {f"p{p}": self.itl.percentile_s(p) for p in PERCENTILES}
        return self.seen(self.whole, limits) | {
            "itl_s": {name: known(value) for name, value in itl.items()},
            "iterations": self.iterations,
            "requests": int(self.request.size),
            "finished": int(self.finished.sum()),
            "rejected": int((self.ending == REJECTED).sum()),
            "failed": int((self.ending == FAILED).sum()),
            "clock_s": self.clock_s,
            "tokens_per_step": known(self.tokens_per_step),
            "busy_ratio": known(self.busy_s / clock / self.replicas),
            "kv_used_ratio": {"mean": known(self._mean_kv_used()), "peak": self.kv_peak_ratio},
            "tokens_per_step_by_batch": {
                int(b): float(self.emitted_by_batch[b] / self.steps_by_batch[b]) for b in steps
            },
            **{name: int(count) for name, count in self.counters.items()},
        }

    def seen(self, span: Span, limits: Limits = NO_LIMITS) -> dict[str, Any]:
        """What users see in a part of the run: times, and what ends per second.

        Args:
            span: the part.
            limits: that goodput counts by.
        """
        done, ended = span.counted & self.finished, span.ended & self.finished
        seconds = span.seconds if span.seconds > 0 else float("nan")
        tokens_per_s = float(self.output_tokens[ended].sum()) / seconds
        good = float((self.within(limits) & ended).sum())
        return {
            "ttft_s": distribution(self.ttft_s[done]),
            "tpot_s": distribution(self.tpot_s[done]),
            "e2e_s": distribution(self.e2e_s[done]),
            "queue_s": distribution(self.queue_s[done]),
            "requests_per_s": known(float(ended.sum()) / seconds),
            "goodput_per_s": good / seconds if span.seconds > 0 else 0.0,
            "tokens_per_s": known(tokens_per_s),
            "tokens_per_s_per_replica": known(tokens_per_s / self.replicas),
        } | self._by_replica(span)

    def _by_replica(self, span: Span) -> dict[str, Any]:
        """What the requests of every replica that decodes see, where there are several, and its
        share of the run with work.
        """
        if len(self.busy_by_replica_s) == 1:
            return {}
        by_replica: dict[str, Any] = {}
        clock = self.clock_s if self.clock_s > 0 else float("nan")
        seconds = span.seconds if span.seconds > 0 else float("nan")
        for index, busy_s in enumerate(self.busy_by_replica_s.tolist()):
            own = (self.replica == index) & span.counted
            done = own & self.finished
            ended = (self.replica == index) & span.ended & self.finished
            by_replica[str(index)] = {
                "requests": int(own.sum()),
                "finished": int(done.sum()),
                "ttft_s": distribution(self.ttft_s[done]),
                "tpot_s": distribution(self.tpot_s[done]),
                "tokens_per_s": known(float(self.output_tokens[ended].sum()) / seconds),
                "busy_ratio": known(busy_s / clock),
            }
        idle = {} if self.idle_passes is None else {"idle_passes": self.idle_passes}
        return {"by_replica": by_replica, **idle}

    def _mean_kv_used(self) -> float:
        """Time-weighted over the recorded states of all replicas."""
        total = seconds = 0.0
        for series in self.series:
            gaps = np.diff(series.t_s, prepend=0.0)
            total += float(gaps @ series.kv_used_ratio)
            seconds += float(gaps.sum())
        return total / seconds if seconds else float("nan")


def distribution(values: Seconds) -> dict[str, float | None]:
    """Mean and percentiles, nan left out; None where nothing remains."""
    kept = values[np.isfinite(values)]
    if not kept.size:
        return dict.fromkeys(["mean", *(f"p{p}" for p in PERCENTILES)])
    percentiles = np.percentile(kept, PERCENTILES)
    return {
        "mean": float(kept.mean()),
        **{f"p{p}": float(v) for p, v in zip(PERCENTILES, percentiles, strict=True)},
    }


def known(value: float) -> float | None:
    """The value, or None for what JSON cannot say."""
    return float(value) if np.isfinite(value) else None
