"""Messages between devices."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.parallel.collectives import (
    all_reduce,
    all_to_all,
    point_to_point,
    ring,
    tree_reduction,
)
from costmodel.parallel.plan import Link, ParallelPlan
from costmodel.passes import kernels
from hardware_profiles.loader import load_device

LINK = Link(bytes_per_s=50e9, latency_s=10e-6)
SIZES = st.floats(0.0, 1e9)


@given(size=SIZES)
def test_a_message_takes_its_latency_and_its_bytes(size):
    assert point_to_point(LINK, size) == pytest.approx(10e-6 + size / 50e9)


@given(size=SIZES, devices=st.integers(2, 512))
def test_an_exchange_lies_between_nothing_kept_and_half_kept(size, devices):
    taken = all_to_all(LINK, size, devices)
    assert point_to_point(LINK, size / 2) <= taken <= point_to_point(LINK, size)


def test_one_device_exchanges_nothing():
    assert all_to_all(LINK, np.array([1e6, 2e6]), 1) == pytest.approx([0.0, 0.0])
    assert ring(LINK, 1e6, 1) == 0.0
    assert tree_reduction(load_device("h100-sxm"), ParallelPlan(), 1e6, 1) == 0.0


@given(rounds=st.integers(0, 9), size=SIZES)
def test_a_tree_takes_two_messages_a_round(rounds, size):
    same = ParallelPlan(within=LINK, between=LINK)
    taken = tree_reduction(load_device("h100-sxm"), same, size, 2**rounds)
    assert taken == pytest.approx(2 * rounds * point_to_point(LINK, size))


def test_rounds_between_nodes_use_the_slower_link():
    h100 = load_device("h100-sxm")
    fast, slow = Link(bytes_per_s=1e12, latency_s=0.0), Link(bytes_per_s=1e9, latency_s=0.0)
    plan = ParallelPlan(within=fast, between=slow)
    inside, across = tree_reduction(h100, plan, 1e9, 8), tree_reduction(h100, plan, 1e9, 16)
    assert inside == pytest.approx(2 * 3 * 1e-3)
    assert across == pytest.approx(inside + 2 * 1.0)
    assert tree_reduction(h100, plan, 1e9, 2, stride=8) == pytest.approx(2 * 1.0)


@given(size=SIZES, devices=st.sampled_from([2, 4, 8]))
def test_an_all_reduce_in_a_node_is_the_kernels_own(size, devices):
    h100 = load_device("h100-sxm")
    assert (
        all_reduce(h100, ParallelPlan(), size, devices)
        == kernels.allreduce(h100, size, devices).seconds
    )


@given(size=SIZES, nodes=st.sampled_from([2, 4, 16]))
def test_an_all_reduce_across_nodes_is_nccls_with_a_ring(size, nodes):
    h100, plan = load_device("h100-sxm"), ParallelPlan(between=LINK)
    taken = all_reduce(h100, plan, size, 8 * nodes)
    inside = kernels.allreduce(h100, size, 8, backend="nccl").seconds
    least = 2 * (nodes - 1) / nodes * size / 8 / LINK.bytes_per_s
    assert taken >= inside + least
    assert taken <= inside + least + 2 * nodes * LINK.latency_s
