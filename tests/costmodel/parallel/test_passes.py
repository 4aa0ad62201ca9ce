"""The pass of a model under a plan."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.parallel.passes import plan_cost
from costmodel.parallel.plan import Link, ParallelPlan
from costmodel.passes import ops
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.kernels import allreduce
from costmodel.passes.precision import Precision, precision
from costmodel.passes.transform import apply
from costmodel.transforms.declared import LayerSchedule
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device

H100 = load_device("h100-sxm")
MODELS = ("llama-3-70b", "mixtral-8x7b", "deepseek-v2-lite", "gemma-2-9b", "nemotron-h-8b")
LLAMA, MIXTRAL = "llama-3-70b", "mixtral-8x7b"


def _deployed(name, fidelity="calibrated", **more):
    return Deployment(
        architecture=load_model(name), device=H100, precision=Precision(), fidelity=fidelity, **more
    )


@given(
    name=st.sampled_from(MODELS),
    fidelity=st.sampled_from(["datasheet", "calibrated"]),
    weights=st.sampled_from(["bf16", "fp8", "int4"]),
    batch=st.integers(1, 256),
    query=st.integers(1, 64),
    context=st.integers(0, 100_000),
    logits=st.sampled_from(["all", "last", "none"]),
    prefill=st.booleans(),
)
def test_a_plan_of_ones_is_the_pass_itself(
    name, fidelity, weights, batch, query, context, logits, prefill
):
    d = replace(_deployed(name, fidelity), precision=precision(weights))
    arguments = {
        "batch": batch,
        "query_tokens": query,
        "context": context,
        "logits": logits,
        "prefill": prefill,
    }
    alone, planned = pass_cost(d, **arguments), plan_cost(d, ParallelPlan(), **arguments)
    assert planned.seconds == alone.seconds
    assert planned.total_s == alone.total_s
    assert planned.pipeline.latency_s == pytest.approx(alone.total_s, rel=1e-12)
    assert planned.step_s(1) == planned.pipeline.interval_s


@given(tensor=st.sampled_from([2, 4, 8]), batch=st.integers(1, 256))
def test_a_tensor_group_is_a_deployment_of_that_degree(tensor, batch):
    arguments = {"batch": batch, "query_tokens": 1, "context": 4096}
    group = pass_cost(_deployed(LLAMA, tensor_parallel=tensor), **arguments)
    assert (
        plan_cost(_deployed(LLAMA), ParallelPlan(tensor=tensor), **arguments).seconds
        == group.seconds
    )


@given(
    name=st.sampled_from([LLAMA, MIXTRAL]),
    tensor=st.sampled_from([1, 2, 8]),
    pipeline=st.sampled_from([1, 2, 4]),
    data=st.sampled_from([1, 2]),
    context=st.sampled_from([1, 2, 4]),
    prefill=st.booleans(),
    batch=st.integers(1, 64),
)
def test_no_plan_beats_perfect_scaling(name, tensor, pipeline, data, context, prefill, batch):
    """Bare roofs: devices times seconds is never less than what one device would need."""
    plan = ParallelPlan(tensor=tensor, pipeline=pipeline, data=data, context=context)
    arguments = {
        "batch": batch,
        "query_tokens": 256 if prefill else 1,
        "context": 8192,
        "prefill": prefill,
    }
    d = _deployed(name, "datasheet")
    alone, spread = pass_cost(d, **arguments).total_s, plan_cost(d, plan, **arguments)
    if data == 1:
        assert plan.devices * spread.pipeline.interval_s >= alone * (1 - 1e-9)
    assert spread.pipeline.latency_s >= spread.pipeline.interval_s * (1 - 1e-12)
    assert spread.total_s == pytest.approx(spread.pipeline.latency_s)


@given(stages=st.sampled_from([2, 4, 5, 8, 80]), batch=st.integers(1, 512))
def test_a_pipeline_only_adds_transfers(stages, batch):
    arguments = {"batch": batch, "query_tokens": 1, "context": 2048}
    alone = pass_cost(_deployed(LLAMA), **arguments)
    spread = plan_cost(_deployed(LLAMA), ParallelPlan(pipeline=stages), **arguments)
    hop = ParallelPlan().link(H100, stages)
    transfers = (stages - 1) * (hop.latency_s + batch * 8192 * 2 / hop.bytes_per_s)
    assert spread.seconds["transfer"] == pytest.approx(transfers)
    assert spread.total_s == pytest.approx(alone.total_s + transfers)
    end = alone.seconds["head"] + alone.seconds["sampler"]
    assert spread.pipeline.interval_s >= (alone.total_s - end) / stages * (1 - 1e-12)


def test_a_full_pipeline_of_equal_stages_has_no_idle_device():
    d = _deployed(LLAMA)
    spread = plan_cost(
        d, ParallelPlan(pipeline=4), batch=64, query_tokens=1, context=2048, logits="none"
    )
    assert spread.step_s(100) == pytest.approx(100 * spread.pipeline.interval_s)
    assert 4 * spread.pipeline.interval_s == pytest.approx(
        spread.total_s - spread.seconds["transfer"]
    )
    assert spread.prompt_s(8) == pytest.approx(spread.total_s + 7 * spread.pipeline.interval_s)


@given(
    data=st.sampled_from([2, 4, 8]), each=st.integers(1, 64), name=st.sampled_from([LLAMA, MIXTRAL])
)
def test_data_copies_take_their_share(data, each, name):
    arguments = {"query_tokens": 1, "context": 1024}
    copy = plan_cost(_deployed(name), ParallelPlan(), batch=each, **arguments)
    copies = plan_cost(_deployed(name), ParallelPlan(data=data), batch=data * each, **arguments)
    assert copies.seconds == copy.seconds
    one_more = plan_cost(
        _deployed(name), ParallelPlan(data=data), batch=data * each + 1, **arguments
    )
    assert (
        one_more.total_s
        == plan_cost(_deployed(name), ParallelPlan(), batch=each + 1, **arguments).total_s
    )


@given(parts=st.sampled_from([2, 4, 8]), combination=st.sampled_from(["tree", "ring"]))
def test_decoding_with_shared_tokens_reads_a_share_and_combines(parts, combination):
    arguments = {"batch": 1, "query_tokens": 1, "context": 1_000_000}
    d = _deployed(LLAMA, "datasheet")
    alone = plan_cost(d, ParallelPlan(), **arguments)
    plan = ParallelPlan(context=parts)
    spread = plan_cost(d, plan, combination=combination, **arguments)
    turns = (
        parts if combination == "ring" else 1
    )  # the one request's queries visit the devices in turn
    assert spread.seconds["attention"] == pytest.approx(
        turns * alone.seconds["attention"] / parts, rel=1e-3
    )
    assert spread.seconds["gemm"] == alone.seconds["gemm"]
    assert spread.seconds["context"] > 0.0


@given(
    parts=st.sampled_from([2, 4, 16]),
    new=st.integers(1_000, 200_000),
    cached=st.integers(0, 200_000),
)
def test_a_prompt_shared_by_tokens_keeps_its_arithmetic(parts, new, cached):
    arguments = {
        "batch": 1,
        "query_tokens": new,
        "context": cached,
        "logits": "last",
        "prefill": True,
    }
    d = _deployed(LLAMA, "datasheet")
    alone, spread = (
        plan_cost(d, ParallelPlan(), **arguments),
        plan_cost(d, ParallelPlan(context=parts), **arguments),
    )

    def arithmetic(cost, name):
        return sum(op.calls * op.work.flops for op in cost.operations if op.name == name)

    for name in ("gemm", "attention"):
        assert parts * arithmetic(spread, name) == pytest.approx(arithmetic(alone, name))


@given(new=st.integers(100, 100_000), cached=st.integers(0, 1_000_000))
def test_the_cheaper_ring_is_the_cheaper_ring(new, cached):
    plan, d = ParallelPlan(tensor=8, context=4), _deployed(LLAMA)
    both = {
        ring: plan_cost(
            d, plan, batch=1, query_tokens=new, context=cached, prefill=True, ring=ring
        ).seconds["context"]
        for ring in ("pass_kv", "pass_q", "cheaper")
    }
    assert both["cheaper"] == pytest.approx(min(both["pass_kv"], both["pass_q"]), abs=1e-15)


@given(group=st.sampled_from([2, 4, 8]), each=st.integers(1, 256))
def test_whole_experts_cost_an_exchange_and_keep_their_work(group, each):
    arguments = {"batch": group * each, "query_tokens": 1, "context": 1024}
    d = _deployed(MIXTRAL)
    apart = plan_cost(d, ParallelPlan(data=group, expert=group), **arguments)
    copies = plan_cost(d, ParallelPlan(data=group), **arguments)
    assert apart.seconds["exchange"] > 0.0
    assert "exchange" not in copies.seconds
    for name in ("gemm", "attention", "elementwise", "head"):
        assert apart.seconds[name] == copies.seconds[name]
    moe = next(op for op in apart.operations if op.name == "moe")
    whole = 2.0 * group * each * 2 * 3 * 4096 * 14336
    assert group * moe.work.flops >= whole * (1 - 1e-9)


def test_busy_experts_hold_the_pass_up():
    arguments = {"batch": 2048, "query_tokens": 1, "context": 1024}
    even = plan_cost(_deployed(MIXTRAL), ParallelPlan(data=8, expert=8), **arguments)
    busy = plan_cost(_deployed(MIXTRAL), ParallelPlan(data=8, expert=8, imbalance=2.0), **arguments)
    assert busy.seconds["moe"] > 1.3 * even.seconds["moe"]
    assert busy.seconds["exchange"] > even.seconds["exchange"]


def test_devices_with_the_same_tokens_send_them_once():
    """With tensor groups of 8 and experts over the same 8, each token is dispatched once, by one of
    the eight."""
    link = Link(bytes_per_s=1e9, latency_s=0.0)
    arguments = {"batch": 64, "query_tokens": 1, "context": 1024}
    alone = plan_cost(_deployed(MIXTRAL), ParallelPlan(data=8, expert=8, within=link), **arguments)
    grouped = plan_cost(
        _deployed(MIXTRAL), ParallelPlan(tensor=8, expert=8, within=link), **arguments
    )
    assert grouped.seconds["exchange"] == pytest.approx(alone.seconds["exchange"])


def test_tensor_groups_across_nodes_pay_for_the_network():
    arguments = {"batch": 1, "query_tokens": 1, "context": 1024}
    d = _deployed("llama-3.1-405b")
    message = 16384 * 2
    inside = plan_cost(d, ParallelPlan(tensor=8), **arguments).seconds["allreduce"]
    assert inside == pytest.approx(252 * allreduce(H100, message, 8).seconds)
    assert plan_cost(d, ParallelPlan(tensor=16), **arguments).seconds["allreduce"] > 2 * inside


def test_calls_of_a_general_library_take_longer():
    arguments = {"batch": 1, "query_tokens": 1, "context": 4096}
    d, own = _deployed(LLAMA), ParallelPlan(tensor=8, context=2)
    general = replace(own, backend="nccl")
    first, second = (plan_cost(d, plan, **arguments).seconds for plan in (own, general))
    assert second["allreduce"] == pytest.approx(
        160 * allreduce(H100, 8192 * 2, 8, backend="nccl").seconds
    )
    assert second["allreduce"] > 2 * first["allreduce"]
    assert second["context"] == pytest.approx(first["context"] + 80 * H100.constants.nccl.launch_s)
    assert general.message_link(H100, 2).latency_s == H100.constants.nccl.launch_s
    assert own.message_link(H100, 2) == own.link(H100, 2)


def test_arrays_broadcast():
    plan = ParallelPlan(tensor=2, pipeline=2, data=4, expert=8)
    batch, query, context = (
        np.array([8, 64]),
        np.array([[1], [4], [8]]),
        np.array([[[512]], [[8192]]]),
    )
    cost = plan_cost(_deployed(MIXTRAL), plan, batch=batch, query_tokens=query, context=context)
    assert cost.total_s.shape == (2, 3, 2)
    one = plan_cost(_deployed(MIXTRAL), plan, batch=64, query_tokens=4, context=8192)
    assert cost.total_s[1, 1, 1] == pytest.approx(one.total_s)
    assert cost.step_s(4)[1, 1, 1] == pytest.approx(one.step_s(4))


def test_correlated_tokens_visit_fewer_experts_under_a_plan_too():
    plan, arguments = (
        ParallelPlan(data=8, expert=8),
        {"batch": 8, "query_tokens": 8, "context": 1024},
    )
    apart = plan_cost(_deployed(MIXTRAL), plan, **arguments)
    alike = plan_cost(_deployed(MIXTRAL, expert_correlation=1.0), plan, **arguments)
    assert alike.seconds["moe"] < apart.seconds["moe"]
    assert ops.independent_tokens(8, 8, 1.0) == 8


@pytest.mark.parametrize(
    ("name", "plan", "key"),
    [("nemotron-h-8b", ParallelPlan(context=2), "cp"), (LLAMA, ParallelPlan(pipeline=81), "pp")],
)
def test_impossible_plans_are_refused(name, plan, key):
    with pytest.raises(InputError, match=key):
        plan_cost(_deployed(name), plan, batch=1, query_tokens=1, context=1)


def test_layers_that_tokens_skip_exclude_whole_experts():
    skipping = apply(_deployed(MIXTRAL), [LayerSchedule(name="half", shares=(1.0, 0.5))])
    arguments = {"batch": 8, "query_tokens": 1, "context": 128}
    assert (
        plan_cost(skipping, ParallelPlan(), **arguments).seconds
        == pass_cost(skipping, **arguments).seconds
    )
    with pytest.raises(InputError, match="ep"):
        plan_cost(skipping, ParallelPlan(data=8, expert=8), **arguments)


def test_what_was_measured_on_one_device_does_not_count():
    arguments = {"batch": 8, "query_tokens": 1, "context": 128}
    known = plan_cost(_deployed(LLAMA), ParallelPlan(tensor=2), **arguments)
    measured = plan_cost(_deployed(LLAMA, "measured"), ParallelPlan(tensor=2), **arguments)
    assert measured.seconds == known.seconds


def test_wrong_arguments_are_refused():
    for wrong in ({"batch": 0}, {"query_tokens": 0}, {"context": -1}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            plan_cost(
                _deployed(LLAMA),
                ParallelPlan(),
                **{"batch": 1, "query_tokens": 1, "context": 1, **wrong},
            )
