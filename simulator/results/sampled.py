"""What do a few replicas, simulated whole, tell of their fleet, and how surely?

Every number of a summary is computed of all replicas of the sample, and again without each of them in
turn; how far the latter scatter says how far the fleet's own number may lie from the first (a jackknife,
whose clusters are replicas). What the fleet's traffic would be on another day is not in the interval:
seeds say that. Leaves out which replicas are drawn (`simulator.loop.replica_sample`).

Reference: Cochran 1977, "Sampling Techniques", chapters 2 and 9, for clusters of a finite population;
Shao and Wu 1989, "A general theory for jackknife variance estimation", for percentiles where many
values are left out at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from simulator.loop.histogram import Histogram
from simulator.results.metrics import SimulationResult

LEVEL = 0.95
"""Of the intervals."""
Summary = Callable[[SimulationResult], Mapping[str, Any]]
_BY_REQUEST = (
    "request",
    "input_tokens",
    "output_tokens",
    "arrival_s",
    "scheduled_s",
    "first_token_s",
    "last_token_s",
    "ending",
    "replica",
)
_RATES = ("requests_per_s", "goodput_per_s", "tokens_per_s")
_WHOLE = ("iterations", "requests", "finished", "rejected", "failed", "devices")
# what is divided by the time of the run, of which the fleet's latest replica decides
_BY_CLOCK = (
    *_RATES,
    "tokens_per_s_per_replica",
    "busy_ratio",
    "bandwidth_ratio",
    "compute_ratio",
    "watts",
)
_TIMES_CLOCK = ("clock_s", "joules", "joules_per_token", "usd_per_million_tokens")
_OF_SAMPLE = ("by_replica", "tokens_per_step_by_batch", "window", "whole_run")


def fleet_summary(result: SimulationResult, summary: Summary) -> dict[str, Any]:
    """Numbers of a fleet by those of its sample, with intervals.

    Args:
        result: of a sample of at least two replicas.
        summary: numbers of a result by name, nested; None where there is none.

    Returns:
        The summary with rates and counts of the whole fleet, and under `sampled` the replicas that
        were simulated (`replicas`, of `of`), the `level`, and `interval`: [low, high] in place of
        every number, None where a sample tells nothing, as of the fullest cache.
    """
    sample = result.sample
    assert sample is not None
    estimate, interval = with_interval(result, lambda own: _of_fleet(summary(own), own))
    longer = _longest_clock_s(result) / result.clock_s if result.clock_s > 0.0 else 1.0
    for names, low, high in ((_BY_CLOCK, 1.0 / longer, 1.0), (_TIMES_CLOCK, 1.0, longer)):
        for name in names:
            if interval.get(name) is not None:
                interval[name] = [interval[name][0] * low, interval[name][1] * high]
    interval["kv_used_ratio"]["peak"] = None  # of the fullest replica of all
    counted = {*_WHOLE, *result.counters}
    whole = {
        name: round(value) if name in counted and value is not None else value
        for name, value in estimate.items()
    }
    by_replica = {
        str(number): whole["by_replica"][str(index)] for index, number in enumerate(sample.chosen)
    }
    return whole | {
        "by_replica": by_replica,
        "sampled": {
            "replicas": list(sample.chosen),
            "of": sample.replicas,
            "level": LEVEL,
            "interval": interval,
        },
    }


def with_interval(result: SimulationResult, summary: Summary) -> tuple[dict[str, Any], Any]:
    """Numbers of a sample, and the intervals within which those of all replicas lie.

    Args:
        result: of a sample of at least two replicas.
        summary: means, percentiles or shares of a result by name, nested; None where there is none.

    Returns:
        The numbers, and [low, high] in the place of every one, None where one is missing.
    """
    sample = result.sample
    assert sample is not None
    estimate = dict(summary(result))
    without = [summary(_without(result, index)) for index in range(result.replicas)]
    quantile = _quantile(result.replicas)
    return estimate, _interval(estimate, without, quantile, sample.remaining_ratio)


def _without(result: SimulationResult, index: int) -> SimulationResult:
    """A result without one of its replicas; its time stays that of all."""
    own, kept = result.alone[index], np.flatnonzero(result.replica != index)
    others = [alone for i, alone in enumerate(result.alone) if i != index]
    return replace(
        result,
        **{name: getattr(result, name)[kept] for name in _BY_REQUEST},
        itl=Histogram(
            counts=result.itl.counts - own.itl.counts, total_s=result.itl.total_s - own.itl.total_s
        ),
        iterations=result.iterations - own.iterations,
        busy_s=result.busy_s - own.busy_s,
        replicas=result.replicas - 1,
        counters={name: count - own.counters[name] for name, count in result.counters.items()},
        steps_by_batch=result.steps_by_batch - own.steps_by_batch,
        emitted_by_batch=result.emitted_by_batch - own.emitted_by_batch,
        iterations_by_rows=result.iterations_by_rows - own.iterations_by_rows,
        iterations_by_sampled=result.iterations_by_sampled - own.iterations_by_sampled,
        exposed_host_s=result.exposed_host_s - own.exposed_host_s,
        kv_peak_ratio=max(alone.kv_peak_ratio for alone in others),
        series=tuple(series for alone in others for series in alone.series),
        busy_by_replica_s=np.array([result.busy_s - own.busy_s]),
    )


def _of_fleet(summary: Mapping[str, Any], result: SimulationResult) -> dict[str, Any]:
    """A summary whose rates and counts are those of the whole fleet, which are as many times as
    large as it has requests.
    """
    sample = result.sample
    assert sample is not None
    times = dict.fromkeys(
        (*_RATES, *_WHOLE, "joules", *result.counters), sample.requests / result.request.size
    )
    times["devices"] = sample.replicas / result.replicas
    scaled = {
        name: value * times[name] if name in times and value is not None else value
        for name, value in summary.items()
    }
    if "whole_run" in summary:
        scaled["whole_run"] = _of_fleet(summary["whole_run"], result)
    return scaled


def _quantile(replicas: int) -> float:
    """Of Student's law with one degree of freedom less than replicas."""
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    return float(stdtrit(replicas - 1, 0.5 + LEVEL / 2.0))


def _interval(value: Any, without: Sequence[Any], quantile: float, remaining_ratio: float) -> Any:
    """[low, high] of every number, in the shape of the summary."""
    if isinstance(value, Mapping):
        return {
            key: _interval(own, [rest.get(key) for rest in without], quantile, remaining_ratio)
            for key, own in value.items()
            if key not in _OF_SAMPLE
        }
    if value is None or any(rest is None for rest in without):
        return None
    values = np.asarray(without, dtype=np.float64)
    variance = (values.size - 1.0) * values.var()  # of the jackknife
    half = quantile * float(np.sqrt(remaining_ratio * variance))
    return [max(float(value) - half, 0.0), float(value) + half]


def _longest_clock_s(result: SimulationResult) -> float:
    """When the latest replica of the fleet ends at most: its last request arrives, and stays as long
    as the longest of the sample.
    """
    sample = result.sample
    assert sample is not None
    if not sample.remaining_ratio:
        return result.clock_s
    # requests of other replicas may follow
    last_s = float(result.arrival_s[-1]) * sample.requests / (float(sample.places[-1]) + 1.0)
    stays_s = result.e2e_s[result.finished]
    return max(result.clock_s, last_s + float(stays_s.max(initial=0.0)))
