"""Corrections: interpolation against scipy's, what they leave alone, and how far they may move a
time."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import RegularGridInterpolator

from costmodel.passes import kernels, ops
from costmodel.passes.kernels.correction import by_share, by_size, interpolated
from costmodel.passes.kernels.timing import Timing, joined
from hardware_profiles.fitted.corrections import LARGEST, Correction
from hardware_profiles.loader import load_device

H100 = load_device("h100-sxm")
BF16 = {"weight_bytes": 2.0, "activation_bytes": 2.0}
AXES = ((0.0, 6.0, 10.0), (11.0, 13.0, 16.0), (11.0, 14.0))
GRID = Correction(axes=AXES, values=tuple(np.random.default_rng(0).uniform(-0.1, 0.1, 18).tolist()))


@given(
    st.lists(
        st.tuples(*(st.floats(axis[0] - 2, axis[-1] + 2) for axis in AXES)), min_size=1, max_size=8
    )
)
def test_interpolation_agrees_with_scipy_and_ends_at_the_nodes(points):
    at = np.array(points).T
    values = np.reshape(GRID.values, [len(axis) for axis in AXES])
    clipped = np.stack(
        [np.clip(x, axis[0], axis[-1]) for x, axis in zip(at, AXES, strict=True)], axis=-1
    )
    np.testing.assert_allclose(
        interpolated(GRID, *at), RegularGridInterpolator(AXES, values)(clipped), atol=1e-12
    )
    np.testing.assert_allclose(
        interpolated(GRID, at[0], at[1][:1], at[2][:1]),
        interpolated(
            GRID, at[0], np.repeat(at[1][:1], at.shape[1]), np.repeat(at[2][:1], at.shape[1])
        ),
        atol=1e-12,
    )


@given(m=st.integers(1, 8192), n=st.integers(1, 1000), k=st.integers(1, 1000))
def test_a_product_moves_by_its_correction_and_never_below_that_of_fewer_rows(m, n, k):
    correction = H100.constants.corrections["gemm"]
    bare = replace(H100, constants=replace(H100.constants, corrections={}))

    def seconds(device, rows, **outputs):
        return float(
            kernels.gemm(
                device, ops.gemm(rows, 64 * n, 64 * k, **BF16), rows, "bf16", **outputs
            ).seconds
        )

    def corrected(rows):
        logs = float(interpolated(correction, *np.log2([float(rows), 64.0 * n, 64.0 * k])))
        assert abs(logs) <= LARGEST
        return seconds(bare, rows, outputs=64 * n) * np.exp(logs)

    def no_less_than_fewer(rows):
        return max(
            map(corrected, [rows, *(2.0**node for node in correction.axes[0] if 2.0**node < rows)])
        )

    padded = [tile * math.ceil(m / tile) for tile in (16, 32, 64, 128)]
    least = min(map(no_less_than_fewer, [m, *padded]))
    assert seconds(H100, m, outputs=64 * n) == pytest.approx(least, rel=1e-9)
    assert seconds(H100, m) == seconds(bare, m)


@given(
    device=st.sampled_from(["a100-sxm-80", "h100-sxm", "b200-sxm"]),
    n=st.integers(1, 1000),
    k=st.integers(1, 1000),
    times=st.integers(2, 64),
)
def test_more_rows_never_take_less_than_one(device, n, k, times):
    rows = np.array([1.0, float(times)])
    work = ops.gemm(rows, 64 * n, 64 * k, **BF16)
    one, several = kernels.gemm(load_device(device), work, rows, "bf16", outputs=64 * n).seconds
    assert several >= one


@given(n=st.lists(st.integers(1, 1000), min_size=2, max_size=6), m=st.integers(1, 2048))
def test_products_of_many_shapes_equal_one_at_a_time(n, m):
    """As calibration asks: outputs are an array."""
    rows, outputs = np.full(len(n), float(m)), 64.0 * np.array(n)
    together = kernels.gemm(
        H100, ops.gemm(rows, outputs, 4096, **BF16), rows, "bf16", outputs=outputs
    ).seconds
    single = [
        float(kernels.gemm(H100, ops.gemm(m, x, 4096, **BF16), m, "bf16", outputs=x).seconds)
        for x in outputs
    ]
    np.testing.assert_allclose(together, single, rtol=1e-12)


@given(m=st.lists(st.integers(1, 4096), min_size=1, max_size=6))
def test_products_of_many_rows_equal_one_at_a_time(m):
    rows = np.array(m, dtype=float)
    together = kernels.gemm(
        H100, ops.gemm(rows, 4096, 4096, **BF16), rows, "bf16", outputs=4096
    ).seconds
    single = [
        float(kernels.gemm(H100, ops.gemm(x, 4096, 4096, **BF16), x, "bf16", outputs=4096).seconds)
        for x in rows
    ]
    np.testing.assert_allclose(together, single, rtol=1e-12)


def summed(compute_s, memory_s, launch_s):
    """The simplest form: arithmetic and traffic one after the other."""
    return Timing(launch_s + compute_s + memory_s, compute_s, memory_s, launch_s)


@given(scale=st.floats(0.1, 10.0))
def test_a_correction_by_share_is_the_same_on_any_clock(scale):
    def corrected(clock):
        memory, launch = np.asarray(5e-6 * clock), np.asarray(4e-6 * clock)

        def form(compute):
            return summed(compute, memory, launch)

        return by_share(H100, form(np.asarray(1e-6 * clock)), "moe", form)

    one, other = corrected(1.0), corrected(scale)
    assert float(other.seconds) == pytest.approx(scale * float(one.seconds))
    assert float(one.launch_s / one.seconds) == pytest.approx(0.4)


@given(tokens=st.integers(1, 4096), experts=st.integers(1, 128), faster=st.floats(1.0, 8.0))
def test_faster_arithmetic_never_makes_experts_slower(tokens, experts, faster):
    peaks = {dtype: peak * faster for dtype, peak in H100.peak_flops_per_s.items()}
    work = ops.experts(
        tokens,
        float(experts),
        hidden=2048,
        width=1408,
        matrices=3,
        experts_per_token=6,
        weight_bytes=2.0,
        experts=experts,
        few_rows=8,
        many_rows=64,
        activation_bytes=2.0,
    )
    one, other = (
        kernels.experts(device, work, float(experts), "bf16", hidden=2048, width=1408).seconds
        for device in (H100, replace(H100, peak_flops_per_s=peaks))
    )
    assert float(other) <= float(one) * (1 + 1e-3)  # a table bends between its nodes


def test_without_a_table_a_time_stays():
    timing = Timing(*(np.asarray(x) for x in (4.0, 1.0, 2.0, 1.0)))
    bare = replace(H100, constants=replace(H100.constants, corrections={}))
    assert by_share(bare, timing, "moe", lambda compute: timing) is timing
    assert by_size(bare, timing, *(np.ones(1),) * 3, lambda few: timing, np.ones((1, 1))) is timing


@given(x=st.floats(0.0, 1e3), y=st.floats(0.0, 1e3), p=st.floats(1.0, 20.0))
def test_a_norm_lies_between_the_maximum_and_the_sum(x, y, p):
    found = float(joined(np.asarray(x), np.asarray(y), p))
    assert max(x, y) * (1 - 1e-12) <= found <= (x + y) * (1 + 1e-12)
    assert found == pytest.approx((x**p + y**p) ** (1 / p), rel=1e-9) or max(x, y) < 1e-10
