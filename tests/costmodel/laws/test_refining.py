"""Passes of masked blocks: several in flight, renewals, schedules that grow, requests that wait for
each other."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.own_pace import own_pace
from costmodel.laws.refining import (
    block_passes,
    blocks_in_flight,
    group_sizes,
    live_tokens,
    pass_counts,
    refined,
    waiting_ratio,
)
from costmodel.method import Batch, Shape
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError
from simulator.scenario.block_laws import random_commits

# sizes of the groups of LPD's published schedules for 256 tokens, by passes
LPD_GROUPS = {
    20: [1, 2, 4, 5, 7, 8, 10, 11, 12, 14, 15, 16, 17, 18, 18, 19, 19, 20, 20, 20],
    12: [1, 7, 11, 15, 19, 22, 25, 28, 30, 32, 33, 33],
}


def changed(slug="fast-dllm", nodes=None, batch=None, **fields):
    own = load_method(slug)
    shape = own.shape if nodes is None else Shape(kind="block", nodes=nodes)
    return replace(own, shape=shape, batch=batch or own.batch, refine=replace(own.refine, **fields))


def pipeline(blocks, passes, begins_after):
    """Mean blocks at work over a pipeline in which each takes so many passes and the next begins
    after some of them."""
    starts = [index * begins_after for index in range(blocks)]
    end = starts[-1] + passes
    return sum(sum(start <= at < start + passes for start in starts) for at in range(end)) / end


@given(blocks=st.integers(1, 12), passes=st.integers(1, 20), data=st.data())
def test_blocks_in_flight_are_those_of_a_pipeline_that_is_played(blocks, passes, data):
    begins_after = data.draw(st.integers(0, passes))
    method = changed(nodes=8, canvas_tokens=8 * blocks, begin_ratio=begins_after / passes)
    assert blocks_in_flight(method) == pytest.approx(pipeline(blocks, passes, begins_after))


@given(earlier=st.floats(0.0, 1.0), later=st.floats(0.0, 1.0), canvas=st.integers(32, 2048))
def test_blocks_that_begin_earlier_are_more_at_once(earlier, later, canvas):
    low, high = sorted((earlier, later))
    many, few = (
        blocks_in_flight(changed(canvas_tokens=canvas, begin_ratio=ratio)) for ratio in (low, high)
    )
    assert 1.0 <= few <= many * (1 + 1e-12) <= canvas / 32 * (1 + 1e-9)


def test_one_block_at_a_time_is_one_block():
    method = changed(begin_ratio=1.0)
    assert (blocks_in_flight(method), live_tokens(method)) == (1.0, 32.0)
    assert refined(method).draft_tokens == 32
    several = changed(begin_ratio=0.25)
    assert refined(several, 40.0).tokens_per_step == pytest.approx(
        40.0
    )  # more than one block holds
    with pytest.raises(InputError, match="tokens of the blocks"):
        refined(method, 40.0)
    for ratio in (-0.1, 1.5):
        with pytest.raises(InputError, match="begin_ratio"):
            blocks_in_flight(changed(begin_ratio=ratio))


@given(
    passes=st.floats(1.0, 64.0),
    full=st.integers(0, 3),
    every=st.integers(0, 40),
    canvas=st.integers(0, 40),
    closing=st.integers(0, 2),
    forward=st.sampled_from(["full", "canvas", "suffix", "block"]),
)
def test_every_pass_that_commits_is_of_one_kind(passes, full, every, canvas, closing, forward):
    method = changed(
        forward=forward,
        full_passes=full,
        full_every=every,
        canvas_every=canvas,
        closing_passes=closing,
    )
    counts = pass_counts(method, passes)
    assert sum(float(counts[kind]) for kind in ("full", "canvas", "own")) == pytest.approx(passes)
    assert all(float(count) >= -1e-12 for count in counts.values())
    assert float(counts["closing"]) == closing


def test_renewals_by_hand():
    dkv = pass_counts(load_method("dkv-cache"), 32.0)
    assert float(dkv["full"]) == pytest.approx(1 + 31 / 8)
    dllm = pass_counts(load_method("dllm-cache"), 350.0)
    assert float(dllm["full"]) == pytest.approx(7.0)
    assert float(dllm["canvas"]) == pytest.approx(343 / 7)
    always = pass_counts(changed(full_every=1), 12.0)
    assert (float(always["full"]), float(always["own"])) == (12.0, 0.0)


@given(
    canvas=st.integers(1, 600),
    commit=st.sampled_from(["static", "doubling", "cosine", "arccos"]),
    data=st.data(),
)
def test_groups_fill_the_canvas(canvas, commit, data):
    passes = data.draw(st.integers(1, canvas))
    method = changed("lpd", nodes=canvas, canvas_tokens=canvas, commit=commit)
    sizes = group_sizes(method, passes)
    assert (len(sizes), sum(sizes)) == (passes, canvas)
    assert min(sizes) >= 1


@pytest.mark.parametrize("passes", sorted(LPD_GROUPS))
def test_groups_are_those_of_the_published_schedule(passes):
    ours = group_sizes(load_method("lpd"), passes)
    assert sum(LPD_GROUPS[passes]) == 256
    assert max(abs(one - other) for one, other in zip(ours, LPD_GROUPS[passes], strict=True)) <= 1


def test_groups_that_double():
    assert group_sizes(load_method("eoser-ass"), 9)[:8] == (1, 2, 4, 8, 16, 32, 64, 128)
    for passes in (0, 257):
        with pytest.raises(InputError, match="passes"):
            group_sizes(load_method("lpd"), passes)


@pytest.mark.parametrize("tokens", [1.5, 2.77, 6.0])
def test_waiting_is_the_longest_of_drawn_blocks(tokens):
    """The simulator's drawn blocks have the law's mean, and batches of them its longest."""
    generator, method = np.random.default_rng(5), load_method("fast-dllm")
    ratio = probability(tokens)
    drawn = np.concatenate(
        [
            np.count_nonzero(random_commits(32, ratio, np.random.default_rng(seed)), axis=1)
            for seed in range(60)
        ]
    )
    assert drawn.mean() == pytest.approx(32 / tokens, rel=0.02)
    for batch in (2, 8, 32):
        longest = generator.choice(drawn, size=(4000, batch)).max(axis=1).mean()
        assert float(waiting_ratio(method, tokens, batch)) == pytest.approx(
            longest / drawn.mean(), rel=0.02
        )


def probability(tokens):
    """The chance of a token in a pass at which drawn blocks take the passes that are stated, by
    bisection on draws."""
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        passes = np.mean(
            [
                np.count_nonzero(
                    random_commits(32, middle, np.random.default_rng(seed)), axis=1
                ).mean()
                for seed in range(12)
            ]
        )
        low, high = (middle, high) if passes > 32 / tokens else (low, middle)
    return (low + high) / 2


def test_nobody_waits_alone_nor_on_an_even_schedule_nor_where_blocks_are_ones_own():
    batch = np.array([0.5, 1.0])
    assert np.all(waiting_ratio(load_method("fast-dllm"), 2.77, batch) == 1.0)
    assert np.all(waiting_ratio(changed(commit="static"), 2.0, 64) == 1.0)
    assert np.all(waiting_ratio(changed(batch=Batch()), 2.77, 64) == 1.0)
    assert np.all(
        waiting_ratio(load_method("fast-dllm"), 1.0, 64) == 1.0
    )  # all take as many passes as tokens


@given(tokens=st.floats(1.0, 32.0), batch=st.integers(1, 200))
def test_more_requests_wait_longer_and_never_beyond_one_token_a_pass(tokens, batch):
    method = load_method("fast-dllm")
    fewer, more = (float(waiting_ratio(method, tokens, each)) for each in (batch, batch + 1))
    assert 1.0 - 1e-9 <= fewer <= more + 1e-9
    assert more <= tokens * (1 + 1e-6)


def test_caches_are_used_once_at_least():
    assert block_passes(load_method("fast-dllm"), 32.0) == 2.0
    assert block_passes(changed(begin_ratio=0.0), 128.0) == pytest.approx(
        0.25
    )  # of eight blocks together
    assert block_passes(load_method("llada"), 3.0) == 11


@pytest.mark.parametrize(("device", "published"), [("h100-sxm", 1008.0), ("h200-sxm", 1288.0)])
def test_canvases_take_what_vllm_announced_of_them(device, published):
    """DiffusionGemma in fp8 for one request, 16 passes a canvas: tokens a second."""
    setting = build_setting(
        DecodingConfiguration(
            method="diffusiongemma",
            deployment=DeploymentNames(
                model="gemma-4-26b-a4b", device=device, engine="vllm", dtype="fp8"
            ),
        )
    )
    pace = own_pace(load_method("diffusiongemma"))
    step = estimate(setting, pace, batch=1, context=1024)
    assert pace.tokens_per_step / float(step.step_s) == pytest.approx(published, rel=0.08)
    # five and six times as fast as one token a pass
    assert float(step.speedup) == pytest.approx({1008.0: 5.0, 1288.0: 6.0}[published], rel=0.11)
