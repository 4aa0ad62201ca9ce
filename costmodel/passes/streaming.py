"""What does a pass cost when a share of the weights or of the cache stays in the host's memory?

Layers are fetched over the link to the host while others compute. Leaves out partial residency by
expert popularity, and attention that the host itself computes.
"""

from dataclasses import replace

import numpy as np

from costmodel.passes.deployment import Deployment
from costmodel.passes.kernels import Timing
from costmodel.passes.memory import kv_bytes, layer_weight_bytes
from costmodel.passes.ops import Array, Number, Work
from costmodel.passes.totals import Operation, Operations, PassCost
from hardware_profiles.profile import Device

HOST_LATENCY_S = 1e-5  # ASSUMED: one copy from host memory, call included
# of a link's nominal rate, copied from pinned memory by nvbandwidth: 23.9 to 26.4 of 32 GB/s on
# eight RTX 4090 (NVIDIA/nvbandwidth, issue 15), 25.1 on an A100-SXM4-40GB (issue 42), 56.3 of 64 on
# RTX 5090 (tinygrad/open-gpu-kernel-modules, issue 29); ASSUMED of links other than PCIe
HOST_LINK_EFFICIENCY = 0.8


def host_rate(device: Device) -> float:
    """Bytes per second that copies from the host's memory reach; a CPU's profile states what was
    timed.

    Args:
        device: whose nominal rate is known.
    """
    return device.host_link_bytes_per_s * (1.0 if device.kind == "cpu" else HOST_LINK_EFFICIENCY)


def streamed_s(
    pass_s: Number, streamed_bytes: Number, bytes_per_s: float, *, latency_s: float, layers: int
) -> Array:
    """Seconds of a pass whose operands partly come over a link.

    The next layer's operands travel while one computes: the larger of both, and the smaller one's
    first layer, during which nothing overlaps.

    Args:
        pass_s: seconds of the pass with everything at hand.
        streamed_bytes: fetched per pass.
        bytes_per_s: rate of the link.
        latency_s: of one fetch.
        layers: pieces that the pass is fetched in.

    Reference: Sheng et al., "FlexGen" (arXiv:2303.06865), section 4.1.
    """
    p = np.asarray(pass_s, dtype=np.float64)
    moved = np.asarray(streamed_bytes, dtype=np.float64)
    fetch = np.where(moved > 0.0, moved / bytes_per_s + layers * latency_s, 0.0)
    return np.asarray(np.maximum(p, fetch) + np.minimum(p, fetch) / layers)


def with_streaming(
    deployment: Deployment, cost: PassCost, *, batch: Number, context: Number
) -> PassCost:
    """A pass that fetches the deployment's shares of weights and cache from the host, one layer
    before each is needed.

    Args:
        deployment: gives the shares, the link and the weights.
        cost: of the pass with everything on the device.
        batch: requests.
        context: cached tokens per request.
    """
    d, layers = deployment, deployment.architecture.layers
    moved: Number = d.host_weights_ratio * layer_weight_bytes(
        d.architecture, d.precision, d.tensor_parallel
    )
    if d.host_cache_ratio:
        cache_bytes = kv_bytes(
            d.architecture,
            d.precision,
            batch=batch,
            context=context,
            tensor_parallel=d.tensor_parallel,
            page_tokens=1,
        )
        moved = moved + d.host_cache_ratio * cache_bytes
    whole = streamed_s(
        cost.total_s, moved, host_rate(d.device), latency_s=HOST_LATENCY_S, layers=layers
    )
    waiting = np.asarray(whole - cost.total_s)
    zero = np.zeros(())
    fetch = Operation(
        "host_fetch", Timing(waiting, zero, waiting, zero), Work(zero, np.asarray(moved))
    )
    return replace(
        cost,
        seconds={**cost.seconds, "host_fetch": waiting},
        memory_s=cost.memory_s + waiting,
        operations=Operations(cost.operations, (fetch,)),
    )
