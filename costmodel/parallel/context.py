"""What does it cost to split the tokens of a request over devices?

Rings that pass keys and values or queries on (prompts), and the two ways to decode: a ring, or a
reduction in logarithmic depth. Leaves out uneven splits: tokens are dealt out so that causal work
is even.
"""

from typing import NamedTuple

import numpy as np

from costmodel.architectures.attention import Attention
from costmodel.parallel.collectives import all_to_all, point_to_point, ring, tree_reduction
from costmodel.parallel.plan import Link, ParallelPlan
from costmodel.passes.ops import Array, Number
from costmodel.passes.precision import Precision
from costmodel.passes.prefixes import STATISTIC_BYTES
from hardware_profiles.profile import Device


class RingTime(NamedTuple):
    """Seconds of one layer's attention with its ring.

    Args:
        seconds: all of it.
        exposed_s: communication that no arithmetic hides.
        message_bytes: sent per turn and device.
    """

    seconds: Array
    exposed_s: Array
    message_bytes: Array


def ring_attention(attention_s: Number, step_s: Number, devices: int) -> tuple[Array, Array]:
    """Seconds of N steps of attention, the message for the next step on its way meanwhile, and what
    stays exposed.

    a/N + (N - 1)·max(a/N, s): the last step sends nothing. Between max and sum of the two phases
    for every input.

    Args:
        attention_s: a, the arithmetic of one device in all steps.
        step_s: s, one message.
        devices: N.

    Reference: Liu et al., "Ring Attention" (arXiv:2310.01889), section 3.
    """
    a, s = np.asarray(attention_s, dtype=np.float64) / devices, np.asarray(step_s, dtype=np.float64)
    total = a + (devices - 1) * np.maximum(a, s)
    # arithmetic takes N·a/N in any case; the rest of the total is communication
    return np.asarray(total), np.asarray(total - devices * a)


def pass_kv(
    link: Link,
    attention: Attention,
    precision: Precision,
    plan: ParallelPlan,
    *,
    new: Number,
    cached: Number,
    attention_s: Number,
) -> RingTime:
    """One layer of a prompt of `new` tokens after `cached` ones; keys and values go round.

    A turn passes the share of all keys and values that one device holds, (T + P)/N tokens.

    Args:
        link: between neighbours of the ring.
        attention: heads of the layer.
        precision: number formats; keys and values travel in 16 bits or wider.
        plan: gives the sizes of context and tensor group.
        new: new tokens T of a request (or the sum over requests).
        cached: cached tokens P.
        attention_s: seconds of one device's attention arithmetic over all turns.

    Reference: Yang et al., "Context Parallelism for Scalable Million-Token Inference"
    (arXiv:2411.01783), 3.5.1.
    """
    tokens = (
        np.asarray(new, dtype=np.float64) + np.asarray(cached, dtype=np.float64)
    ) / plan.context
    # latent vectors are whole on every device of a tensor group; heads are replicated where they
    # are fewer than devices
    shared = 1.0 if attention.is_mla else 1.0 / min(plan.tensor, attention.kv_heads)
    message = tokens * attention.kv_values_per_token * shared * precision.residual_bytes
    total, exposed = ring_attention(attention_s, point_to_point(link, message), plan.context)
    return RingTime(total, exposed, np.asarray(message))


def pass_q(
    link: Link,
    attention: Attention,
    precision: Precision,
    plan: ParallelPlan,
    *,
    new: Number,
    attention_s: Number,
) -> RingTime:
    """One layer of a prompt of `new` tokens; queries go round and partial outputs return at the
    end.

    A turn passes T/N queries. Afterwards every device returns N - 1 partial outputs with their
    softmax statistics to their owners at once, which nothing hides.

    Args:
        link: between neighbours of the ring.
        attention: heads of the layer.
        precision: number formats.
        plan: gives the sizes of context and tensor group.
        new: new tokens T.
        attention_s: seconds of one device's attention arithmetic over all turns.

    Reference: Yang et al. (arXiv:2411.01783), 3.5.2.
    """
    n, tokens = plan.context, np.asarray(new, dtype=np.float64) / plan.context
    message = tokens * attention.query_width / plan.tensor * precision.residual_bytes
    total, exposed = ring_attention(attention_s, point_to_point(link, message), n)
    returned = all_to_all(link, n * partial_bytes(attention, precision, plan.tensor, tokens), n)
    return RingTime(total + returned, exposed + returned, np.asarray(message))


def partial_bytes(
    attention: Attention, precision: Precision, tensor: int, queries: Number
) -> Array:
    """Bytes of a partial attention result: an output vector and a softmax statistic per head and
    query.

    Args:
        attention: of the layer.
        precision: of residual vectors.
        tensor: devices that share its heads.
        queries: query tokens.
    """
    width = (
        attention.query_width if not attention.is_mla else attention.heads * attention.kv_lora_rank
    )
    per_query = width * precision.residual_bytes + attention.heads * STATISTIC_BYTES
    return np.asarray(np.asarray(queries, dtype=np.float64) * per_query / tensor)


def ring_decode(
    link: Link, attention: Attention, precision: Precision, plan: ParallelPlan, *, queries: Number
) -> Array:
    """Seconds that a ring adds to one layer of decoding: N - 1 turns of the queries, then all
    partial results.

    Requests are dealt out to the devices; each turn passes `queries`/N of them, and arithmetic this
    short hides nothing, which is why decoding slows down with N.

    Args:
        link: between neighbours.
        attention: heads of the layer.
        precision: number formats.
        plan: gives the sizes of context and tensor group.
        queries: query tokens of all requests.
    """
    n = plan.context
    if n == 1:
        return np.zeros(np.shape(queries))
    share = np.ceil(np.asarray(queries, dtype=np.float64) / n)
    turn = share * attention.query_width / plan.tensor * precision.residual_bytes
    return ring(link, turn, n) + all_to_all(
        link, n * partial_bytes(attention, precision, plan.tensor, share), n
    )


def tree_decode(
    device: Device,
    attention: Attention,
    precision: Precision,
    plan: ParallelPlan,
    *,
    queries: Number,
) -> Array:
    """Seconds that combining partial softmaxes pairwise adds to one layer of decoding: 2·log2 N
    rounds.

    Args:
        device: profile of each device.
        attention: heads of the layer.
        precision: number formats.
        plan: gives the sizes of context and tensor group and the links.
        queries: query tokens of all requests.

    Reference: Shyam et al., "Tree Attention" (arXiv:2408.04093), algorithm 3.
    """
    message = partial_bytes(attention, precision, plan.tensor, queries)
    return tree_reduction(device, plan, message, plan.context, stride=plan.tensor)
