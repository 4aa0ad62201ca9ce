"""Configurations whose target is spread by a plan."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate, intervals, needed_bytes
from costmodel.answers.settings import build_setting
from costmodel.answers.steps.planned_step import planned_step
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.parallel.plan import ParallelPlan
from hardware_profiles.errors import InputError

LLAMA = build_setting(
    DecodingConfiguration(
        method="speculative-decoding",
        draft_model="llama-3.2-1b",
        deployment=DeploymentNames(model="llama-3-70b", device="h100-sxm", tensor_parallel=8),
    )
)
MIXTRAL = build_setting(
    DecodingConfiguration(
        method="n-gram", deployment=DeploymentNames(model="mixtral-8x7b", device="h100-sxm")
    )
)


@given(
    batch=st.integers(1, 256),
    context=st.integers(0, 30_000),
    k=st.integers(0, 8),
    match=st.sampled_from([0.3, 1.0]),
)
def test_one_tensor_group_is_the_estimate(batch, context, k, match):
    taken = geometric(0.7, k, match_rate=match)
    known = estimate(LLAMA, taken, batch=batch, context=context)
    planned = planned_step(LLAMA, taken, ParallelPlan(tensor=8), batch=batch, context=context)
    assert planned.step_s == pytest.approx(known.step_s, rel=1e-12)
    assert planned.speedup == pytest.approx(known.speedup, rel=1e-12)
    assert planned.tokens_per_s == pytest.approx(known.tokens_per_s, rel=1e-12)
    assert planned.tokens_per_s_per_device == pytest.approx(known.tokens_per_s / 8, rel=1e-12)
    needed = needed_bytes(LLAMA, taken, batch=batch, context=context)
    assert planned.footprint.total_bytes == pytest.approx(needed, rel=1e-9)


@given(data=st.sampled_from([2, 4]), each=st.integers(1, 64), k=st.integers(0, 5))
def test_copies_multiply_throughput_and_keep_the_step(data, each, k):
    taken = geometric(0.7, k)
    one = planned_step(LLAMA, taken, ParallelPlan(tensor=8), batch=each, context=4096)
    many = planned_step(
        LLAMA, taken, ParallelPlan(tensor=8, data=data), batch=data * each, context=4096
    )
    assert many.step_s == pytest.approx(one.step_s)
    assert many.tokens_per_s == pytest.approx(data * one.tokens_per_s)
    assert many.footprint.total_bytes == pytest.approx(one.footprint.total_bytes)


@given(stages=st.sampled_from([2, 4]), batch=st.sampled_from([64, 256]), k=st.integers(0, 4))
def test_a_filled_pipeline_beats_batches_one_after_another(stages, batch, k):
    taken, plan = geometric(0.7, k), ParallelPlan(tensor=2, pipeline=stages)
    filled = planned_step(LLAMA, taken, plan, batch=batch, context=4096)
    assert filled.step_s < stages * (
        sum(filled.verify.values()) + filled.draft_s + filled.overhead_s
    )
    shorter = planned_step(LLAMA, taken, ParallelPlan(tensor=2), batch=batch, context=4096)
    assert filled.footprint.total_bytes < shorter.footprint.total_bytes


def test_whole_experts_show_their_exchange():
    plan = ParallelPlan(data=8, expert=8)
    planned = planned_step(MIXTRAL, geometric(0.5, 3, match_rate=0.5), plan, batch=64, context=1024)
    assert planned.verify["exchange"] > 0.0
    assert planned.step_s >= sum(planned.verify.values())
    assert planned.speedup > 0.0


def test_arrays_broadcast():
    plan = ParallelPlan(tensor=8, pipeline=2, data=2)
    batch, context = np.array([8, 64]), np.array([[512], [8192], [30_000]])
    planned = planned_step(LLAMA, geometric(0.7, 3), plan, batch=batch, context=context)
    assert (
        planned.tokens_per_s.shape
        == planned.speedup.shape
        == planned.footprint.total_bytes.shape
        == (3, 2)
    )


@given(
    plan=st.builds(
        ParallelPlan,
        tensor=st.just(2),
        pipeline=st.sampled_from([1, 2]),
        data=st.sampled_from([1, 4]),
        expert=st.sampled_from([1, 2]),
    ),
    batch=st.integers(1, 300),
    context=st.integers(0, 20_000),
    k=st.integers(0, 4),
)
def test_an_estimate_of_a_spread_model_is_the_step_under_its_plan(plan, batch, context, k):
    spread, taken = replace(MIXTRAL, plan=plan), geometric(0.6, k, match_rate=0.5)
    known = estimate(spread, taken, batch=batch, context=context)
    planned = planned_step(MIXTRAL, taken, plan, batch=batch, context=context)
    assert known.step_s == pytest.approx(planned.step_s, rel=1e-9)
    assert known.step.total_s == pytest.approx(planned.step_s, rel=1e-9)
    assert known.speedup == pytest.approx(planned.speedup, rel=1e-9)
    needed = needed_bytes(spread, taken, batch=batch, context=context)
    assert needed == pytest.approx(planned.footprint.total_bytes)
    low, high = intervals(spread, known, batch=batch, generator=np.random.default_rng(0)).step_s
    assert low < planned.step_s < high


def test_names_of_a_plan_become_a_setting_with_it():
    def asked(**names):
        return DecodingConfiguration(deployment=DeploymentNames(**names))

    setting = build_setting(
        asked(model="mixtral-8x7b", tensor_parallel=2, data_parallel=4, expert_parallel=8)
    )
    assert setting.plan == ParallelPlan(tensor=2, data=4, expert=8) and setting.devices == 8
    with pytest.raises(InputError, match="has no experts"):
        build_setting(
            DecodingConfiguration(
                deployment=DeploymentNames(model="gpt2", tensor_parallel=2, expert_parallel=2)
            )
        )
