"""What a sample says of its fleet, and how often its intervals hold the fleet's own numbers."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.answers.workload import Limits
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.loop.replica_sample import ReplicaSample, drawn_sample
from simulator.loop.request import Workload
from simulator.results.sampled import fleet_summary, with_interval
from tests.simulator.sampled_fleets import sampled

pytestmark = pytest.mark.heavy

REPLICAS, REQUESTS = 24, 2400
LIMITS = Limits(ttft_s=0.05, tpot_s=0.02)


def fleet(timer, seed):
    rng = np.random.default_rng(seed)
    workload = Workload(
        arrival_s=np.cumsum(rng.exponential(1 / 120, REQUESTS)),
        prompt_tokens=rng.integers(1, 30, REQUESTS),
        output_tokens=1 + rng.geometric(0.06, REQUESTS).clip(max=80),
    )
    options = SchedulerOptions(kv_blocks=60, token_budget=48, max_requests=8)
    return Scenario(workload=workload, scheduler=options, timer=timer, replicas=REPLICAS)


def summary(result):
    return result.summary(LIMITS)


def numbers(summarised, before=""):
    for name, value in summarised.items():
        if isinstance(value, dict):
            yield from numbers(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def test_a_sample_of_all_replicas_is_the_fleet_without_doubt(tabled_timer):
    whole = fleet(tabled_timer, 3)
    everybody = ReplicaSample(replicas=REPLICAS, requests=REQUESTS, chosen=tuple(range(REPLICAS)))
    told = fleet_summary(simulate(sampled(whole, everybody)), summary)
    sure = dict(numbers(told.pop("sampled")["interval"]))
    expected = summary(simulate(whole))
    assert told == expected
    for name, value in numbers(expected):
        if name in sure and sure[name] is not None:
            assert sure[name] == [value, value], name


def test_rates_and_counts_are_those_of_the_fleet(tabled_timer):
    whole = fleet(tabled_timer, 5)
    sample = drawn_sample(REPLICAS, 6, REQUESTS, 5)
    result = simulate(sampled(whole, sample))
    told, own = fleet_summary(result, summary), summary(result)
    assert told["requests"] == REQUESTS and own["requests"] == REQUESTS // 4
    for name in ("finished", "iterations", "steps", "tokens_per_s", "goodput_per_s"):
        assert told[name] == pytest.approx(4 * own[name], rel=1e-9), name
    for name in ("ttft_s", "itl_s", "tokens_per_step", "busy_ratio", "kv_used_ratio"):
        assert told[name] == own[name]
    assert list(told["by_replica"]) == [str(number) for number in sample.chosen]
    assert told["sampled"]["of"] == REPLICAS and told["sampled"]["level"] == 0.95
    assert told["sampled"]["interval"]["kv_used_ratio"]["peak"] is None


def test_intervals_are_those_of_clusters_where_these_are_known(tabled_timer):
    """Of a mean over replicas with equally many requests the jackknife is Student's interval."""
    result = simulate(sampled(fleet(tabled_timer, 7), drawn_sample(REPLICAS, 4, REQUESTS, 7)))
    value, bounds = with_interval(result, lambda own: {"queue": float(own.queue_s.mean())})
    means = np.array([alone.queue_s.mean() for alone in result.alone])
    half = 3.18244630528 * means.std(ddof=1) / 2 * np.sqrt(1 - 4 / REPLICAS)
    assert value["queue"] == pytest.approx(means.mean())
    assert bounds["queue"] == pytest.approx(
        [max(means.mean() - half, 0.0), means.mean() + half], rel=1e-6
    )


def test_intervals_hold_the_numbers_of_the_fleet_at_about_their_level(tabled_timer):
    """Nominally 95 %; `tests/benchmarks/test_sampled_fleet.py` counts more of them."""
    names = ("ttft_s.mean", "ttft_s.p90", "tpot_s.mean", "e2e_s.p50", "goodput_per_s", "steps")
    held, tries = dict.fromkeys(names, 0), 0
    for seed in range(4):
        whole = fleet(tabled_timer, seed)
        own = dict(numbers(summary(simulate(whole))))
        for draw in range(25):
            sample = drawn_sample(REPLICAS, 6, REQUESTS, 100 * seed + draw)
            told = fleet_summary(simulate(sampled(whole, sample)), summary)
            bounds = dict(numbers(told["sampled"]["interval"]))
            tries += 1
            for name in names:
                held[name] += bounds[name][0] <= own[name] <= bounds[name][1]
    shares = {name: count / tries for name, count in held.items()}
    assert all(share >= 0.85 for share in shares.values()), shares
    times = [shares[name] for name in names[:4]]
    assert 0.88 <= np.mean(times) <= 1.0, shares


def test_a_sample_without_answers_says_nothing(tabled_timer):
    whole = fleet(tabled_timer, 1)
    refused = replace(whole, scheduler=replace(whole.scheduler, kv_blocks=1))
    told = fleet_summary(
        simulate(sampled(refused, drawn_sample(REPLICAS, 3, REQUESTS, 0))), summary
    )
    assert told["rejected"] + told["failed"] + told["finished"] == REQUESTS
    assert told["finished"] or told["sampled"]["interval"]["ttft_s"]["mean"] is None
