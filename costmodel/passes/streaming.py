"""What does a pass cost when a share of the weights stays in the host's memory?

Layers are fetched over the link to the host while others compute. Leaves out partial residency by expert popularity.
"""

from dataclasses import replace

import numpy as np

from costmodel.passes.deployment import Deployment
from costmodel.passes.kernels import Timing
from costmodel.passes.memory import layer_weight_bytes
from costmodel.passes.ops import Array, Number, Work
from costmodel.passes.totals import Operation, Operations, PassCost

HOST_LATENCY_S = 1e-5  # ASSUMED: one copy from host memory, call included


def streamed_s(pass_s: Number, streamed_bytes: Number, bytes_per_s: float, *, latency_s: float, layers: int) -> Array:
    """Seconds of a pass whose operands partly come over a link.

    The next layer's operands travel while one computes: the larger of both, and the smaller one's first layer, during
    which nothing overlaps.

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


def with_streamed_weights(deployment: Deployment, cost: PassCost) -> PassCost:
    """A pass that fetches the deployment's share of its layers from the host, one layer before it is needed.

    Args:
        deployment: gives the share, the link and the weights.
        cost: of the pass with all weights on the device.
    """
    d, layers = deployment, deployment.architecture.layers
    moved = d.host_weights_ratio * layer_weight_bytes(d.architecture, d.precision, d.tensor_parallel)
    whole = streamed_s(cost.total_s, moved, d.device.host_link_bytes_per_s, latency_s=HOST_LATENCY_S, layers=layers)
    waiting = np.asarray(whole - cost.total_s)
    zero = np.zeros(())
    fetch = Operation("host_fetch", Timing(waiting, zero, waiting, zero), Work(zero, np.asarray(moved)))
    return replace(
        cost, seconds={**cost.seconds, "host_fetch": waiting}, memory_s=cost.memory_s + waiting,
        operations=Operations(cost.operations, (fetch,)),
    )  # fmt: skip
