"""Operation times: bounds and monotonicity; `tests/costmodel/calibration` holds them against measured
kernels."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.passes import kernels, ops
from hardware_profiles.loader import load_device

BF16 = {"weight_bytes": 2.0, "activation_bytes": 2.0}


@pytest.fixture(scope="module")
def h100():
    return load_device("h100-sxm")


@given(rows=st.integers(1, 4096), n=st.integers(16, 30_000), k=st.integers(16, 30_000))
def test_gemm_lies_between_its_derated_roofs_and_their_sum(rows, n, k):
    device = load_device("h100-sxm")
    work = ops.gemm(rows, n, k, **BF16)
    timing = kernels.gemm(device, work, rows, "bf16")
    moved = timing.seconds - timing.launch_s
    assert max(timing.compute_s, timing.memory_s) <= moved * (1 + 1e-12)
    assert moved <= (timing.compute_s + timing.memory_s) * (1 + 1e-12)


def test_an_infinite_norm_is_the_maximum(h100):
    sharp = replace(h100, constants=h100.constants.changed({"gemm.norm": np.inf}))
    work = ops.gemm(300, 4096, 4096, **BF16)
    timing = kernels.gemm(sharp, work, 300, "bf16")
    np.testing.assert_allclose(
        timing.seconds - timing.launch_s, max(timing.compute_s, timing.memory_s)
    )


def test_large_products_use_prefills_efficiency(h100):
    assert kernels.gemm_efficiency(h100, 1024) == pytest.approx(
        h100.constants.gemm.compute_efficiency
    )
    assert kernels.gemm_efficiency(h100, 4096) == pytest.approx(
        h100.constants.prefill.compute_efficiency
    )
    between = kernels.gemm_efficiency(h100, 2048)
    low, high = sorted(
        [h100.constants.gemm.compute_efficiency, h100.constants.prefill.compute_efficiency]
    )
    assert low < between < high


def _attention(device, *, batch, query_tokens, context, split=True, heads=32, kv_heads=8):
    work = ops.attention(
        batch,
        query_tokens,
        context,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=128,
        window=None,
        kv_bytes=2.0,
        activation_bytes=2.0,
    )
    shape = {
        "requests": batch,
        "query_tokens": query_tokens,
        "context": context,
        "heads": heads,
        "dtype": "bf16",
    }
    if split:
        return kernels.split_attention(device, work, kv_heads=kv_heads, **shape).seconds
    return kernels.unsplit_attention(device, work, kv_heads=kv_heads, **shape).seconds


@given(context=st.integers(128, 128_000), tokens=st.integers(1, 16))
def test_splitting_pays_at_long_context(context, tokens):
    device = load_device("h100-sxm")
    split = _attention(device, batch=1, query_tokens=tokens, context=context)
    whole = _attention(device, batch=1, query_tokens=tokens, context=context, split=False)
    if context >= 8192:
        assert split < whole


def test_verify_attention_is_far_from_k_separate_reads(h100):
    one = _attention(h100, batch=8, query_tokens=1, context=32_768)
    eight = _attention(h100, batch=8, query_tokens=8, context=32_768)
    assert eight < 1.2 * one


def test_allreduce_of_one_device_is_free(h100):
    assert kernels.allreduce(h100, 1e6, 1).seconds == 0.0


@given(size=st.floats(1.0, 1e8), devices=st.sampled_from([2, 4, 8]))
def test_allreduce_grows_with_the_message(size, devices):
    device = load_device("h100-sxm")
    assert (
        kernels.allreduce(device, size, devices).seconds
        <= kernels.allreduce(device, 2 * size, devices).seconds
    )


def test_rows_that_fill_no_block_take_longer_on_a_cpu_whose_profile_says_so():
    plain = load_device("cpu-generic")
    uneven = replace(
        plain, constants=plain.constants.changed({"gemm.block_rows": 4.0, "gemm.single_ratio": 2.0})
    )
    rows = np.array([1.0, 3.0, 4.0, 6.0, 8.0])
    work = ops.gemm(rows, 576, 576, **BF16)
    before, after = (
        kernels.gemm(device, work, rows, "bf16").compute_s for device in (plain, uneven)
    )
    assert after / before == pytest.approx(np.array([2.0, 2.0, 1.0, 8.0 / 6.0, 1.0]))
    assert after[1] > after[2]  # four rows are faster than three
