"""All-reduces: the bytes that a ring sends, counted in a ring that runs, and how many of them a
layer has."""

import numpy as np
import pytest

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.architectures.library import load_model
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.engine_library import load_engine
from costmodel.laws.acceptance import geometric
from costmodel.passes import kernels
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.precision import Precision
from hardware_profiles.loader import load_device

H100 = load_device("h100-sxm")


def ring(values):
    """Every device's sum over all, each sending one part at a time to the next one; bytes that a
    device sends."""
    devices = len(values)
    parts, sent = [np.array_split(each.copy(), devices) for each in values], 0
    for adding in (True, False):
        for turn in range(devices - 1):
            which = [(device - turn + (not adding)) % devices for device in range(devices)]
            moving = [parts[device][part].copy() for device, part in enumerate(which)]
            sent += moving[0].nbytes
            for device, part in enumerate(which):
                there = parts[(device + 1) % devices]
                there[part] = there[part] + moving[device] if adding else moving[device]
    return [np.concatenate(each) for each in parts], sent


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_a_ring_takes_its_launch_and_the_bytes_that_it_sends(devices, generator):
    values = [generator.integers(0, 100, 64 * devices) for _ in range(devices)]
    summed, sent = ring(values)
    assert all(np.array_equal(each, sum(values)) for each in summed)
    half, whole = (
        float(kernels.allreduce(H100, size, devices, backend="nccl").seconds)
        for size in (values[0].nbytes, 2 * values[0].nbytes)
    )
    rate = H100.constants.nccl.efficiency * H100.link_bytes_per_s
    assert whole - half == pytest.approx(sent / rate, rel=1e-6)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "llama-3.1-70b"])
def test_a_layer_adds_up_behind_its_attention_and_behind_its_feed_forward(name):
    """Shoeybi et al. 2019, "Megatron-LM" (arXiv:1909.08053), section 3: two all-reduces a layer of
    a forward pass."""
    target = load_model(name)
    where = Deployment(architecture=target, device=H100, precision=Precision(), tensor_parallel=4)
    message = 16 * 2 * target.hidden * 2.0  # 16 requests of 2 tokens in bf16
    found = pass_cost(where, batch=16, query_tokens=2, context=1024).seconds["allreduce"]
    assert found == pytest.approx(2 * target.layers * kernels.allreduce(H100, message, 4).seconds)


PCIE = (
    "a10",
    "a100-pcie-80",
    "h100-pcie",
    "l4",
    "l40s",
    "rtx-4090",
    "rtx-pro-6000",
    "t4",
    "v100-pcie-32",
)


@pytest.mark.parametrize("device", PCIE)
def test_more_than_two_devices_without_direct_links_reduce_by_nccl(device):
    where = load_device(device)
    expected = {"vllm": ("vllm", "nccl"), "sglang": ("vllm", "nccl"), "trtllm": ("nccl", "nccl")}
    for engine, (pair, four) in expected.items():
        rule = load_engine(engine).kernels.reductions
        assert (rule.on(where, 2), rule.on(where, 4)) == (pair, four)
        assert rule.on(H100, 8) == rule.backend


def test_bridges_join_as_many_devices_as_they_reach():
    rule = load_engine("trtllm").kernels.reductions
    found = {
        name: [rule.on(load_device(name), n) for n in (2, 4, 8)]
        for name in ("h100-nvl", "h200-nvl")
    }
    assert found == {
        "h100-nvl": ["trtllm", "nccl", "nccl"],
        "h200-nvl": ["trtllm", "trtllm", "nccl"],
    }


def test_small_messages_over_pcie_cost_what_nccl_takes():
    """Llama-3.1-70B at one request: messages of 16 KB, 7.2 us in kernels that four such devices
    cannot run."""
    target = load_model("llama-3.1-70b")
    device = load_device("l40s")
    own, ring = (
        float(kernels.allreduce(device, 16_384.0, 4, backend=each).seconds)
        for each in ("vllm", "nccl")
    )
    assert own == pytest.approx(7.2e-6, rel=0.02)
    assert ring == pytest.approx(40e-6, rel=0.02)
    where = Deployment(architecture=target, device=device, precision=Precision(), tensor_parallel=4)
    found = pass_cost(where, batch=1, query_tokens=1, context=1024).seconds["allreduce"]
    assert found == pytest.approx(2 * target.layers * ring)


def test_a_message_never_takes_longer_than_the_one_that_is_handed_over():
    for name in ("l40s", "h100-sxm", "b200-sxm"):
        for backend in ("vllm", "trtllm"):
            for devices in (2, 4, 8):
                sizes = np.geomspace(1e4, 1e8, 200)
                seconds = kernels.allreduce(
                    load_device(name), sizes, devices, backend=backend
                ).seconds
                assert (np.diff(seconds) >= -1e-12).all()


def test_a_step_of_70b_on_four_a100_over_pcie():
    names = DeploymentNames(model="llama-3-70b", device="a100-pcie-80", tensor_parallel=4)
    setting = build_setting(DecodingConfiguration(deployment=names))
    plain = estimate(setting, geometric(0.5, 0), batch=1, context=1024)
    assert float(plain.step_s) == pytest.approx(41.5e-3, rel=0.02)
