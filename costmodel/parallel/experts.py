"""What does it cost to keep each expert whole on one of several devices?

Bytes that tokens send to their experts and back, and the work of the busiest device. Leaves out
copies of popular experts and overlap of the exchange with attention (take the larger of the two
where an engine has it).
"""

from typing import NamedTuple

import numpy as np

from costmodel.architectures.architecture import FeedForward
from costmodel.parallel.collectives import all_to_all, ring
from costmodel.parallel.plan import Link, ParallelPlan
from costmodel.passes import ops
from costmodel.passes.ops import Array, Number, Work
from costmodel.passes.precision import Precision
from hardware_profiles.profile import Device

_CHOICE_BYTES = 4 + 4  # an expert's index and its weight


class Exchange(NamedTuple):
    """Seconds and bytes (sent by one device) of an expert layer's dispatch and combination.

    Attributes:
        dispatch_s: to send tokens to their experts.
        combine_s: to bring the results back.
        dispatch_bytes: sent by one device on the way there.
        combine_bytes: sent by one device on the way back.
    """

    dispatch_s: Array
    combine_s: Array
    dispatch_bytes: Array
    combine_bytes: Array


def destinations(experts: int, experts_per_token: int, devices: int) -> float:
    """Distinct devices among those of a token's k experts, chosen at random without repetition.

    N·(1 - C(E - E/N, k)/C(E, k)): a device is missed when all k lie elsewhere.

    >>> destinations(256, 8, 1), destinations(8, 2, 8)
    (1.0, 2.0)

    Args:
        experts: E.
        experts_per_token: k.
        devices: N, over which experts are spread evenly.
    """
    elsewhere, missed = experts - experts // devices, 1.0
    for chosen in range(experts_per_token):
        missed *= max(elsewhere - chosen, 0) / (experts - chosen)
    return devices * (1.0 - missed)


def exchange(
    device: Device,
    plan: ParallelPlan,
    feed_forward: FeedForward,
    precision: Precision,
    *,
    tokens: Number,
    hidden: int,
) -> Exchange:
    """Dispatch and combination of one expert layer.

    A token's vector goes once to every device that holds one of its experts, in the format of
    activations, and comes back from each as a partial sum in 16 bits or wider. The busiest device
    receives `imbalance` times the mean, and everybody waits for it.

    Args:
        device: profile of each device.
        plan: gives the expert group and its links.
        feed_forward: the expert layer.
        precision: number formats.
        tokens: tokens that start on each device.
        hidden: width of a token's vector.

    Reference: DeepSeek-AI, "DeepSeek-V3" (arXiv:2412.19437), section 3.2.2.
    """
    copies = destinations(feed_forward.experts, feed_forward.experts_per_token, plan.expert)
    values = np.asarray(tokens, dtype=np.float64) * copies * feed_forward.expert_input(hidden)
    sent, returned = (
        values * precision.of("experts").activation_bytes,
        values * precision.residual_bytes,
    )
    link = plan.message_link(device, plan.expert)
    return Exchange(
        dispatch_s=all_to_all(link, plan.imbalance * sent, plan.expert),
        combine_s=all_to_all(link, plan.imbalance * returned, plan.expert),
        dispatch_bytes=np.asarray(sent * (plan.expert - 1) / plan.expert),
        combine_bytes=np.asarray(returned * (plan.expert - 1) / plan.expert),
    )


def gathered_exchange(
    link: Link, *, tokens: Number, token_bytes: float, ranks: int, choices: int
) -> Exchange:
    """Dispatch and combination of one expert layer where every rank gathers the tokens of all.

    What vLLM does where no library for sparse exchanges is installed: an all-gather of vectors and
    of each token's choices, and a reduce-scatter of the partial sums. Whoever has most tokens
    decides.

    Args:
        link: between neighbouring ranks.
        tokens: of the fullest rank.
        token_bytes: of a token's vector, there and back.
        ranks: that exchange tokens.
        choices: experts per token, each an index and a weight of four bytes.

    Reference: vLLM, vllm/distributed/device_communicators/all2all.py, `AgRsAll2AllManager`.

    >>> sent = gathered_exchange(Link(bytes_per_s=16e9, latency_s=20e-6), tokens=100, token_bytes=4096.0, ranks=2,
    ...     choices=8)
    >>> round(float(sent.dispatch_s) * 1e6, 1), round(float(sent.combine_s) * 1e6, 1)
    (46.0, 45.6)
    """
    back = np.asarray(tokens, dtype=np.float64) * token_bytes
    there = back + np.asarray(tokens, dtype=np.float64) * choices * _CHOICE_BYTES
    return Exchange(
        dispatch_s=ring(link, there, ranks),
        combine_s=ring(link, back, ranks),
        dispatch_bytes=np.asarray(there * (ranks - 1)),
        combine_bytes=np.asarray(back * (ranks - 1)),
    )


def busiest_work(
    device: Device,
    plan: ParallelPlan,
    feed_forward: FeedForward,
    precision: Precision,
    *,
    group_tokens: Number,
    independent_tokens: Number,
    hidden: int,
    tile_rows: tuple[float, float] | None = None,
) -> tuple[Work, Array]:
    """FLOPs and bytes of the busiest expert device, and the experts it reads.

    Args:
        device: profile of each device.
        plan: gives the expert group and its imbalance.
        feed_forward: the expert layer.
        precision: number formats.
        group_tokens: tokens of the whole expert group.
        independent_tokens: as many as these choose their experts independently of each other.
        hidden: width of a token's vector.
        tile_rows: rows of tiles up to as many tokens as experts, and above; None: the profile's.
    """
    c = device.constants
    few_rows, many_rows = tile_rows or (c.moe.few_rows, c.moe.many_rows)
    share, own = plan.imbalance / plan.expert, precision.of("experts")
    local_experts = feed_forward.experts / plan.expert
    mean = (
        ops.distinct_experts(
            independent_tokens, feed_forward.experts, feed_forward.experts_per_token
        )
        / plan.expert
    )
    visited = np.minimum(mean * plan.imbalance, local_experts)
    work = ops.experts(
        np.asarray(group_tokens, dtype=np.float64) * share,
        visited,
        hidden=feed_forward.expert_input(hidden),
        width=feed_forward.width,
        matrices=3 if feed_forward.gated else 2,
        experts_per_token=feed_forward.experts_per_token,
        weight_bytes=own.read_weight_bytes,
        activation_bytes=own.activation_bytes,
        experts=max(1, round(local_experts)),
        few_rows=few_rows,
        many_rows=many_rows,
    )
    return work, np.asarray(visited)
