"""The steady part of a simulation: counted between warm-up and last arrival, whatever drains
afterwards."""

import numpy as np
import pytest

from costmodel.answers.workload import Limits
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.loop.request import Workload
from simulator.results.steady import steady_summary, steady_window

pytestmark = pytest.mark.heavy


def timer(decode_requests, query_tokens, decode_context_tokens, prefill, longest_context=0.0):
    return 1e-3 + 1e-6 * sum(new for new, _ in prefill)


def ran(count, every_s, output_tokens, *, most=64):
    workload = Workload(
        arrival_s=every_s * np.arange(count),
        prompt_tokens=np.full(count, 16),
        output_tokens=np.full(count, output_tokens),
    )
    options = SchedulerOptions(kv_blocks=100_000, max_requests=most)
    return simulate(Scenario(workload=workload, scheduler=options, timer=timer))


@pytest.mark.heavy
def test_a_sustained_load_is_served_at_the_rate_that_it_arrives():
    result = ran(400, 0.02, 50)
    found = steady_window(result)
    assert not found.is_growing
    assert found.goodput_per_s == pytest.approx(50.0, rel=0.02)
    assert found.tokens_per_s == pytest.approx(2500.0, rel=0.02)
    assert found.end_s - found.begin_s == pytest.approx(0.8 * 400 * 0.02, rel=0.01)
    assert found.arrived == pytest.approx(0.8 * 400, abs=2)


def test_draining_lowers_the_goodput_of_the_run_and_not_of_the_window():
    result = ran(100, 0.02, 200, most=1000)
    assert result.goodput_per_s() < 0.95 * 50
    assert steady_window(result).goodput_per_s == pytest.approx(50.0, rel=0.02)


def test_a_run_too_short_to_fill_the_service_says_so():
    assert steady_window(ran(100, 0.02, 1000, most=1000)).is_growing, (
        "each takes as long as half of them to arrive"
    )


@pytest.mark.parametrize("count", [100, 200])
def test_a_load_beyond_what_can_be_served_grows_and_the_rate_is_that_of_the_service(count):
    result = ran(count, 0.01, 50, most=2)
    found = steady_window(result)
    assert found.is_growing
    assert found.goodput_per_s == pytest.approx(2 / 0.05, rel=0.1)


def test_limits_count_good_requests_alone():
    result = ran(200, 0.01, 50, most=2)
    late = steady_window(result, Limits(ttft_s=0.5))
    assert late.goodput_per_s < steady_window(result).goodput_per_s
    assert late.tokens_per_s == steady_window(result).tokens_per_s
    assert steady_window(result, Limits(tpot_s=1e-6)).goodput_per_s == 0.0


def test_one_request_has_no_window():
    found = steady_window(ran(1, 1.0, 5))
    assert found.goodput_per_s is None and found.tokens_per_s is None
    assert found.why_none is not None and found.requests == 1


def looped(users, count, output_tokens, prompt_tokens=16):
    workload = Workload(
        arrival_s=np.zeros(count),
        prompt_tokens=np.full(count, prompt_tokens),
        output_tokens=np.broadcast_to(output_tokens, (count,)).astype(np.int32),
        users=users,
    )
    options = SchedulerOptions(kv_blocks=100_000, token_budget=256, max_requests=64)
    return simulate(Scenario(workload=workload, scheduler=options, timer=timer))


@pytest.mark.parametrize("count", [160, 167, 175, 191])
def test_equal_requests_in_waves_have_the_rate_of_their_own_length(count):
    """Users over the time of a request, however many requests of the last wave there are."""
    users, output = 16, 50
    result = looped(users, count, output, prompt_tokens=64)
    found = steady_summary(result)
    assert found["window"]["reason"] is None
    assert found["window"]["requests"] % users == 0
    assert found["tokens_per_s"] == pytest.approx(users * output / found["e2e_s"]["mean"], rel=0.01)
    assert found["tokens_per_s"] > found["whole_run"]["tokens_per_s"]


def test_the_burst_of_all_users_is_in_the_whole_run_alone():
    """Lengths that vary let users drift apart, after which no prompt waits for all others."""
    draws = np.random.default_rng(3).integers(20, 80, 640)
    result = looped(32, 640, draws, prompt_tokens=64)
    found, whole = steady_summary(result), result.summary()
    burst_s = 8 * timer(0, 0.0, 0.0, [(256, 0)])  # 32 prompts of 64 tokens in passes of 256
    assert whole["ttft_s"]["p99"] > 0.8 * burst_s
    assert found["ttft_s"]["p99"] < 0.6 * burst_s
    assert found["whole_run"] == {name: whole[name] for name in found["whole_run"]}


def test_a_short_closed_loop_says_what_a_long_one_says():
    draws = np.random.default_rng(5).integers(20, 80, 4000)
    short, long = (
        steady_summary(looped(16, 160, draws[:160])),
        steady_summary(looped(16, 4000, draws)),
    )
    for name in ("tokens_per_s", "requests_per_s"):
        assert short[name] == pytest.approx(long[name], rel=0.06)
        assert long["whole_run"][name] == pytest.approx(long[name], rel=0.02)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (lambda: looped(8, 31, 20), "4 requests of every user"),
        (lambda: ran(30, 0.05, 20), "32 requests"),
        (lambda: ran(200, 0.01, 50, most=2), "more and more"),
        (lambda: ran(100, 0.02, 500, most=1000), "shorter than requests stay"),
    ],
)
def test_a_run_without_a_steady_part_is_the_whole_run_and_says_why(result, words):
    found, whole = steady_summary(result()), result().summary()
    assert words in found["window"]["reason"]
    assert found["window"]["requests"] == whole["requests"]
    assert {name: found[name] for name in whole} == whole


def test_what_is_counted_and_what_is_left_out_are_all_requests():
    for result in (looped(8, 100, 20), ran(400, 0.02, 50)):
        window = steady_summary(result)["window"]
        assert window["warm_up"] + window["requests"] + window["draining"] == result.request.size
        assert window["begin_s"] < window["end_s"] <= result.arrival_s.max()
