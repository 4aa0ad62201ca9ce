"""Measured expert layers on one device and on several: what was measured comes back, shares are
shares."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.parallel.plan import Link
from costmodel.passes.ops import distinct_experts
from hardware_profiles.errors import InputError
from simulator.timing.engine_settings import read_engine
from simulator.timing.profile_experts import ExpertsOfRanks, MeasuredExperts, read_experts
from simulator.timing.profile_timer import ProfileTimer
from tests.simulator.timing.made_up_profile import RANKS, expert_us, write_profile

VISITED = (8, 32, 64, 128)
SIZES = np.array([1.0, 4.0, 16.0, 64.0, 256.0, 1024.0])
LINK = Link(bytes_per_s=16e9, latency_s=20e-6)
SHAPE = load_model("qwen3-30b-a3b").blocks[0][0].feed_forward


def measured(devices):
    visited = tuple(np.array([8.0, 128.0]) for _ in SIZES)
    seconds = tuple(1e-6 * expert_us(size, own) for size, own in zip(SIZES, visited, strict=True))
    return MeasuredExperts(
        layers=48, shape=SHAPE, devices=devices, tokens=SIZES, visited=visited, seconds=seconds
    )


def together(devices=2, graph_rows=512):
    return ExpertsOfRanks(
        experts=measured(devices),
        ranks=devices,
        link=LINK,
        token_bytes=4096.0,
        graph_rows=graph_rows,
    )


@given(st.integers(4, 4000), st.sampled_from([1, 2, 4]))
def test_a_device_has_its_share_of_tokens_and_of_experts(tokens, devices):
    experts = float(distinct_experts(tokens, 128, 8)) / devices
    expected = 48e-6 * expert_us(max(tokens / devices, 1.0), max(experts, 8.0))
    assert measured(devices).seconds_of(tokens, tokens) == pytest.approx(expected, rel=1e-9)


@given(st.lists(st.integers(1, 3000), min_size=2, max_size=2))
def test_ranks_pay_for_the_tokens_of_all_and_for_the_way_there_and_back(rows):
    fullest = max(rows)
    computed = 2 * fullest if fullest <= 512 else sum(rows)
    way = 48 * (2 * 20e-6 + fullest * (2 * 4096 + 8 * 8) / 16e9)
    assert together()(rows) == pytest.approx(
        measured(2).seconds_of(computed, sum(rows)) + way, rel=1e-12
    )
    assert together()(rows) == together()(rows[::-1])


@given(st.integers(1, 512), st.integers(1, 512))
def test_graphs_fill_every_rank_up_to_the_fullest(few, many):
    few, many = sorted((few, many))
    assert together()([few, many]) >= together(graph_rows=0)([few, many]) * (1 - 1e-12)
    assert together()([few, few]) <= together()([few, many]) * (1 + 1e-12)


@given(st.integers(1, 4000), st.sampled_from([2, 4]))
def test_choices_that_lie_elsewhere_are_written_activated_and_added_up(tokens, devices):
    plain, passed = measured(devices), replace(measured(devices), elsewhere_s=1e-9)
    more = 48 * tokens * 8 * (1 - 1 / devices) * 1e-9
    assert passed.seconds_of(tokens, tokens) - plain.seconds_of(tokens, tokens) == pytest.approx(
        more
    )
    assert replace(measured(1), elsewhere_s=1e-9).seconds_of(tokens, tokens) == measured(
        1
    ).seconds_of(tokens, tokens)


def test_no_tokens_no_time():
    assert measured(1).seconds_of(0.0, 0.0) == 0.0
    assert measured(2).table(3)[0] == 0.0


@pytest.fixture(scope="module")
def profile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("profile")
    return write_profile(folder, engine=RANKS, experts=VISITED)


@pytest.fixture(scope="module")
def engine(profile):
    return read_engine(profile.with_name("engine.json"))


def test_measured_points_come_back(profile, engine):
    experts = read_experts(profile, replace(engine, replicas=1, expert_parallel=False))
    assert experts.layers == 48 and experts.shape == SHAPE
    for size, visited, seconds in zip(
        experts.tokens, experts.visited, experts.seconds, strict=True
    ):
        assert visited.tolist() == list(VISITED)
        assert seconds == pytest.approx(1e-6 * expert_us(size, visited))


def test_two_ranks_hold_half_of_the_experts_each(profile, engine):
    alone = ProfileTimer.from_files(profile, replace(engine, replicas=1, expert_parallel=False))
    ranks = ProfileTimer.from_files(profile, engine)
    assert engine.in_step and engine.expert_devices == 2
    # many requests on both ranks: dense layers and attention of half the requests, weights of half
    # the experts
    own, shared = ranks.own(64, 1.0, 64 * 1000.0, ()), ranks.together_s([64, 64])
    both = alone(128, 1.0, 128 * 1000.0, ())
    assert 0.5 * both < own + shared < both
    # a rank whose peer is idle reads half of the experts too
    assert ranks(64, 1.0, 64 * 1000.0, ()) == pytest.approx(own + ranks.together_s([64, 1]))
    assert ranks.together_s([64, 1]) <= shared


def test_what_lies_elsewhere_moves_at_the_rate_of_the_memory(profile, engine):
    experts = read_experts(profile, engine)
    # zeros of 1,536 and 2,048 values are written; 1,536 read, 768 written and 2,048 read of two
    # bytes each
    assert experts.elsewhere_s == pytest.approx(2 * (1536 + 2048 + 1536 + 768 + 2048) / 1.597e12)
    shared = replace(engine, replicas=1, tensor_parallel=2, expert_parallel=False)
    assert read_experts(profile, shared).elsewhere_s == 0.0
    assert read_experts(profile, replace(engine, memory_bytes_per_s=0.0)).elsewhere_s == 0.0


@pytest.mark.parametrize(("bytes_per_s", "latency_s"), [(16e9, 20e-6), (1e9, 20e-6)])
def test_a_link_takes_its_latency_and_the_bytes_of_the_fullest_rank(
    profile, engine, bytes_per_s, latency_s
):
    """96 messages of 100 tokens: 2,048 values of two bytes, and eight choices of eight bytes on the
    way there."""

    def together_s(**link):
        return ProfileTimer.from_files(profile, replace(engine, **link)).together_s([100, 100])

    way = together_s(link_bytes_per_s=bytes_per_s, link_latency_s=latency_s) - together_s(
        link_bytes_per_s=1e15, link_latency_s=0.0
    )
    assert way == pytest.approx(96 * (latency_s + 100 * 4128 / bytes_per_s), rel=0.01)


def test_ranks_need_a_link(profile, engine):
    with pytest.raises(InputError, match="link_bw"):
        ProfileTimer.from_files(profile, replace(engine, link_bytes_per_s=0.0))


def test_a_profile_of_a_model_with_experts_holds_them(profile, engine, tmp_path):
    dense = replace(engine, architecture=load_model("llama-3.1-8b"))
    with pytest.raises(InputError, match="has no experts"):
        read_experts(profile, dense)
    with pytest.raises(InputError, match="has experts"):
        read_experts(write_profile(tmp_path), engine)
