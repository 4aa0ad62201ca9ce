"""Whole experts on devices: where tokens go, and what the busiest device does."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.architecture import FeedForward
from costmodel.parallel.experts import busiest_work, destinations, exchange
from costmodel.parallel.plan import Link, ParallelPlan
from costmodel.passes import ops
from costmodel.passes.precision import Precision
from hardware_profiles.loader import load_device

H100, FP8 = load_device("h100-sxm"), Precision(weights="fp8", activations="fp8", kv="fp8")
LAYER = FeedForward(width=2048, experts=64, experts_per_token=8)


@pytest.mark.parametrize(
    ("experts", "chosen", "devices"), [(8, 2, 4), (8, 3, 2), (12, 4, 3), (6, 6, 3), (10, 1, 5)]
)
def test_destinations_equal_enumeration(experts, chosen, devices):
    each = experts // devices
    sets = [
        len({expert // each for expert in picked})
        for picked in combinations(range(experts), chosen)
    ]
    assert destinations(experts, chosen, devices) == pytest.approx(sum(sets) / len(sets))


@given(devices=st.sampled_from([1, 2, 4, 8, 16, 32, 64]), chosen=st.integers(1, 16))
def test_destinations_stay_within_their_bounds(devices, chosen):
    reached = destinations(64, chosen, devices)
    assert 1.0 - 1e-12 <= reached <= min(devices, chosen) + 1e-12
    assert reached <= destinations(64, chosen, min(64, 2 * devices)) + 1e-12


@given(tokens=st.integers(1, 4096), devices=st.sampled_from([2, 8, 64]))
def test_an_exchange_sends_what_its_destinations_take(tokens, devices):
    link = Link(bytes_per_s=1e9, latency_s=0.0)
    plan = ParallelPlan(data=devices, expert=devices, within=link, between=link)
    moved = exchange(H100, plan, LAYER, FP8, tokens=tokens, hidden=4096)
    away = tokens * destinations(64, 8, devices) * (devices - 1) / devices * 4096
    assert moved.dispatch_bytes == pytest.approx(away)
    assert moved.combine_bytes == pytest.approx(2 * away)
    assert moved.dispatch_s == pytest.approx(away / 1e9)
    assert moved.combine_s == pytest.approx(2 * away / 1e9)


def test_the_busiest_device_holds_everybody_up():
    even = ParallelPlan(data=8, expert=8)
    uneven = ParallelPlan(data=8, expert=8, imbalance=2.0)
    link = even.link(H100, 8)
    first, second = (
        exchange(H100, plan, LAYER, FP8, tokens=512, hidden=4096) for plan in (even, uneven)
    )
    assert second.dispatch_s - link.latency_s == pytest.approx(
        2 * (first.dispatch_s - link.latency_s)
    )
    assert second.dispatch_bytes == first.dispatch_bytes


@given(devices=st.sampled_from([1, 2, 8, 64]), tokens=st.integers(1, 100_000))
def test_even_devices_share_the_work_and_the_experts(devices, tokens):
    plan = ParallelPlan(data=devices, expert=devices)
    arguments = {"group_tokens": tokens, "independent_tokens": tokens, "hidden": 4096}
    work, visited = busiest_work(H100, plan, LAYER, FP8, **arguments)
    assert devices * visited == pytest.approx(ops.distinct_experts(tokens, 64, 8))
    least = 2.0 * tokens * 8 * 3 * 4096 * 2048  # without padding
    assert devices * work.flops >= least * (1 - 1e-9)


@given(imbalance=st.floats(1.0, 8.0), tokens=st.integers(1, 100_000))
def test_imbalance_never_lightens_the_busiest_device(imbalance, tokens):
    arguments = {"group_tokens": tokens, "independent_tokens": tokens, "hidden": 4096}
    even, seen = busiest_work(H100, ParallelPlan(data=8, expert=8), LAYER, FP8, **arguments)
    uneven, more = busiest_work(
        H100, ParallelPlan(data=8, expert=8, imbalance=imbalance), LAYER, FP8, **arguments
    )
    assert seen <= more <= 8
    assert uneven.bytes >= even.bytes * (1 - 1e-9)
    if tokens * 8 / 8 > 64 * 64:  # far beyond padding
        assert uneven.flops >= even.flops * (1 - 1e-9)
