"""Expert layers: what their time goes with beside arithmetic and traffic, and how far it may be off
in kernels that no table timed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.passes import kernels, ops
from costmodel.passes.expert_kernels import OTHER_SPREAD, with_expert_spread
from costmodel.passes.precision import Precision
from hardware_profiles.loader import load_device


def layer(device, *, hidden, width, visited=128.0):
    """Time of 64 tokens of 8 of 128 experts, without the correction of the profile."""
    work = ops.experts(
        64,
        visited,
        hidden=hidden,
        width=width,
        matrices=3,
        experts_per_token=8,
        weight_bytes=2.0,
        activation_bytes=2.0,
    )
    return kernels.experts(device, work, visited, "bf16", hidden=hidden, width=width)


@pytest.mark.parametrize("name", ["h100-sxm", "a100-sxm-80"])
@pytest.mark.parametrize("width", [88, 232, 360])
def test_widths_that_are_no_multiple_of_16_cost_more_than_wider_ones(name, width):
    device = load_device(name)
    aligned = layer(device, hidden=4096, width=16 * math.ceil(width / 16))
    assert layer(device, hidden=4096, width=width).memory_s > 1.3 * aligned.memory_s


def test_a_visited_expert_costs_in_proportion_to_the_width_of_the_model():
    device = load_device("mi300x")  # a relative's constants come without their correction
    c = device.constants.moe
    for hidden in (2048, 4096, 8192):
        launch = layer(device, hidden=hidden, width=512).launch_s
        assert launch == pytest.approx(c.launch_s + 128 * c.expert_s * hidden / 4096)


@given(width=st.integers(1, 20_000))
def test_narrow_weights_are_filled_up_and_16_bit_ones_are_not(width):
    assert ops.stored_width(width, 2.0) == width
    stored = ops.stored_width(width, 0.53125)
    assert stored % 16 == 0 and width <= stored < width + 16


def test_intervals_are_wider_where_no_table_timed_the_format():
    h100, b200 = load_device("h100-sxm"), load_device("b200-sxm")
    sixteen, fp8 = Precision(), Precision(weights="fp8", activations="fp8")
    assert with_expert_spread(h100, sixteen) is h100
    assert with_expert_spread(b200, fp8) is b200, "whose tables have the format"
    wider = with_expert_spread(h100, fp8).constants
    residual = h100.constants.residual_ratio["moe"]
    assert np.log1p(wider.residual_ratio["moe"]) == pytest.approx(OTHER_SPREAD * np.log1p(residual))
    for own, other in zip(
        h100.constants.residuals.regimes["moe"], wider.residuals.regimes["moe"], strict=True
    ):
        assert other.low_ratio <= own.low_ratio and other.high_ratio >= own.high_ratio
    assert wider.moe == h100.constants.moe
