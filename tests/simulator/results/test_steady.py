"""The steady part of a simulation: counted between warm-up and last arrival, whatever drains
afterwards."""

import numpy as np
import pytest

from costmodel.answers.workload import Limits
from simulator.engine import simulate
from simulator.loop.options import Scenario, SchedulerOptions
from simulator.loop.request import Workload
from simulator.results.steady import steady_window

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
    assert found.ttft_s["mean"] is not None
