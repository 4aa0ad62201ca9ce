"""Percentiles of latency by simulation: the fewest replicas that keep them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.answers.sizing.replicas import simulated_plan, simulated_times
from costmodel.answers.workload import Limits, RequestTimes, load_of_means
from costmodel.laws.acceptance import geometric
from hardware_profiles.errors import InfeasibleError, InputError
from tests.app.answers.sizing.services import small_service

PLAIN = geometric(0.0, 0)


def asked(limits, rate=20.0):
    load = load_of_means(requests_per_s=rate, prompt_tokens=500, output_tokens=60)
    return small_service(load, limits)


def limited(ttft_ms, percentile, tpot_ms=None):
    return Limits(
        ttft_s=ttft_ms / 1e3,
        ttft_percentile=percentile,
        tpot_s=None if tpot_ms is None else tpot_ms / 1e3,
        tpot_percentile=None if tpot_ms is None else percentile,
    )


def replicas(limits):
    return simulated_plan(asked(limits)).plan.replicas


@given(ttft_ms=st.floats(100, 2000), tpot_ms=st.floats(15, 60), looser=st.floats(1, 4))
def test_looser_limits_never_need_more_replicas(ttft_ms, tpot_ms, looser):
    tight, loose = (limited(ttft_ms * by, 90.0, tpot_ms * by) for by in (1.0, looser))
    try:
        needed = replicas(tight)
    except InfeasibleError:
        return
    assert replicas(loose) <= needed


@pytest.mark.parametrize("ttft_ms", [150, 400])
def test_a_percentile_farther_out_never_needs_fewer(ttft_ms):
    """Of the same requests, as many as the farthest percentile takes."""
    halves, tails = (
        replicas(Limits(ttft_s=ttft_ms / 1e3, ttft_percentile=at)) for at in (50.0, 97.0)
    )
    assert halves <= tails


def test_what_is_planned_keeps_the_limit_and_one_fewer_does_not():
    limits = limited(200, 99.0)
    sizing = asked(limits, rate=40.0)
    found = simulated_plan(sizing)
    n = found.plan.replicas
    assert found.times.keeps(limits) and found.times.held.ttft_s <= 0.2
    assert found.times.good_ratio >= 0.98 and found.times.requests >= 2000
    fewer = simulated_times(sizing.prepared(PLAIN), sizing.load.share(n - 1), sizing)
    assert n == 1 or not fewer.keeps(limits)


def test_a_percentile_of_whole_requests_is_kept_and_looser_ones_never_need_more():
    limits = [Limits(e2e_s=limit, e2e_percentile=95.0) for limit in (0.8, 1.2, 3.0)]
    found = [simulated_plan(asked(limit, rate=40.0)) for limit in limits]
    assert all(
        plan.times.held.e2e_s <= limit.e2e_s for plan, limit in zip(found, limits, strict=True)
    )
    numbers = [plan.plan.replicas for plan in found]
    assert numbers == sorted(numbers, reverse=True) and numbers[0] > numbers[-1]


def test_a_limit_below_the_time_of_a_request_alone_is_said():
    with pytest.raises(InfeasibleError, match=r"SLO: p99 TTFT <= 1 ms cannot be met by llama"):
        simulated_plan(asked(limited(1, 99.0)))


def test_limits_are_held_against_their_own_percentiles():
    times = np.arange(1.0, 101.0)
    limits = Limits(ttft_s=60.0, ttft_percentile=50, tpot_s=60.0)
    held = limits.held(RequestTimes(ttft_s=times, tpot_s=times, e2e_s=times))
    assert (held.ttft_s, held.tpot_s) == (50.5, 50.5)
    assert limits.words == "p50 TTFT <= 60000 ms and mean TPOT <= 60000 ms"
    with pytest.raises(InputError, match="good_share"):
        Limits(ttft_s=1.0, ttft_percentile=99, share_ratio=0.9)
