"""How long do messages between devices take?

One message, exchanges of everyone with everyone, rings, and reductions in logarithmic depth, over
one or two levels of links. The all-reduce inside a node stands in `kernels`. Leaves out traffic of
others on the same links.
"""

import math

import numpy as np

from costmodel.parallel.plan import Link, ParallelPlan
from costmodel.passes import kernels
from costmodel.passes.ops import Array, Number
from hardware_profiles.profile import Device


def point_to_point(link: Link, message_bytes: Number) -> Array:
    """Seconds of one message: latency + bytes / rate.

    Args:
        link: between the two devices.
        message_bytes: of it.
    """
    return np.asarray(
        link.latency_s + np.asarray(message_bytes, dtype=np.float64) / link.bytes_per_s
    )


def all_to_all(link: Link, sent_bytes: Number, devices: int) -> Array:
    """Seconds in which every device spreads `sent_bytes` evenly over all, its own share staying at
    home.

    latency + (N - 1)/N · bytes / rate; nothing for one device.

    Args:
        link: of every device to the others.
        sent_bytes: by one device, its own share included.
        devices: N.
    """
    if devices == 1:
        return np.zeros(np.shape(sent_bytes))
    return point_to_point(link, np.asarray(sent_bytes, dtype=np.float64) * (devices - 1) / devices)


def ring(link: Link, step_bytes: Number, devices: int) -> Array:
    """Seconds of N - 1 turns of a ring in which every device passes `step_bytes` on.

    Args:
        link: to the next device.
        step_bytes: passed on in a turn.
        devices: N.
    """
    return np.asarray((devices - 1) * point_to_point(link, step_bytes))


def tree_reduction(
    device: Device, plan: ParallelPlan, message_bytes: Number, devices: int, *, stride: int = 1
) -> Array:
    """Seconds to combine a message of every device pairwise: log2 N rounds, and as many to hand the
    result back.

    Rounds inside a node run over its links, the others between nodes; all of them are one call.

    Args:
        device: profile of each device.
        plan: gives node size and links.
        message_bytes: of one device.
        devices: N.
        stride: distance of neighbouring members in device numbers.

    Reference: Shyam et al., "Tree Attention" (arXiv:2408.04093), section 5.
    """
    launched = devices > 1 and plan.backend == "nccl"
    total = np.full(np.shape(message_bytes), device.constants.nccl.launch_s if launched else 0.0)
    for turn in range(math.ceil(math.log2(devices))):
        span = min(2 ** (turn + 1), devices) * stride
        total = total + 2.0 * point_to_point(plan.link(device, span), message_bytes)
    return total


def all_reduce(
    device: Device, plan: ParallelPlan, message_bytes: Number, devices: int, *, graphs: bool = True
) -> Array:
    """Seconds of an all-reduce over the plan's tensor group, across nodes where it spans several.

    In a node: the device's own all-reduce. Across M nodes of m devices: a reduction within the
    nodes, an all-reduce of 1/m of the message over M ring members, and its return, of which the
    first and last together cost as much as one all-reduce within a node. Engines' own kernels write
    into their peers' memory, which ends with the link: what spans nodes is NCCL's.

    Args:
        device: profile.
        plan: how devices share the model.
        message_bytes: reduced per device.
        devices: of the group.
        graphs: whether the call is captured in a graph.
    """
    size = np.asarray(message_bytes, dtype=np.float64)
    node = plan.node_of(device)
    inside = min(devices, node)
    nodes = math.ceil(devices / node)
    backend = plan.backend if nodes == 1 else "nccl"
    local = kernels.allreduce(device, size, inside, graphs=graphs, backend=backend).seconds
    if nodes == 1:
        return np.asarray(local)
    link = plan.link(device, devices)
    return np.asarray(local + 2.0 * ring(link, size / inside / nodes, nodes))
