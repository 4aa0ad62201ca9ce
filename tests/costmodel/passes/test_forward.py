"""Passes: sums over layers, monotonicity, tensor parallelism, and refusals."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.precision import Precision, precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device


def deployment(model="llama-3.1-8b", device="h100-sxm", **keywords):
    return Deployment(
        architecture=load_model(model),
        device=load_device(device),
        precision=Precision(),
        **keywords,
    )


def seconds(d, **point):
    return float(pass_cost(d, **point).total_s)


def test_datasheet_decode_reads_every_weight_once():
    d = deployment(fidelity="datasheet")
    cost = pass_cost(d, batch=1, query_tokens=1, context=0)
    assert cost.bytes == pytest.approx(2.0 * d.architecture.weight_values, rel=0.01)
    assert cost.total_s == pytest.approx(cost.bytes / d.device.bandwidth_bytes_per_s, rel=0.001)
    assert cost.flops == pytest.approx(2.0 * d.architecture.weight_values, rel=0.01)
    assert str(cost.limit) == "bandwidth"


@pytest.mark.parametrize(
    "model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "gemma-2-9b", "qwen3-30b-a3b"]
)
def test_calibrated_is_never_faster_than_the_datasheet(model):
    grid = {
        "batch": np.array([1, 8, 64])[:, None],
        "query_tokens": np.array([1, 4])[None, :],
        "context": 2048,
    }
    fast = pass_cost(deployment(model, fidelity="datasheet"), **grid).total_s
    slow = pass_cost(deployment(model), **grid).total_s
    assert np.all(slow > 0.95 * fast)  # one fitted efficiency exceeds 1 by 2 %


@given(
    batch=st.integers(1, 256),
    tokens=st.integers(1, 16),
    context=st.integers(0, 32_768),
    factor=st.floats(1.0, 4.0),
)
def test_faster_hardware_is_never_slower(batch, tokens, context, factor):
    d = deployment()
    point = {"batch": batch, "query_tokens": tokens, "context": context}
    base = seconds(d, **point)
    wide = replace(d.device, bandwidth_bytes_per_s=d.device.bandwidth_bytes_per_s * factor)
    peaks = {name: peak * factor for name, peak in d.device.peak_flops_per_s.items()}
    strong = replace(d.device, peak_flops_per_s=peaks)
    assert seconds(replace(d, device=wide), **point) <= base * (1 + 1e-12)
    assert seconds(replace(d, device=strong), **point) <= base * (1 + 1e-12)


@given(batch=st.integers(1, 255), tokens=st.integers(1, 15), context=st.integers(0, 30_000))
def test_datasheet_cost_grows_with_work(batch, tokens, context):
    d = deployment(fidelity="datasheet")
    base = seconds(d, batch=batch, query_tokens=tokens, context=context)
    assert seconds(d, batch=batch + 1, query_tokens=tokens, context=context) >= base
    assert seconds(d, batch=batch, query_tokens=tokens + 1, context=context) >= base
    assert seconds(d, batch=batch, query_tokens=tokens, context=context + 100) >= base


@given(batch=st.integers(1, 64), tokens=st.integers(1, 8))
def test_a_grid_equals_its_points(batch, tokens):
    d = deployment("mixtral-8x7b")
    grid = pass_cost(
        d,
        batch=np.array([1, batch])[:, None, None],
        query_tokens=np.array([tokens, 3])[None, :, None],
        context=np.array([0, 777, 9000]),
    ).total_s
    assert grid.shape == (2, 2, 3)
    assert grid[1, 0, 2] == pytest.approx(
        seconds(d, batch=batch, query_tokens=tokens, context=9000), rel=1e-12
    )


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("mixtral-8x7b", {}),
        ("deepseek-v2-lite", {}),
        ("nemotron-h-8b", {}),
        ("mixtral-8x7b", {"expert_correlation": 0.5}),
        (
            "qwen3-30b-a3b",
            {"precision": Precision(weights="fp8", activations="fp8"), "tensor_parallel": 2},
        ),
    ],
)
def test_many_scattered_points_equal_single_ones(model, changes):
    """What rows alone decide is worked out once per distinct number of them; every point still gets
    its own."""
    d, generator = replace(deployment(model), **changes), np.random.default_rng(7)
    points = {
        "batch": generator.integers(1, 65, 4000).astype(float),
        "query_tokens": generator.integers(1, 9, 4000).astype(float),
        "context": generator.integers(0, 20_000, 4000).astype(float),
    }
    cost = pass_cost(d, **points)
    for i in (0, 1234, 3999):
        one = pass_cost(d, **{name: float(values[i]) for name, values in points.items()})
        assert float(cost.total_s[i]) == pytest.approx(float(one.total_s), rel=1e-12)
        for name in ("flops", "bytes", "compute_s", "memory_s", "launch_s"):
            assert float(np.broadcast_to(getattr(cost, name), 4000)[i]) == pytest.approx(
                float(getattr(one, name))
            )
        assert len(cost.operations) == len(one.operations)
        for many, alone in zip(cost.operations, one.operations, strict=True):
            assert (many.name, many.role) == (alone.name, alone.role)
            assert float(np.broadcast_to(many.timing.seconds, 4000)[i]) == pytest.approx(
                float(alone.timing.seconds)
            )
            for size, value in (alone.sizes or {}).items():
                assert float(np.broadcast_to(many.sizes[size], 4000)[i]) == pytest.approx(
                    float(value)
                )
    assert all(
        np.broadcast_shapes(np.shape(o.timing.seconds), (4000,)) == (4000,) for o in cost.operations
    )


def test_tensor_parallelism_splits_weights_and_pays_for_messages():
    one = pass_cost(deployment("llama-3.1-70b", "h100-sxm"), batch=16, query_tokens=1, context=1024)
    four = pass_cost(
        deployment("llama-3.1-70b", "h100-sxm", tensor_parallel=4),
        batch=16,
        query_tokens=1,
        context=1024,
    )
    assert four.bytes == pytest.approx(one.bytes / 4, rel=0.02)
    assert "allreduce" not in one.seconds
    assert four.seconds["allreduce"] > 0
    assert one.total_s / 4 < four.total_s < one.total_s / 2


def test_expert_correlation_only_removes_expert_traffic():
    free = deployment("qwen3-30b-a3b")
    tied = replace(free, expert_correlation=0.9)
    point = {"batch": 4, "query_tokens": 8, "context": 512}
    a, b = pass_cost(free, **point), pass_cost(tied, **point)
    assert b.seconds["moe"] < a.seconds["moe"]
    assert {k: float(v) for k, v in a.seconds.items() if k != "moe"} == {
        k: float(v) for k, v in b.seconds.items() if k != "moe"
    }


def test_unsplit_verify_costs_more_at_long_context_only_for_several_tokens():
    split, whole = deployment(), deployment(split_verify=False)
    long = {"batch": 1, "context": 65_536}
    assert seconds(whole, query_tokens=1, **long) == seconds(split, query_tokens=1, **long)
    assert seconds(whole, query_tokens=4, **long) > 1.5 * seconds(split, query_tokens=4, **long)


def test_quantised_weights_read_fewer_bytes():
    d = deployment()
    small = replace(d, precision=precision("int4"))
    point = {"batch": 1, "query_tokens": 1, "context": 0}
    read = [
        sum(
            float(o.calls * o.work.bytes)
            for o in pass_cost(each, **point).operations
            if o.name != "head"
        )
        for each in (small, d)
    ]
    assert read[0] < 0.3 * read[1]  # the head stays in 16 bits


def test_prefill_needs_one_row_of_logits_per_request():
    d = deployment()
    last = pass_cost(d, batch=2, query_tokens=512, context=0, logits="last", prefill=True)
    every = pass_cost(d, batch=2, query_tokens=512, context=0, logits="all", prefill=True)
    assert last.seconds["head"] < every.seconds["head"]
    assert str(last.limit) == "compute"
    assert "head" not in pass_cost(d, batch=2, query_tokens=512, context=0, logits="none").seconds


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"batch": 0}, "batch"),
        ({"query_tokens": float("nan")}, "query_tokens"),
        ({"context": -1}, "context"),
        ({"batch": np.array([1.0, np.inf])}, "batch"),
    ],
)
def test_bad_points_are_refused(change, key):
    point = {"batch": 1, "query_tokens": 1, "context": 1} | change
    with pytest.raises(InputError) as caught:
        pass_cost(deployment(), **point)
    assert caught.value.key == key


def test_a_degree_that_does_not_divide_the_heads_is_refused():
    with pytest.raises(InputError, match="divide the heads"):
        deployment("smollm2-135m", tensor_parallel=2)
    with pytest.raises(InputError, match="expert_correlation"):
        deployment(expert_correlation=1.5)


def test_published_decode_rate_of_an_engine():
    """SGLang decodes Llama-3.1-8B on an H100 at 158.34 tokens/s (EAGLE-3 paper, table 2): passes
    take most of it."""
    assert (
        0.85 / 158.34 < seconds(deployment(), batch=1, query_tokens=1, context=512) < 1.1 / 158.34
    )


@given(st.floats(1e-9, 2e-3), st.floats(0.0, 2e-3), st.integers(1, 64), st.integers(1, 64))
def test_a_pass_that_is_launched_layer_by_layer_takes_the_longer_of_host_and_device(
    layer_s, pass_s, batch, query
):
    point = {"batch": batch, "query_tokens": query, "context": 512}
    captured, eager = deployment(), deployment(host_layer_s=layer_s, host_pass_s=pass_s)
    host_s = layer_s * eager.architecture.layers + pass_s
    assert seconds(eager, **point) == pytest.approx(
        max(seconds(captured, **point), host_s), rel=1e-9
    )


def test_waiting_for_the_host_is_launch_time():
    cost = pass_cost(deployment(host_layer_s=1e-2), batch=1, query_tokens=1, context=0)
    assert str(cost.limit) == "launch"
    assert float(sum(op.calls * op.timing.seconds for op in cost.operations)) == pytest.approx(
        float(cost.total_s)
    )
