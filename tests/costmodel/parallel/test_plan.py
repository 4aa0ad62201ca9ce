"""How a model is divided: sizes, links, and what the fullest device holds."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.parallel.plan import (
    Link,
    ParallelPlan,
    fullest_share,
    kv_bytes,
    stage_layers,
    weight_bytes,
)
from costmodel.passes import memory
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device

BF16 = Precision()
POWERS = st.sampled_from([1, 2, 4, 8])
NAMES = st.sampled_from(["llama-3-70b", "mixtral-8x7b", "deepseek-v2-lite", "gemma-2-9b"])


@given(layers=st.integers(1, 200), stages=st.integers(1, 200))
def test_stages_hold_every_layer_and_differ_by_at_most_one(layers, stages):
    each = stage_layers(layers, stages)
    assert sum(each) == layers
    assert len(each) == stages
    assert max(each) - min(each) <= 1
    assert list(each) == sorted(each, reverse=True)


@given(
    name=NAMES,
    weights=st.sampled_from(["bf16", "fp8", "int4"]),
    held=st.floats(0.2, 1.0),
    batch=st.integers(1, 99),
    context=st.integers(0, 50_000),
)
def test_a_plan_of_ones_holds_the_whole_model(name, weights, held, batch, context):
    model, form = (
        load_model(name),
        Precision(weights=weights, held_layers_ratio=held, held_cache_ratio=held),
    )
    assert weight_bytes(model, form, ParallelPlan()) == pytest.approx(
        memory.weight_bytes(model, form), rel=1e-12
    )
    cache = {"batch": batch, "context": context}
    assert kv_bytes(model, form, ParallelPlan(), **cache) == memory.kv_bytes(model, form, **cache)


@given(name=NAMES, tensor=POWERS)
def test_a_tensor_group_holds_the_model_once(name, tensor):
    model = load_model(name)
    spread = weight_bytes(model, BF16, ParallelPlan(tensor=tensor))
    assert tensor * spread == pytest.approx(memory.weight_bytes(model, BF16), rel=1e-12)


@pytest.mark.parametrize("stages", [2, 4, 8])
def test_a_pipeline_holds_every_layer_once(stages):
    model = load_model("llama-3-70b")
    layers = weight_bytes(model, BF16, ParallelPlan(pipeline=stages))
    head = (
        2.0 * model.hidden * (model.vocab + 1)
    )  # with the last norm; the embedding is as large without it
    inner = memory.weight_bytes(model, BF16) - head - 2.0 * model.embedding_parameters
    assert stages * (layers - head) == pytest.approx(inner, rel=1e-12)


@given(data=POWERS, tensor=POWERS)
def test_an_expert_group_holds_every_expert_once(data, tensor):
    model = load_model("mixtral-8x7b")
    group = data * tensor
    if group > 8:
        return
    apart = ParallelPlan(data=data, tensor=tensor, expert=group)
    block = model.blocks[0][0].feed_forward
    routed = 2.0 * 32 * block.experts * block.expert_parameters(model.hidden)
    dense = memory.weight_bytes(model, BF16) - routed
    assert weight_bytes(model, BF16, apart) == pytest.approx(
        dense / tensor + routed / group, rel=1e-12
    )


@given(name=NAMES, tensor=POWERS, pipeline=POWERS, key=st.sampled_from(["tensor", "pipeline"]))
def test_more_devices_never_hold_more(name, tensor, pipeline, key):
    model, plan = load_model(name), ParallelPlan(tensor=tensor, pipeline=pipeline)
    more = replace(plan, **{key: 2 * getattr(plan, key)})
    assert weight_bytes(model, BF16, more) <= weight_bytes(model, BF16, plan)
    cache = {"batch": 32, "context": 10_000}
    assert kv_bytes(model, BF16, more, **cache) <= kv_bytes(model, BF16, plan, **cache)


@given(
    key=st.sampled_from(["data", "context"]),
    size=POWERS,
    batch=st.integers(1, 300),
    context=st.integers(1, 50_000),
)
def test_the_cache_is_dealt_out_whole(key, size, batch, context):
    model = load_model("llama-3-70b")
    alone = kv_bytes(model, BF16, ParallelPlan(), batch=batch, context=context)
    share = kv_bytes(model, BF16, ParallelPlan(**{key: size}), batch=batch, context=context)
    assert share <= alone
    assert size * share >= alone


def test_key_value_heads_are_repeated_where_the_group_is_larger():
    model = load_model("llama-3-70b")  # eight key/value heads
    at_8 = kv_bytes(model, BF16, ParallelPlan(tensor=8), batch=1, context=1024)
    assert kv_bytes(model, BF16, ParallelPlan(tensor=16), batch=1, context=1024) == at_8


def test_links_within_and_between_nodes():
    h100, own = load_device("h100-sxm"), Link(bytes_per_s=1e9, latency_s=1e-3)
    plan = ParallelPlan()
    assert plan.link(h100, 8).bytes_per_s == h100.link_bytes_per_s
    assert plan.link(h100, 9).bytes_per_s == 50e9
    assert ParallelPlan(within=own, between=own).link(h100, 2) is own
    assert ParallelPlan(within=own, between=own).link(h100, 99) is own
    slow = replace(h100, link_bytes_per_s=30e9)
    assert plan.link(slow, 9).bytes_per_s == 30e9


def test_devices_are_counted():
    plan = ParallelPlan(tensor=2, pipeline=3, data=4, context=5, expert=8)
    assert (plan.stage_devices, plan.devices) == (40, 120)
    assert fullest_share(load_model("llama-3.1-8b"), ParallelPlan(pipeline=3)) == 11 / 32


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"tensor": 0}, "tensor"),
        ({"backend": "mpi"}, "backend"),
        ({"expert": 2}, "expert"),
        ({"data": 4, "expert": 4, "imbalance": 0.9}, "imbalance"),
        ({"data": 4, "expert": 4, "imbalance": 5.0}, "imbalance"),
    ],
)
def test_wrong_sizes_are_refused(wrong, key):
    with pytest.raises(InputError, match=key):
        ParallelPlan(**wrong)


@pytest.mark.parametrize(
    ("plan", "model", "key"),
    [
        (ParallelPlan(pipeline=33), "llama-3.1-8b", "pp"),
        (ParallelPlan(data=2, expert=2), "llama-3.1-8b", "ep"),
        (ParallelPlan(tensor=3), "llama-3.1-8b", "tp"),
        (ParallelPlan(data=16, expert=16), "mixtral-8x7b", "ep"),
    ],
)
def test_plans_that_do_not_divide_the_model_are_refused(plan, model, key):
    with pytest.raises(InputError, match=key):
        plan.check(load_model(model))


@pytest.mark.parametrize(
    "wrong", [{"bytes_per_s": 0.0, "latency_s": 0.0}, {"bytes_per_s": 1.0, "latency_s": -1.0}]
)
def test_wrong_links_are_refused(wrong):
    with pytest.raises(InputError, match="link"):
        Link(**wrong)
