"""Number formats: widths by hand, and what stays in 16 bits between narrow products."""

import csv
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.passes import kernels, ops
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.memory import kv_bytes, weight_bytes
from costmodel.passes.precision import (
    BYTES_PER_VALUE,
    Precision,
    bytes_per_value,
    main_format,
    precision,
)
from costmodel.passes.transformed_operations import narrowing
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.fitted.formats import WEIGHT_FORMATS, FormatGroup
from hardware_profiles.loader import load_device

LLAMA = load_model("llama-3.1-70b")
WIDE = Deployment(
    architecture=LLAMA, device=load_device("h100-sxm"), precision=Precision(), tensor_parallel=4
)
FP8 = replace(WIDE, precision=precision("fp8"))
POINT = {"batch": 32, "query_tokens": 4, "context": 4096}


def test_widths_by_hand():
    assert bytes_per_value("int4-g128") == 0.5 + 2 / 128
    assert bytes_per_value("int4-g64") == bytes_per_value("int4")
    assert bytes_per_value("fp4-g16") == bytes_per_value("fp4")
    assert bytes_per_value("fp4-g32") == 0.5 + 1 / 32  # MXFP4
    assert bytes_per_value("fp8-g128") == 1 + 2 / 128
    narrow = ("fp8", "fp8-g128", "int8")
    assert [precision(name).activations for name in narrow] == ["fp8", "fp8", "int8"]
    assert {
        precision(name).activations for name in ("bf16", "int8-g128", "int4", "int4-g32", "fp4")
    } == {"bf16"}


@given(st.sampled_from(("fp8", "int8", "int4", "fp4")), st.integers(1, 999_998))
def test_larger_groups_are_narrower_and_never_below_the_values(name, size):
    assert (
        bytes_per_value(f"{name}-g{size}")
        > bytes_per_value(f"{name}-g{size + 1}")
        > (0.4 if "4" in name else 0.9)
    )


@given(
    st.lists(st.tuples(st.sampled_from(WEIGHT_FORMATS), st.integers(1, 99)), min_size=1, max_size=4)
)
def test_a_mix_is_as_wide_as_its_parts_and_has_the_format_of_most_weights(parts):
    total = sum(count for _, count in parts)
    shares = [(name, round(count / total, 6)) for name, count in parts]
    mix = "+".join(f"{name}:{share:.6f}" for name, share in shares)
    assert bytes_per_value(mix) == pytest.approx(
        sum(share * BYTES_PER_VALUE[name] for name, share in shares)
    )
    assert dict(shares)[main_format(mix)] == max(share for _, share in shares) or len(
        dict(shares)
    ) < len(shares)
    assert precision(mix).embedding_bytes == bytes_per_value(mix)
    assert precision(mix).activations == "bf16"


@pytest.mark.parametrize("name", ["q4_1:0.5+q8_0:0.6", "q4_1:0.5"])
def test_shares_of_a_mix_add_up(name):
    with pytest.raises(InputError, match="add up to 1"):
        precision(name)


@pytest.mark.parametrize(
    "name", ["q4_1:", "q4_1:half+q8_0:0.5", ":1.0", "q9_0:1.0", "q4_1:0.5+q8_0:0.5:0.1"]
)
def test_mixes_that_cannot_be_read_are_refused(name):
    with pytest.raises(UnknownNameError, match="number format"):
        precision(name)


def test_products_of_blocks_take_the_profiles_constants_for_that_format_and_other_operations_do_not():
    device = load_device("cpu-generic")
    gemm = device.constants.gemm
    slower = replace(gemm, compute_efficiency=gemm.compute_efficiency * 0.5)
    own = replace(
        device, formats={"q4_1": {"gemm": FormatGroup(constants=slower, residual_ratio=0.1)}}
    )
    small, point = load_model("smollm2-135m"), {"batch": 1, "query_tokens": 64, "context": 512}

    def cost(dtype, where):
        return pass_cost(
            Deployment(architecture=small, device=where, precision=precision(dtype)), **point
        )

    before, after = cost("q4_1:0.8+q8_0:0.2", device), cost("q4_1:0.8+q8_0:0.2", own)
    assert float(after.seconds["gemm"]) > 1.2 * float(before.seconds["gemm"])
    assert after.seconds["attention"] == before.seconds["attention"]
    assert float(cost("q8_0", own).total_s) == float(cost("q8_0", device).total_s)


@pytest.mark.parametrize(
    "name", ["int3", "int4-g0", "int4-g", "bf16-g64", "int4-g128-g64", "INT4", ""]
)
def test_unknown_formats_are_refused(name):
    for key in ("weights", "kv"):
        with pytest.raises(UnknownNameError, match="number format"):
            Precision(**{key: name})
    with pytest.raises(InputError):
        Precision(activations=name)


def test_arithmetic_has_no_groups():
    with pytest.raises(InputError, match="no groups"):
        Precision(activations="int8-g64")


def test_what_travels_between_quantised_products_keeps_16_bits():
    """An 8-bit engine still norms, adds and reduces in 16 bits: only weights and the products'
    inputs shrink."""
    wide, narrow = pass_cost(WIDE, **POINT), pass_cost(FP8, **POINT)
    assert narrow.seconds["allreduce"] == wide.seconds["allreduce"]
    norms = {
        name: float(
            sum(
                o.calls * o.work.bytes
                for o in cost.operations
                if o.name == "elementwise" and not o.role
            )
        )
        for name, cost in (("wide", wide), ("narrow", narrow))
    }
    assert norms["narrow"] == norms["wide"]
    assert narrow.seconds["attention"] == wide.seconds["attention"]
    assert narrow.seconds["gemm"] < 0.75 * wide.seconds["gemm"]


def test_a_quantised_product_reads_quantised_and_writes_16_bits():
    role, rows = "gate_up", 32 * 4
    n, k = 2 * 28_672 / 4, 8192
    (gemm,) = {float(o.work.bytes) for o in pass_cost(FP8, **POINT).operations if o.role == role}
    assert gemm == n * k + rows * (k + 2.0 * n)


def test_activations_are_quantised_in_a_pass_of_their_own():
    """One launch per vector; every input is read in 16 bits and written in 8."""
    quantised = [o for o in pass_cost(FP8, **POINT).operations if o.role == "quantise"]
    rows = 32 * 4
    per_layer = rows * (8192 + 8192 / 4 + 8192 + 28_672 / 4)
    assert float(quantised[0].work.bytes) == 3.0 * per_layer
    assert [each.calls for each in quantised] == [80]  # the layers: the head computes in 16 bits
    c = WIDE.device.constants
    assert float(quantised[0].timing.launch_s) == pytest.approx(4 * c.elementwise.kernel_s)
    assert not [o for o in pass_cost(WIDE, **POINT).operations if o.role == "quantise"]
    weights_alone = replace(WIDE, precision=precision("int4"))
    assert not [o for o in pass_cost(weights_alone, **POINT).operations if o.role == "quantise"]


def test_experts_are_quantised_too():
    moe = Deployment(
        architecture=load_model("mixtral-8x7b"), device=WIDE.device, precision=precision("fp8")
    )
    operations = pass_cost(moe, batch=4, query_tokens=1, context=0).operations
    (narrowing,) = [o for o in operations if o.role == "quantise" and o.calls > 1]
    h = 4096
    inputs = 4 * (
        h + h + h + 2 * 14_336
    )  # qkv, output; router and experts read one vector; inner vectors of two
    assert float(narrowing.work.bytes) == 3.0 * inputs
    assert float(narrowing.timing.launch_s) == pytest.approx(
        4 * moe.device.constants.elementwise.kernel_s
    )


@given(
    kv=st.sampled_from(["bf16", "fp8", "int8", "int4-g64", "fp4"]),
    batch=st.integers(1, 64),
    context=st.integers(0, 30_000),
)
def test_a_quantised_cache_is_never_slower_and_holds_less(kv, batch, context):
    narrow = replace(WIDE, precision=Precision(kv=kv))
    point = {"batch": batch, "query_tokens": 1, "context": context}
    wide_cost, cost = pass_cost(WIDE, **point), pass_cost(narrow, **point)
    assert cost.total_s <= wide_cost.total_s * (1 + 1e-12)
    held = [
        float(kv_bytes(LLAMA, p, batch=batch, context=context))
        for p in (narrow.precision, Precision())
    ]
    assert held[0] == pytest.approx(held[1] * bytes_per_value(kv) / 2.0)


def test_attention_computes_quantised_only_over_a_quantised_cache():
    assert precision("fp8").attention == "bf16"
    assert precision("fp8", "fp8").attention == "fp8"
    assert [precision(name).attention for name in ("bf16", "fp16", "fp32", "int4")] == [
        "bf16",
        "fp16",
        "fp32",
        "bf16",
    ]


def test_plain_formats_are_as_wide_as_ever():
    """No group, no transform: the widths that other packages read."""
    for name, width in BYTES_PER_VALUE.items():
        p = Precision(weights=name, kv=name)
        assert (p.weight_bytes, p.read_weight_bytes, p.kv_bytes, p.dense_kv_bytes) == (width,) * 4
        assert p.embedding_bytes == (width if name in WEIGHT_FORMATS else max(width, 2.0))
    assert weight_bytes(LLAMA, precision("int4-g128")) < weight_bytes(LLAMA, precision("int4"))


def test_weights_of_any_width_decode_in_the_order_of_their_widths():
    names = ("bf16", "fp8-g128", "int4", "int4-g128")
    seconds = [
        float(
            pass_cost(
                replace(WIDE, precision=precision(n)), batch=1, query_tokens=1, context=0
            ).total_s
        )
        for n in names
    ]
    assert np.all(np.diff(seconds) < 0)


def test_measured_fp8_products_include_the_quantisation(reference_data):
    """Public fp8 rows take their input in 16 bits: with 16-bit constants, the pass beside the
    product is missed."""
    with (reference_data / "kernels" / "gemm_h100_sxm.csv").open(encoding="utf-8") as stream:
        rows = [
            row for row in csv.DictReader(stream) if row["dtype"] == "fp8" and int(row["m"]) <= 512
        ]
    m, n, k, us = (np.array([float(row[name]) for row in rows]) for name in ("m", "n", "k", "us"))
    cold = n * k + 2.0 * m * (n + k) > 1.5 * WIDE.device.cache_bytes
    m, n, k, measured_s = m[cold], n[cold], k[cold], us[cold] * 1e-6
    narrow = ops.gemm(m, n, k, weight_bytes=1.0, activation_bytes=1.0)
    mixed = narrow._replace(bytes=narrow.bytes + m * n)  # outputs in 16 bits
    d = replace(FP8, tensor_parallel=1)
    alone = kernels.gemm(d.device, narrow, m, "fp8", outputs=n).seconds
    both = (
        kernels.gemm(d.device, mixed, m, "fp8", outputs=n).seconds
        + narrowing(d, m * k, 1).timing.seconds
    )
    before, after = (np.median(seconds / measured_s - 1) for seconds in (alone, both))
    print(
        f"\n{len(m)} fp8 products on H100: {before:+.1%} without narrowing, {after:+.1%} with it"
        " (medians)"
    )
    assert len(m) > 3000
    assert abs(after) < abs(before)
    assert abs(after) < 0.15
