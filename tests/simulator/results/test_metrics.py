"""Numbers of a result against the times that they are made of."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.workload import Limits
from simulator.engine import simulate
from simulator.loop.histogram import BINS, WIDTH, Histogram, bin_of
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.loop.request import Workload
from simulator.results.metrics import distribution, known

pytestmark = pytest.mark.heavy


def scenario(timer, seed=0, requests=200):
    rng = np.random.default_rng(seed)
    workload = Workload(
        arrival_s=np.sort(rng.uniform(0, 20, requests)),
        prompt_tokens=rng.integers(10, 500, requests),
        output_tokens=rng.integers(1, 60, requests),
    )
    options = SchedulerOptions(kv_blocks=2000, token_budget=512, max_requests=32)
    return Scenario(workload=workload, scheduler=options, timer=timer)


@given(waits=st.lists(st.floats(1e-6, 9e3), min_size=1, max_size=200), percent=st.floats(0, 100))
def test_percentiles_of_a_histogram_are_right_to_a_bin(waits, percent):
    counts = np.zeros(BINS, np.int64)
    for wait in waits:
        counts[bin_of(wait)] += 1
    found = Histogram(counts=counts, total_s=sum(waits))
    exact = np.percentile(waits, percent, method="inverted_cdf")
    assert found.percentile_s(percent) == pytest.approx(exact, rel=1.1 * (np.exp(WIDTH) - 1))
    assert found.mean_s == pytest.approx(np.mean(waits))


def test_an_empty_histogram_knows_nothing():
    empty = Histogram(counts=np.zeros(BINS, np.int64), total_s=0.0)
    assert np.isnan(empty.mean_s) and np.isnan(empty.percentile_s(50))
    assert bin_of(0.0) == 0 and bin_of(1e9) == BINS - 1


def test_waits_between_deliveries_add_up_to_the_time_between_first_and_last(plain_timer):
    result = simulate(scenario(plain_timer))
    assert result.itl.total_s == pytest.approx((result.last_token_s - result.first_token_s).sum())
    assert result.itl.count == (result.output_tokens - 1).sum()


def test_the_summary_says_what_the_columns_say(plain_timer):
    result = simulate(scenario(plain_timer))
    found = result.summary(Limits(ttft_s=0.2, tpot_s=0.01))
    assert json.loads(json.dumps(found))["finished"] == 200
    for name in ("ttft_s", "tpot_s", "e2e_s", "queue_s"):
        values = getattr(result, name)
        values = values[np.isfinite(values)]
        assert found[name]["mean"] == pytest.approx(values.mean())
        assert found[name]["p90"] == pytest.approx(np.percentile(values, 90))
    assert found["requests_per_s"] == pytest.approx(200 / result.clock_s)
    assert found["tokens_per_s"] == pytest.approx(result.output_tokens.sum() / result.clock_s)
    assert (
        0 < found["busy_ratio"] <= 1
        and 0 < found["kv_used_ratio"]["mean"] <= found["kv_used_ratio"]["peak"]
    )
    good = (result.ttft_s <= 0.2) & ~(result.tpot_s > 0.01)
    assert found["goodput_per_s"] == pytest.approx(good.sum() / result.clock_s)
    assert result.goodput_per_s() == pytest.approx(found["requests_per_s"])


def test_whole_requests_beyond_their_limit_are_no_goodput(plain_timer):
    result = simulate(scenario(plain_timer))
    limit = float(np.nanmedian(result.e2e_s))
    assert 0 < (result.e2e_s <= limit).sum() < 200
    rate = (result.e2e_s <= limit).sum() / result.clock_s
    assert result.goodput_per_s(Limits(e2e_s=limit)) == pytest.approx(rate)
    assert result.goodput_per_s(Limits(e2e_s=limit, ttft_s=1e-9)) == 0.0


def test_goodput_never_rises_with_tighter_limits(plain_timer):
    result = simulate(scenario(plain_timer))
    rates = [result.goodput_per_s(Limits(ttft_s=limit)) for limit in (0.01, 0.05, 0.1, 1.0, 100.0)]
    assert rates == sorted(rates)


def test_the_series_follows_the_replica(plain_timer):
    result = simulate(scenario(plain_timer))
    (series,) = result.series
    assert np.all(np.diff(series.t_s) > 0) and series.t_s[-1] == result.clock_s
    assert series.running[-1] == series.waiting[-1] == 0 and series.kv_used_ratio[-1] == 0
    assert series.kv_used_ratio.max() <= result.kv_peak_ratio
    at = len(series.t_s) // 2
    alive = (result.scheduled_s <= series.t_s[at]) & (result.last_token_s > series.t_s[at])
    assert abs(int(alive.sum()) - int(series.running[at])) <= 1


def test_what_is_not_known_is_none():
    assert known(float("nan")) is None and known(1) == 1.0
    assert distribution(np.array([np.nan]))["p99"] is None
