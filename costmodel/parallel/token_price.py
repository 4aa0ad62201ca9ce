"""What does a decoded token cost at the roofs of a device, when batches are large enough to hide
the weights?

Three parts that may live on different devices: attention over the cache, the products around it,
and feed-forward layers. Leaves out weights' traffic, embedding and head, communication, and
everything that keeps a device from its roofs: a lower bound for comparing models and devices, not a
prediction.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from costmodel.architectures.architecture import Architecture
from costmodel.architectures.attention import Projection
from costmodel.passes.ops import Array, Number
from costmodel.passes.precision import Precision, bytes_per_value
from hardware_profiles.errors import InputError
from hardware_profiles.profile import Device

SECONDS_PER_HOUR = 3600.0


class TokenWork(NamedTuple):
    """What one decoded token needs, over all layers; arrays broadcast over the context.

    Args:
        cache_bytes: keys and values that it reads.
        attention_flops: of the score and value products.
        projection_flops: of the products before and after attention.
        feed_forward_flops: of dense layers, routers, shared experts and the experts it visits.
    """

    cache_bytes: Array
    attention_flops: Array
    projection_flops: float
    feed_forward_flops: float


class TokenPrice(NamedTuple):
    """Dollars of one decoded token: `attention_usd` with its projections, and
    `feed_forward_usd`.
    """

    attention_usd: Array
    feed_forward_usd: Array


def token_work(
    architecture: Architecture,
    precision: Precision,
    context: Number,
    *,
    windowed_kv: str | None = None,
    whole_latent: bool = False,
) -> TokenWork:
    """Work of one decoded token that reads `context` cached tokens.

    Args:
        architecture: the model; recurrent layers count their products only.
        precision: number formats.
        context: cached tokens, >= 0.
        windowed_kv: format of the cache in layers with a window; None: as in the others.
        whole_latent: with MLA, count the value product over the whole cached vector, its rotary
            part included, as kernels do that hold both operands in one tile.
    """
    tokens = np.asarray(context, dtype=np.float64)
    cache, flops, projections, feed_forward = np.zeros(tokens.shape), np.zeros(tokens.shape), 0, 0
    for block, count in architecture.blocks:
        a, f = block.attention, block.feed_forward
        read = tokens if a.window is None else np.minimum(tokens, float(a.window))
        quantised = a.window is not None and windowed_kv is not None
        width = bytes_per_value(windowed_kv) if quantised and windowed_kv else precision.kv_bytes
        cache = cache + count * a.kv_values_per_token * read * width
        values = a.kv_lora_rank + (a.rope_dim if whole_latent else 0)
        per_pair = a.kv_lora_rank + a.rope_dim + values if a.is_mla else 2 * a.head_dim
        flops = flops + count * 2.0 * a.heads * per_pair * read
        projections += count * _multiplications(a.projections(architecture.hidden))
        feed_forward += count * _multiplications(f.projections(architecture.hidden))
        feed_forward += (
            count
            * f.experts_per_token
            * _multiplications(f.expert_projections(architecture.hidden))
        )
    return TokenWork(np.asarray(cache), np.asarray(flops), 2.0 * projections, 2.0 * feed_forward)


def _multiplications(projections: tuple[Projection, ...]) -> int:
    return sum(outputs * inputs for _, outputs, inputs in projections)


def token_price(work: TokenWork, device: Device, dtype: str) -> TokenPrice:
    """Dollars of a token's work on a device that runs at its roofs.

    Attention: max(FLOPs / peak, bytes / bandwidth), and its projections' FLOPs / peak;
    feed-forward: FLOPs / peak.

    Args:
        work: of one token.
        device: profile with a price.
        dtype: format that the matrix units compute in.

    Raises:
        InputError: a device without a price, or without the format.

    Reference: Wang et al., "Step-3 is Large yet Affordable" (arXiv:2507.19427), section 4.2.
    """
    if device.price_usd_per_hour is None:
        raise InputError(
            f"{device.name} has no price; set device.price_usd_per_hour", key="price_usd_per_hour"
        )
    usd_per_s = device.price_usd_per_hour / SECONDS_PER_HOUR
    per_flop, per_byte = usd_per_s / device.peak(dtype), usd_per_s / device.bandwidth_bytes_per_s
    core = np.maximum(work.attention_flops * per_flop, work.cache_bytes * per_byte)
    return TokenPrice(
        np.asarray(core + work.projection_flops * per_flop),
        np.asarray(work.feed_forward_flops * per_flop),
    )


def cheapest_mix(work: TokenWork, devices: Sequence[tuple[Device, str]]) -> Array:
    """Dollars of a token whose attention and feed-forward layers each run on their cheapest device.

    Args:
        work: of one token.
        devices: devices with the format that each computes in, at least one.

    Raises:
        InputError: no device, or one without a price.
    """
    if not devices:
        raise InputError("needs at least one device", key="devices")
    prices = [token_price(work, device, dtype) for device, dtype in devices]
    attention = np.min(np.stack([price.attention_usd for price in prices]), axis=0)
    return np.asarray(
        attention + np.min(np.stack([price.feed_forward_usd for price in prices]), axis=0)
    )
