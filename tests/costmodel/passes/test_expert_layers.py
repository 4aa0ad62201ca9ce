"""Expert layers: what their time goes with beside arithmetic and traffic."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.engine_library import load_engine
from costmodel.passes import kernels, ops
from costmodel.passes.deployment import Deployment
from costmodel.passes.eight_bit import with_eight_bit_products
from costmodel.passes.expert_kernels import expert_kernel
from costmodel.passes.forward import pass_cost
from costmodel.passes.precision import Precision, precision
from hardware_profiles.loader import load_device


def layer(device, *, hidden, width, visited=128.0):
    """Time of 64 tokens of 8 of 128 experts."""
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
    device = load_device("h200-sxm")  # a relative's constants come without their correction
    c = device.constants.moe
    for hidden in (2048, 4096, 8192):
        launch = layer(device, hidden=hidden, width=512).launch_s
        assert launch == pytest.approx(c.launch_s + 128 * c.expert_s * hidden / 4096)


@given(width=st.integers(1, 20_000))
def test_packed_weights_are_filled_up_and_16_bit_ones_are_not(width):
    assert kernels.stored_width(width, 2.0) == width
    stored = kernels.stored_width(width, 0.53125)
    assert stored % 16 == 0 and width <= stored < width + 16


def test_vllm_pads_experts_of_four_bits():
    """gpt-oss, 2880 wide with experts of 2880: 3072 by 384 on one of eight devices."""
    model, device = load_model("gpt-oss-120b"), load_device("h100-sxm")
    settings = {"architecture": model, "device": device, "tensor_parallel": 8}
    deployment = Deployment(**settings, precision=precision("bf16/experts=fp4-g32"))
    padded = load_engine("vllm").running(deployment)
    assert padded.padded_experts == (256, 128)
    plain = replace(padded, padded_experts=(1, 1))

    def read(d):
        cost = pass_cost(d, batch=8, query_tokens=1, context=1024)
        return sum(float(op.work.bytes) for op in cost.operations if op.name == "moe")

    assert read(padded) / read(plain) == pytest.approx(3072 / 2880 * 384 / 360, rel=0.02)
    sixteen = Deployment(**settings, precision=Precision())
    assert load_engine("vllm").running(sixteen).padded_experts == (1, 1)


@pytest.mark.parametrize(
    ("name", "kernel", "form", "ratio"),
    [("b200-sxm", "deepgemm", "8/8", 1.45), ("h100-sxm", "cutlass", "8/8", 1.0)],
)
def test_few_tokens_in_an_engines_kernel(name, kernel, form, ratio):
    device = load_device(name)

    def seconds(chosen):
        return kernels.engine_experts(
            device,
            lambda few, many: ops.experts(
                16,
                100.0,
                hidden=7168,
                width=256,
                matrices=3,
                experts_per_token=8,
                weight_bytes=1.0,
                activation_bytes=1.5,
            ),
            100.0,
            "fp8",
            kernel=chosen,
            tokens=16,
            hidden=7168,
            width=256,
            row_bytes=0.0,
        ).seconds

    own = seconds(expert_kernel(device, kernel, form))
    assert float(own) == pytest.approx(ratio * float(seconds(None)))


@pytest.mark.parametrize("name", ["mi300x", "mi325x", "mi355x"])
def test_products_on_cdna_reach_less_with_scales_by_block(name):
    """AITER's tuned kernels: 0.43 to 0.45 of the peak with a scale a row, 0.25 to 0.31 by block."""

    def share(model, form):
        deployment = Deployment(
            architecture=load_model(model), device=load_device(name), precision=precision(form)
        )
        return with_eight_bit_products(deployment).device.constants.prefill.compute_efficiency

    assert 0.4 < share("llama-3.1-8b", "fp8") < 0.5
    assert 0.2 < share("deepseek-r1", "fp8-block") < 0.35
