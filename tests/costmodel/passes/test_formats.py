"""Formats belong to parts of a checkpoint; devices compute in what they have."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model, model_names
from costmodel.passes.deployment import Deployment
from costmodel.passes.formats import (
    PLAIN,
    RECIPES,
    arithmetic,
    bytes_per_value,
    recipe_names,
    recipe_parts,
)
from costmodel.passes.forward import pass_cost
from costmodel.passes.memory import weight_bytes, weight_values
from costmodel.passes.precision import Precision, Stored, precision
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import device_names, load_device
from hardware_profiles.units import GIB, GIGA
from tests.every import every

LLAMA = load_model("llama-3.1-8b")
POINT = {"batch": 4.0, "query_tokens": 1.0, "context": 512.0}

# Sizes on Hugging Face: hugging-quants/Meta-Llama-3.1-8B-Instruct-AWQ-INT4 and -GPTQ-INT4,
# RedHatAI's w4a16 and FP8, and the files of bartowski/Meta-Llama-3.1-8B-Instruct-GGUF, which hold 7
# MB of tokens beside the weights.
PUBLISHED_GB = {
    "awq": 5.73,
    "AWQ": 5.73,
    "gptq": 5.73,
    "int4": 5.73,
    "w4a16": 5.70,
    "fp8": 9.08,
    "bf16": 16.06,
    "q8_0": 8.54,
    "q6_k": 6.60,
    "Q5_K_M": 5.73,
    "q5_k_s": 5.60,
    "q4_k_m": 4.92,
    "Q4_K_S": 4.69,
    "q3_k_l": 4.32,
    "q3_k_m": 4.02,
    "q3_k_s": 3.66,
    "q2_k": 3.18,
    "q4_0": 4.66,
}


@every("recipe, gigabytes", PUBLISHED_GB.items())
def test_recipes_weigh_what_their_published_checkpoints_weigh(recipe, gigabytes):
    assert weight_bytes(LLAMA, precision(recipe, model=LLAMA)) / GIGA == pytest.approx(
        gigabytes, rel=0.004
    )


def test_scales_of_groups_and_zero_points_count():
    assert bytes_per_value("int4-g128-zp") == 0.5 + 2.5 / 128
    assert bytes_per_value("int8-g64-zp") == 1 + 3 / 64
    assert bytes_per_value("fp8-block") == 1 + 4 / 128**2


@pytest.mark.parametrize(
    "name", ["fp4-g16-zp", "fp8-block-zp", "bf16/experts=int3", "bf16/attention=fp8", "/head=fp8"]
)
def test_what_names_no_format_of_a_part_is_refused(name):
    with pytest.raises((UnknownNameError, InputError)):
        precision(name)


def test_parts_are_asked_for_their_own_format():
    form = precision("bf16/experts=fp4-g32/head=fp8")
    assert (form.weights, form.of("experts").weights, form.of("head").weights) == (
        "bf16",
        "fp4-g32",
        "fp8",
    )
    assert form.of("head").activations == "fp8" and form.experts_alone
    assert form.label == "bf16/experts=fp4-g32/head=fp8"
    plain = precision("bf16")
    assert plain.of("experts") is plain and plain.of("head") is plain


@every("name", [*RECIPES, "fp8", "fp8-block", "int8", "fp4", "int4-g64", "fp8-g128"])
def test_head_and_embedding_of_quantised_checkpoints_stay_in_16_bits(name):
    form = precision(name)
    assert (form.of("head").weights, form.of("head").activations, form.embedding_bytes) == (
        "bf16",
        "bf16",
        2.0,
    )


@given(
    st.sampled_from(model_names()),
    st.sampled_from([name for name in recipe_names() if name not in PLAIN]),
)
def test_weights_are_the_sum_of_their_parts(name, recipe):
    model = load_model(name)
    form, values = precision(recipe, model=model), weight_values(model)
    assert sum(values) == model.parameters
    parts = (
        values.matrices * form.weight_bytes,
        values.experts * form.of("experts").weight_bytes,
        values.head * form.of("head").weight_bytes,
        values.embedding * form.embedding_bytes,
    )
    assert weight_bytes(model, form) == pytest.approx(sum(parts))
    assert weight_bytes(model, form) <= weight_bytes(model, precision("fp32"))


# "needs 217.7 GiB" in bf16; the sizes of the published repositories
CHECKPOINTS_GB = {
    "gpt-oss-20b": (13.8, 0.01),
    "gpt-oss-120b": (65.2, 0.01),
    "deepseek-v3": (673, 0.005),
    "kimi-k2": (1029, 0.01),
    "kimi-k2.5": (594, 0.01),
    "minimax-m2": (230, 0.01),
}


@every("name, size", CHECKPOINTS_GB.items())
def test_shipped_models_are_in_the_format_of_their_published_checkpoint(name, size):
    model = load_model(name)
    assert weight_bytes(model, precision(model.dtype, model=model)) / GIGA == pytest.approx(
        size[0], rel=size[1]
    )


def test_gpt_oss_fits_one_h100():
    model = load_model("gpt-oss-120b")
    assert (
        weight_bytes(model, precision(model.dtype, model=model))
        < 0.8 * load_device("h100-sxm").memory_bytes
    )
    assert weight_bytes(model, precision("bf16")) > 217 * GIB


@every("device", device_names())
def test_every_device_computes_every_recipe_in_a_format_that_it_has(device):
    profile, moe = load_device(device), load_model("gpt-oss-20b")
    for name in recipe_names():
        form = precision(name, model=moe, device=profile)
        for part in (form, form.of("experts"), form.of("head")):
            assert part.activations in profile.peak_flops_per_s, (name, part)
            if part.weights not in PLAIN:
                stated = recipe_parts(name, moe)
                assert part.weights in (stated.matrices, stated.experts, stated.head)


@pytest.mark.parametrize(
    ("device", "name", "computed", "wide"),
    [
        ("apple-m3-max", "q4_k_m", "fp16", "fp16"),
        ("t4", "q4_k_m", "fp16", "fp16"),
        ("v100-sxm-32", "q4_k_m", "fp16", "fp16"),
        ("a100-sxm-80", "fp8", "bf16", "bf16"),
        ("a100-sxm-80", "fp8-block", "bf16", "bf16"),
        ("a100-sxm-80", "w8a8", "int8", "bf16"),
        ("h100-sxm", "fp8", "fp8", "bf16"),
        ("h100-sxm", "nvfp4", "bf16", "bf16"),
        ("b200-sxm", "nvfp4", "fp4", "bf16"),
    ],
)
def test_a_device_without_arithmetic_of_a_format_stores_it_and_computes_in_one_that_it_has(
    device, name, computed, wide
):
    own = precision(name, model=LLAMA, device=load_device(device))
    assert (own.activations, own.wide, own.kv) == (computed, wide, wide)
    assert own.weight_bytes == pytest.approx(
        precision(name, model=LLAMA).weight_bytes
    )  # nothing is widened in memory
    deployment = Deployment(architecture=LLAMA, device=load_device(device), precision=own)
    assert float(pass_cost(deployment, **POINT).total_s) > 0


@pytest.mark.parametrize(
    ("device", "computed"), [("h100-sxm", "bf16"), ("b200-sxm", "fp8"), ("v100-sxm-32", "fp16")]
)
def test_mxfp4_is_multiplied_with_8_bits_where_there_are_4_bit_matrix_units(device, computed):
    form = precision("mxfp4", device=load_device(device))
    assert form.of("experts") == replace(
        form, weights="fp4-g32", activations=computed, experts=None
    )
    assert form.weights in ("bf16", "fp16") and form.weights == form.activations


def test_arithmetic_of_plain_formats_is_their_own_where_there_is_some():
    assert arithmetic("bf16", {"fp16", "fp32"}) == "fp16"
    assert arithmetic("fp32", {"fp16", "fp32"}) == "fp32"
    assert arithmetic("q4_k:0.9+q6_k:0.1", {"fp32"}) == "fp32"


def test_a_16_bit_head_is_read_and_computed_in_16_bits():
    d = Deployment(architecture=LLAMA, device=load_device("h100-sxm"), precision=Precision())
    wide, narrow = (
        pass_cost(replace(d, precision=each), **POINT) for each in (Precision(), precision("fp8"))
    )
    assert narrow.seconds["head"] == wide.seconds["head"]
    assert narrow.seconds["gemm"] < 0.75 * wide.seconds["gemm"]


def test_experts_alone_move_expert_products_alone():
    model = load_model("gpt-oss-20b")
    d = Deployment(architecture=model, device=load_device("h100-sxm"), precision=Precision())
    wide, alone = (
        pass_cost(replace(d, precision=each), **POINT) for each in (Precision(), precision("mxfp4"))
    )
    assert alone.seconds["moe"] < 0.6 * wide.seconds["moe"]
    for name in ("gemm", "attention", "head"):
        assert alone.seconds[name] == wide.seconds[name]


def test_experts_that_quantise_their_inputs_do_so_in_a_kernel_of_their_own():
    model = load_model("gpt-oss-20b")
    form = Precision(experts=Stored("fp4-g32", "fp8"))
    d = Deployment(architecture=model, device=load_device("b200-sxm"), precision=form)
    quantised = {
        float(o.work.bytes) for o in pass_cost(d, **POINT).operations if o.role == "quantise"
    }
    assert quantised == {3.0 * 4 * (model.hidden + 4 * 2880)}
