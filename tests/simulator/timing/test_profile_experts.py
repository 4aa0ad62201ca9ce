"""Measured expert layers on one device and on several: what was measured comes back, shares are
shares."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.parallel.plan import Link
from hardware_profiles.errors import InputError
from simulator.timing.engine_settings import read_engine
from simulator.timing.profile_experts import ExpertsOfRanks, MeasuredExperts, read_experts
from simulator.timing.profile_timer import ProfileTimer

NAME = "rtxpro6000_qwen3-30b-a3b-instruct-2507"
SIZES = np.array([1.0, 4.0, 16.0, 64.0, 256.0, 1024.0])
LINK = Link(bytes_per_s=16e9, latency_s=20e-6)
SHAPE = load_model("qwen3-30b-a3b").blocks[0][0].feed_forward


def us(tokens, experts):
    return 30.0 + 6.0 * experts + 0.3 * tokens


def measured(devices):
    visited = tuple(np.array([8.0, 128.0]) for _ in SIZES)
    seconds = tuple(1e-6 * us(size, own) for size, own in zip(SIZES, visited, strict=True))
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
    experts = 128 * (1 - (1 - 8 / 128) ** tokens) / devices
    expected = 48e-6 * us(max(tokens / devices, 1.0), max(experts, 8.0))
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
def engine(reference_data):
    return read_engine(reference_data / "serving" / f"{NAME}_engine.json")


def test_measured_points_of_the_reference_profile_come_back(reference_data, engine):
    experts = read_experts(
        reference_data / "serving" / NAME, replace(engine, replicas=1, expert_parallel=False)
    )
    rows = pq.read_table(reference_data / "serving" / f"{NAME}_moe.parquet").to_pydict()
    for tokens, visited, time_us in zip(
        rows["tokens"], rows["activated_experts"], rows["time_us"], strict=True
    ):
        at = int(np.searchsorted(experts.tokens, tokens))
        assert np.interp(visited, experts.visited[at], experts.seconds[at]) == pytest.approx(
            time_us * 1e-6
        )
    # 128 experts of 9.4 MB: no faster than the memory, no slower than half of it
    layer_s = experts.seconds_of(256.0, 256.0) / 48
    assert 128 * 9.437e6 / 1.79e12 < layer_s < 2 * 128 * 9.437e6 / 1.79e12


def test_two_ranks_hold_half_of_the_experts_each(reference_data, engine):
    prefix = reference_data / "serving" / NAME
    alone = ProfileTimer.from_files(prefix, replace(engine, replicas=1, expert_parallel=False))
    ranks = ProfileTimer.from_files(prefix, engine)
    assert engine.in_step and engine.expert_devices == 2
    # many requests on both ranks: dense layers and attention of half the requests, weights of half
    # the experts
    own, shared = ranks.own(64, 1.0, 64 * 1000.0, ()), ranks.together_s([64, 64])
    both = alone(128, 1.0, 128 * 1000.0, ())
    assert 0.5 * both < own + shared < both
    # a rank whose peer is idle reads half of the experts too
    assert ranks(64, 1.0, 64 * 1000.0, ()) == pytest.approx(own + ranks.together_s([64, 1]))
    assert ranks.together_s([64, 1]) <= shared


def test_what_lies_elsewhere_moves_at_the_rate_of_the_memory(reference_data, engine):
    experts = read_experts(reference_data / "serving" / NAME, engine)
    # zeros of 1,536 and 2,048 values are written; 1,536 read, 768 written and 2,048 read of two
    # bytes each
    assert experts.elsewhere_s == pytest.approx(2 * (1536 + 2048 + 1536 + 768 + 2048) / 1.597e12)
    shared = replace(engine, replicas=1, tensor_parallel=2, expert_parallel=False)
    assert read_experts(reference_data / "serving" / NAME, shared).elsewhere_s == 0.0
    assert (
        read_experts(
            reference_data / "serving" / NAME, replace(engine, memory_bytes_per_s=0.0)
        ).elsewhere_s
        == 0.0
    )


def test_ranks_need_a_link(reference_data, engine):
    with pytest.raises(InputError, match="link_bw"):
        ProfileTimer.from_files(
            reference_data / "serving" / NAME, replace(engine, link_bytes_per_s=0.0)
        )


def test_a_profile_of_a_model_with_experts_holds_them(reference_data, engine):
    dense = replace(engine, architecture=load_model("llama-3.1-8b"))
    with pytest.raises(InputError, match="has no experts"):
        read_experts(reference_data / "serving" / NAME, dense)
    with pytest.raises(InputError, match="has experts"):
        read_experts(reference_data / "kernels" / "rtxpro6000_llama3.1-8b", engine)
