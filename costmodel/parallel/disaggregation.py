"""What does it cost to run the phases of a request on different devices?

Prefill disaggregated from decoding, with the cache sent over; attention disaggregated from
feed-forward layers, as a pipeline of micro-batches. Leaves out queues between the two sides (see
`serving` and the simulator).
"""

from typing import NamedTuple

import numpy as np

from costmodel.architectures.architecture import Architecture
from costmodel.passes.ops import Array, Number
from costmodel.passes.precision import Precision


def cache_bytes(architecture: Architecture, precision: Precision, tokens: Number) -> Array:
    """Bytes of one request's cache of `tokens` tokens over all layers; windows bound their
    layers.

    Args:
        architecture: of the model.
        precision: of its cache.
        tokens: of the request.
    """
    count = np.asarray(tokens, dtype=np.float64)
    total = np.zeros(np.shape(count))
    for block, layers in architecture.blocks:
        a = block.attention
        kept = count if a.window is None else np.minimum(count, float(a.window))
        total = (
            total
            + layers * (a.kv_values_per_token * precision.kv_bytes + a.index_bytes_per_token) * kept
        )
    return np.asarray(total)


class SplitLayers(NamedTuple):
    """Decoding with attention and feed-forward layers on different devices.

    Args:
        step_s: seconds in which every micro-batch advances by one token.
        tokens_per_s: of all micro-batches together.
        limit: the busiest part: `attention`, `feed_forward`, `communication`, or `latency` where
            the micro-batches are too few to keep any part busy.
    """

    step_s: Array
    tokens_per_s: Array
    limit: Array


def split_layers(
    attention_s: Number,
    feed_forward_s: Number,
    message_s: Number,
    *,
    layers: int,
    micro_batches: int = 3,
    requests: Number = 1.0,
) -> SplitLayers:
    """Attention-FFN disaggregation: micro-batches circulate between two groups of devices, layer by
    layer.

    A micro-batch takes a + x + f + x per layer; the two directions of the link are independent, so
    that the busiest part serves m micro-batches per layer: step = L·max(a + f + 2x, m·max(a, f,
    x)). Three micro-batches hide communication entirely where a = f = x.

    Args:
        attention_s: a, seconds of one layer's attention for one micro-batch.
        feed_forward_s: f, seconds of one layer's feed-forward for one micro-batch.
        message_s: x, seconds of one direction's message.
        layers: L.
        micro_batches: m in flight, >= 1.
        requests: of all micro-batches together; each emits one token per step.

    Reference: Wang et al., "Step-3 is Large yet Affordable" (arXiv:2507.19427), section 4.
    """
    a, f, x = (np.asarray(v, dtype=np.float64) for v in (attention_s, feed_forward_s, message_s))
    parts = np.stack(np.broadcast_arrays(a, f, x))
    busy, alone = micro_batches * parts.max(axis=0), a + f + 2.0 * x
    names = np.array(["attention", "feed_forward", "communication", "latency"])
    limit = np.where(alone > busy, 3, np.argmax(parts, axis=0))
    step = layers * np.maximum(busy, alone)
    return SplitLayers(np.asarray(step), np.asarray(requests / step), np.asarray(names[limit]))
