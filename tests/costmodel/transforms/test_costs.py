"""What transforms do to a pass: bytes by hand, bounds, and what they must leave alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.estimate import estimate, needed_bytes
from costmodel.answers.settings import build_setting
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.method_library import named_transforms, transform_names
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.memory import kv_bytes, weight_bytes
from costmodel.passes.precision import Precision
from costmodel.passes.transform import apply
from costmodel.transforms.declared import (
    CacheTransform,
    ContextTransform,
    LayerSchedule,
    SparseAttention,
    SparseFeedForward,
    WeightTransform,
)
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device

LLAMA = load_model("llama-3.1-8b")
SHEET = Deployment(
    architecture=LLAMA, device=load_device("h100-sxm"), precision=Precision(), fidelity="datasheet"
)
PLAIN = replace(SHEET, fidelity="calibrated")
LONG = {"batch": 16, "query_tokens": 1, "context": 32_768}
SHORT = {"batch": 1, "query_tokens": 1, "context": 512}


def moved(cost, name, role=""):
    return sum(
        float(o.calls * o.work.bytes) for o in cost.operations if (o.name, o.role) == (name, role)
    )


def test_pruned_weights_are_read_and_multiplied_in_part():
    sparse = apply(SHEET, named_transforms(["sparse-2-4"]))
    a, b = pass_cost(SHEET, **SHORT), pass_cost(sparse, **SHORT)
    weights = 2.0 * LLAMA.weight_values
    assert float(a.bytes - b.bytes) == pytest.approx((1 - 0.5625) * weights, rel=0.001)
    heavy = {"batch": 1, "query_tokens": 8192, "context": 0, "prefill": True}
    x, y = (float(pass_cost(d, **heavy).seconds["gemm"]) for d in (SHEET, sparse))
    assert y == pytest.approx(x / 2, rel=0.001)  # arithmetic-bound products at twice the rate
    scattered = apply(SHEET, [WeightTransform(name="scattered", kept_ratio=0.5, index_bits=16.0)])
    assert float(pass_cost(scattered, **heavy).seconds["gemm"]) == pytest.approx(
        x
    )  # zeros are multiplied


def test_unpacking_costs_the_same_at_any_batch():
    coded = apply(PLAIN, named_transforms(["dfloat11"]))
    extra = [
        float(
            pass_cost(coded, **(SHORT | {"batch": b})).total_s
            - pass_cost(PLAIN, **(SHORT | {"batch": b})).total_s
        )
        for b in (1, 16, 256)
    ]
    assert extra == pytest.approx([extra[0]] * 3, rel=1e-6)
    rate = 2.6e9 * 132
    assert extra[0] == pytest.approx(2.0 * LLAMA.weight_values / rate, rel=0.02)
    assert float(pass_cost(coded, **SHORT).seconds["gemm"]) == float(
        pass_cost(PLAIN, **SHORT).seconds["gemm"]
    )
    assert weight_bytes(LLAMA, coded.precision) == pytest.approx(0.679 * 16.06e9, rel=0.001)


def test_only_visited_experts_are_unpacked():
    moe = replace(PLAIN, architecture=load_model("qwen3-30b-a3b"))
    coded = apply(moe, named_transforms(["dfloat11"]))
    few, many = (
        moved(pass_cost(coded, **(SHORT | {"batch": b})), "elementwise", "unpack") for b in (1, 256)
    )
    assert few < 0.2 * many


@given(key=st.floats(0.05, 1.0), value=st.floats(0.05, 1.0), context=st.integers(100, 60_000))
def test_a_compressed_cache_is_read_at_its_stored_size(key, value, context):
    t = apply(SHEET, [CacheTransform(name="t", key_ratio=key, value_ratio=value)])
    point = {"batch": 4, "query_tokens": 1, "context": context}
    saved = float(pass_cost(SHEET, **point).bytes - pass_cost(t, **point).bytes)
    assert saved == pytest.approx(
        4 * (context + 1) * 131_072 * (1 - (key + value) / 2), rel=1e-6, abs=1.0
    )


def test_latest_tokens_stay_whole_in_reading_and_in_memory():
    window = CacheTransform(name="w", key_ratio=0.2, value_ratio=0.2, dense_tokens=256)
    d = apply(SHEET, [window])
    point = {"batch": 2, "query_tokens": 1}
    within = pass_cost(d, **point, context=255)
    assert float(pass_cost(SHEET, **point, context=255).bytes - within.bytes) == pytest.approx(
        2 * 131_072 * 0.8
    )
    held = [float(kv_bytes(LLAMA, d.precision, batch=1, context=c)) for c in (256, 512)]
    assert held == pytest.approx([256 * 131_072, 256 * 131_072 * 1.2])


def test_low_rank_caches_are_multiplied_out():
    cskv = apply(SHEET, named_transforms(["cskv"]))
    extra = pass_cost(cskv, **LONG).flops - pass_cost(SHEET, **LONG).flops
    expected = 32 * 2 * 16 * (32_768 - 32) * 0.4 * 1024 * 1024
    assert float(extra) == pytest.approx(expected)


def test_sparse_attention_scans_labels_and_reads_what_it_chose():
    sparse = apply(SHEET, named_transforms(["double-sparsity"]))
    cost, dense = pass_cost(sparse, **LONG), pass_cost(SHEET, **LONG)
    cache = 16 * 32_768 * 131_072.0
    assert moved(cost, "attention", "select") == pytest.approx(
        cache / 2 / 4 / 4
    )  # keys, one channel in four, 4 bits
    assert moved(cost, "attention") == pytest.approx(cache / 16, rel=0.01)
    gain = float(dense.seconds["attention"] / cost.seconds["attention"])
    print(
        f"\nDouble Sparsity, attention alone: {gain:.2f} times at its best (published: up to 14.1)"
    )
    assert gain == pytest.approx(1 / (1 / 16 + 1 / 32), rel=0.05)
    assert gain < 14.1
    assert float(kv_bytes(LLAMA, sparse.precision, batch=1, context=4096)) > float(
        kv_bytes(LLAMA, Precision(), batch=1, context=4096)
    )


def test_sparse_attention_keeps_a_least_number_and_leaves_prompts_alone():
    least = apply(PLAIN, [SparseAttention(name="s", token_ratio=0.1, least_tokens=2048, kernels=0)])
    at = {"batch": 4, "query_tokens": 1, "context": 2048}
    assert float(pass_cost(least, **at).total_s) == pytest.approx(
        float(pass_cost(PLAIN, **at).total_s)
    )
    prompt = {"batch": 1, "query_tokens": 1024, "context": 1024, "prefill": True}
    assert pass_cost(least, **prompt).total_s == pass_cost(PLAIN, **prompt).total_s


@given(
    shares=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6).filter(any),
    batch=st.integers(1, 64),
    context=st.integers(0, 20_000),
)
def test_layers_skipped_together_cost_their_share(shares, batch, context):
    d = apply(PLAIN, [LayerSchedule(name="s", shares=tuple(shares))])
    point = {"batch": batch, "query_tokens": 1, "context": context}
    cost, whole = pass_cost(d, **point), pass_cost(PLAIN, **point)
    for name in ("gemm", "attention", "elementwise"):
        expected = sum(shares) / len(shares) * float(whole.seconds[name])
        assert float(cost.seconds[name]) == pytest.approx(expected)
    assert cost.seconds["head"] == whole.seconds["head"]


@given(share=st.floats(0.05, 0.95), batch=st.integers(1, 128))
def test_tokens_that_go_their_own_ways_cost_more_than_together(share, batch):
    """Alone, a token saves what it skips; in a batch the weights are read as soon as one token
    needs them."""
    apart = apply(SHEET, [LayerSchedule(name="s", shares=(share,), together=False)])
    together = apply(SHEET, [LayerSchedule(name="s", shares=(share,))])
    point = {"batch": batch, "query_tokens": 1, "context": 1000}
    slow, fast, whole = (
        float(pass_cost(d, **point).seconds["gemm"]) for d in (apart, together, SHEET)
    )
    assert fast * (1 - 1e-9) <= slow <= whole * (1 + 1e-9)
    if batch == 1:
        assert slow == pytest.approx(fast)
    per_token = float(pass_cost(apart, **point).flops - pass_cost(together, **point).flops)
    assert per_token == pytest.approx(0.0, abs=1e-6 * float(pass_cost(SHEET, **point).flops))


def test_shared_layers_are_held_once_and_absent_caches_not_at_all():
    mor = apply(PLAIN, named_transforms(["mixture-of-recursions"]))
    layers = sum(count * block.parameters(LLAMA.hidden) for block, count in LLAMA.blocks)
    assert weight_bytes(LLAMA, Precision()) - weight_bytes(LLAMA, mor.precision) == pytest.approx(
        2 * layers * 20 / 32
    )
    whole, held = (float(kv_bytes(LLAMA, d.precision, batch=1, context=4096)) for d in (PLAIN, mor))
    assert held == pytest.approx(whole * 22 / 32)
    drop = apply(PLAIN, named_transforms(["lora-drop"]))
    kept = float(kv_bytes(LLAMA, drop.precision, batch=1, context=4096)) / whole
    gain = float(pass_cost(PLAIN, **LONG).total_s / pass_cost(drop, **LONG).total_s)
    print(
        f"\nLoRA-Drop: cache x{kept:.2f} (published 0.45 to 0.55), {gain:.2f} times at best"
        " (published up to 2.6)"
    )
    assert 0.45 <= kept <= 0.55
    assert 1.5 < gain < 2.6


def test_a_substitute_costs_two_thin_products_where_a_layer_is_skipped():
    bare = LayerSchedule(name="s", shares=(1.0, 0.25))
    d, e = (apply(SHEET, [replace(bare, substitute_rank=rank)]) for rank in (0, 16))
    extra = float(pass_cost(e, **SHORT).flops - pass_cost(d, **SHORT).flops)
    assert extra == pytest.approx(16 * 0.75 * 2 * 2 * 16 * 4096)


@pytest.mark.parametrize("name", transform_names())
def test_a_grid_equals_its_points_under_every_preset(name):
    d = apply(replace(PLAIN, architecture=load_model("gemma-2-9b")), named_transforms([name]))
    grid = pass_cost(
        d, batch=np.array([[1.0], [48.0]]), query_tokens=1, context=np.array([0.0, 700.0, 9000.0])
    ).total_s
    assert grid.shape == (2, 3)
    assert grid[1, 2] == pytest.approx(
        float(pass_cost(d, batch=48, query_tokens=1, context=9000).total_s), rel=1e-12
    )


def test_drafters_run_all_of_their_layers():
    whole = build_setting(
        DecodingConfiguration(
            method="speculative-decoding",
            draft_model="llama-3.2-1b",
            deployment=DeploymentNames(model="llama-3.1-8b"),
        )
    )
    skipping = replace(
        whole, deployment=apply(whole.deployment, named_transforms(["unified-layer-skipping"]))
    )
    a, b = (estimate(s, geometric(0.7, 3), batch=1, context=512).step for s in (whole, skipping))
    assert float(b.draft_s) == pytest.approx(float(a.draft_s))
    assert float(b.verify_s) < 0.7 * float(a.verify_s)


def test_deployments_take_names():
    plain = DecodingConfiguration(deployment=DeploymentNames(model="llama-3.1-8b"))
    names = replace(plain.deployment, transforms=("mustafar", "dfloat11"))
    compressed = build_setting(replace(plain, deployment=names))
    assert compressed.deployment == apply(
        build_setting(plain).deployment, named_transforms(["mustafar", "dfloat11"])
    )
    need = [
        float(needed_bytes(s, geometric(0.5, 0), batch=64, context=8192))
        for s in (build_setting(plain), compressed)
    ]
    assert need[1] < 0.6 * need[0]


def prompt(d, tokens=20_000):
    return pass_cost(d, batch=1, query_tokens=tokens, context=0, prefill=True, logits="last")


def test_prompts_that_attend_to_a_part_save_attention_alone():
    sparse = apply(PLAIN, [SparseAttention(name="p", prompt_ratio=0.1, prompt_kernels=2)])
    whole, part = prompt(PLAIN), prompt(sparse)
    assert float(part.seconds["gemm"]) == float(whole.seconds["gemm"])
    chosen = next(op for op in part.operations if op.role == "select")
    saved = 0.9 * float(whole.seconds["attention"])
    added = float(part.seconds["elementwise"] - whole.seconds["elementwise"])
    assert float(whole.total_s - part.total_s) == pytest.approx(saved - added)
    assert added == pytest.approx(float(chosen.timing.seconds) * LLAMA.layers)
    step = {"batch": 4, "query_tokens": 1, "context": 5000}
    assert float(pass_cost(sparse, **step).total_s) == float(pass_cost(PLAIN, **step).total_s)


def test_a_summarised_text_is_read_by_the_encoder_and_then_is_short():
    text = ContextTransform(name="t", kept_ratio=0.25, latest_tokens=128, encoder_ratio=0.25)
    short = apply(PLAIN, [text])
    kept = 128 + (20_000 - 128) / 4
    step = {"batch": 4, "query_tokens": 1}
    assert float(pass_cost(short, **step, context=20_000).total_s) == float(
        pass_cost(PLAIN, **step, context=kept).total_s
    )
    encoder = replace(PLAIN, architecture=LLAMA.with_layers(8))
    read = pass_cost(encoder, batch=1, query_tokens=20_000, context=0, prefill=True, logits="none")
    assert float(prompt(short).total_s) == pytest.approx(
        float(prompt(PLAIN, kept).total_s + read.total_s)
    )
    held = kv_bytes(LLAMA, short.precision, batch=1, context=20_000)
    assert float(held) == pytest.approx(
        0.25 * float(kv_bytes(LLAMA, PLAIN.precision, batch=1, context=20_000))
    )


def test_without_an_encoder_the_rest_of_a_text_is_dropped():
    dropped = apply(PLAIN, [ContextTransform(name="t", kept_ratio=0.5)])
    assert float(prompt(dropped).total_s) == pytest.approx(float(prompt(PLAIN, 10_000).total_s))


def test_tokens_that_use_parts_of_a_layer_read_their_union():
    part = SparseFeedForward(name="f", active_ratio=0.2, correlation=1.0, kernels=0)
    alike, own = (apply(PLAIN, [replace(part, correlation=each)]) for each in (1.0, 0.0))

    def seconds(d, rows):
        return float(pass_cost(d, batch=rows, query_tokens=1, context=100).total_s)

    assert seconds(alike, 1) == pytest.approx(seconds(own, 1)) and seconds(alike, 1) < seconds(
        PLAIN, 1
    )
    assert (
        seconds(alike, 64) < seconds(own, 64) <= 1.01 * seconds(PLAIN, 64)
    )  # choosing costs a little
    read = pass_cost(PLAIN, batch=1, query_tokens=1, context=100).bytes
    saved = float(read - pass_cost(alike, batch=1, query_tokens=1, context=100).bytes)
    layer = 3 * 4096 * 14_336 * 2
    assert saved == pytest.approx(0.8 * 32 * layer, rel=0.01)


def test_rounded_weights_are_read_as_they_are_stored():
    rounded = apply(PLAIN, [WeightTransform(name="r", bits=4.5)])
    assert weight_bytes(LLAMA, rounded.precision) < 0.36 * weight_bytes(LLAMA, PLAIN.precision)
    assert rounded.precision.read_weight_bytes == 4.5 / 8
    with pytest.raises(InputError, match="rounded once"):
        apply(rounded, [WeightTransform(name="s", bits=2.0)])
