"""All-reduces: the bytes that a ring sends, counted in a ring that runs, and how many of them a layer has."""

import numpy as np
import pytest

from costmodel.architectures.library import load_model
from costmodel.passes import kernels
from costmodel.passes.forward import Deployment, pass_cost
from costmodel.passes.precision import Precision
from hardware_profiles.loader import load_device

H100 = load_device("h100-sxm")


def ring(values):
    """Every device's sum over all, each sending one part at a time to the next one; bytes that a device sends."""
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
    rate = H100.constants.nccl_efficiency * H100.link_bytes_per_s
    assert whole - half == pytest.approx(sent / rate, rel=1e-6)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "llama-3.1-70b"])
def test_a_layer_adds_up_behind_its_attention_and_behind_its_feed_forward(name):
    """Shoeybi et al. 2019, "Megatron-LM" (arXiv:1909.08053), section 3: two all-reduces a layer of a forward pass."""
    target = load_model(name)
    where = Deployment(architecture=target, device=H100, precision=Precision(), tensor_parallel=4)
    message = 16 * 2 * target.hidden * 2.0  # 16 requests of 2 tokens in bf16
    found = pass_cost(where, batch=16, query_tokens=2, context=1024).seconds["allreduce"]
    assert found == pytest.approx(2 * target.layers * kernels.allreduce(H100, message, 4).seconds)
