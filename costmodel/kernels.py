"""How long does each operation take on a device?

Two fidelities. `datasheet`: the larger of the two roofs, nothing else. `calibrated`: launch times, achieved
fractions and a p-norm between the roofs, with the constants of the device profile. Leaves out cache-warm
operands and tile quantisation of matrix products beyond 64-row attention tiles.
"""

from typing import NamedTuple

import numpy as np

from costmodel.ops import Array, Number, Work
from hardware_profiles.profile import Device

ROW_TILE = 64  # query rows that one attention tile holds
SPLIT_CONTEXT = 128  # least context of one split


class Timing(NamedTuple):
    """Seconds of one operation and the three bounds it is made of; arrays that broadcast."""

    seconds: Array
    compute_s: Array
    memory_s: Array
    launch_s: Array


def roofline(device: Device, work: Work, dtype: str) -> Timing:
    """The larger of FLOPs over peak and bytes over bandwidth: a lower bound on any implementation.

    Args:
        device: profile.
        work: FLOPs and bytes.
        dtype: format that the matrix units compute in.

    Reference: Williams, Waterman, Patterson 2009, "Roofline", equation 1.
    """
    compute = work.flops / device.peak(dtype)
    memory = work.bytes / device.bandwidth_bytes_per_s
    return Timing(np.maximum(compute, memory), compute, memory, np.zeros(()))


def _norm(x: Array, y: Array, p: float) -> Array:
    """(x^p + y^p)^(1/p), computed from the larger of the two; the maximum where p is infinite."""
    large = np.maximum(x, y)
    if np.isinf(p):
        return large
    ratio = np.minimum(x, y) / np.maximum(large, 1e-300)
    return np.asarray(large * (1.0 + ratio**p) ** (1.0 / p))


def gemm_efficiency(device: Device, rows: Number) -> Array:
    """Share of the peak that a matrix product reaches: the decode constant to 512 rows, prefill's from 2048.

    Between them it moves linearly in the logarithm of the rows.
    """
    c = device.constants
    position = np.clip(np.log2(np.maximum(rows, 1.0) / 512.0) / 2.0, 0.0, 1.0)
    return np.asarray(c.gemm_compute_efficiency + position * (c.prefill_compute_efficiency - c.gemm_compute_efficiency))


def gemm(device: Device, work: Work, rows: Number, dtype: str) -> Timing:
    """t0 + ||FLOPs/(P·ec), bytes/(W·eb)||_p with the device's constants."""
    c = device.constants
    compute = work.flops / (device.peak(dtype) * gemm_efficiency(device, rows))
    memory = work.bytes / (device.bandwidth_bytes_per_s * c.gemm_bandwidth_efficiency)
    return Timing(c.gemm_launch_s + _norm(compute, memory, c.gemm_norm), compute, memory, np.asarray(c.gemm_launch_s))


def split_attention(
    device: Device,
    work: Work,
    *,
    requests: Number,
    query_tokens: Number,
    context: Number,
    heads: float,
    kv_heads: float,
    dtype: str,
) -> Timing:
    """Decode or verify attention with split-KV: the n query rows of a request share one read of its cache.

    Args:
        device: profile.
        work: FLOPs and bytes of the operation.
        requests: batch b.
        query_tokens: query tokens per request n.
        context: cached tokens that are read per request.
        heads: query heads of one device.
        kv_heads: key/value heads of one device.
        dtype: format that the matrix units compute in.

    Returns:
        Launch, one term per wave of work units, the combination of splits, and the larger of bandwidth,
        padded arithmetic and the tile loop.
    """
    c = device.constants
    b, n, ctx = (np.asarray(x, dtype=np.float64) for x in (requests, query_tokens, context))
    rows = n * heads / kv_heads
    tiles = np.ceil(rows / ROW_TILE - 1e-9)
    units = np.maximum(b * kv_heads * tiles, 1e-9)
    splits = np.clip(np.floor(device.processors / units), 1.0, np.maximum(np.ceil(ctx / SPLIT_CONTEXT), 1.0))
    waves = np.maximum(1.0, units * splits / device.processors)
    compute = work.flops * (tiles * ROW_TILE / rows) / (device.peak(dtype) * c.attention_compute_efficiency)
    memory = work.bytes / (device.bandwidth_bytes_per_s * c.attention_bandwidth_efficiency)
    loop = np.ceil(ctx / (ROW_TILE * splits)) * waves * c.attention_tile_s
    launch = c.attention_launch_s + c.attention_wave_s * waves + np.where(splits > 1, c.attention_combine_s, 0.0)
    return Timing(launch + np.maximum(np.maximum(compute, memory), loop), compute, memory, launch)


def unsplit_attention(
    device: Device,
    work: Work,
    *,
    requests: Number,
    query_tokens: Number,
    context: Number,
    heads: float,
    dtype: str,
) -> Timing:
    """Attention whose kernel cannot split a request's cache: one unit walks the whole context tile by tile.

    Arguments as in `split_attention`.
    """
    c = device.constants
    b, n, ctx = (np.asarray(x, dtype=np.float64) for x in (requests, query_tokens, context))
    waves = np.ceil(b * heads * np.ceil(n / ROW_TILE - 1e-9) / device.processors - 1e-9)
    walk = waves * np.ceil((ctx + n) / ROW_TILE) * c.unsplit_tile_s
    compute = work.flops / (device.peak(dtype) * c.attention_compute_efficiency)
    memory = work.bytes / (device.bandwidth_bytes_per_s * c.attention_bandwidth_efficiency)
    launch = np.asarray(c.unsplit_launch_s)
    return Timing(launch + np.maximum(np.maximum(compute, memory), walk), compute, memory, launch)


def prefill_attention(device: Device, work: Work, dtype: str) -> Timing:
    """Causal attention over a prompt or chunk, bound by arithmetic at prefill's efficiency."""
    c = device.constants
    compute = work.flops / (device.peak(dtype) * c.prefill_compute_efficiency)
    memory = work.bytes / (device.bandwidth_bytes_per_s * c.attention_bandwidth_efficiency)
    launch = np.asarray(c.attention_launch_s)
    return Timing(launch + np.maximum(compute, memory), compute, memory, launch)


def latent_attention(device: Device, work: Work, dtype: str) -> Timing:
    """Absorbed multi-head latent attention: launch plus the larger of the two derated roofs."""
    c = device.constants
    compute = work.flops / (device.peak(dtype) * c.mla_compute_efficiency)
    memory = work.bytes / (device.bandwidth_bytes_per_s * c.mla_bandwidth_efficiency)
    launch = np.asarray(c.mla_launch_s)
    return Timing(launch + np.maximum(compute, memory), compute, memory, launch)


def experts(device: Device, work: Work, visited: Number, dtype: str) -> Timing:
    """Grouped expert products: launch, a term per visited expert, and the p-norm of the two roofs."""
    c = device.constants
    compute = work.flops / (device.peak(dtype) * c.moe_compute_efficiency)
    memory = work.bytes / (device.bandwidth_bytes_per_s * c.moe_bandwidth_efficiency)
    launch = c.moe_launch_s + c.moe_expert_s * np.asarray(visited, dtype=np.float64)
    return Timing(launch + _norm(compute, memory, c.gemm_norm), compute, memory, launch)


def elementwise(device: Device, work: Work) -> Timing:
    """Norms, residuals, rotary embedding and activation of one layer: launches plus bytes."""
    c = device.constants
    memory = work.bytes / (device.bandwidth_bytes_per_s * c.elementwise_bandwidth_efficiency)
    launch = np.asarray(c.elementwise_kernel_s * c.elementwise_kernels_per_layer)
    return Timing(launch + memory, np.zeros(()), memory, launch)


def sampler(device: Device, rows: Number) -> Timing:
    """Sampling or argmax over `rows` rows of logits: a launch and a term per row."""
    c = device.constants
    launch = c.sampler_launch_s + c.sampler_row_s * np.asarray(rows, dtype=np.float64)
    return Timing(launch, np.zeros(()), np.zeros(()), launch)


def allreduce(device: Device, message_bytes: Number, devices: int, *, graphs: bool = True) -> Timing:
    """All-reduce over `devices`: the cheaper of one-shot and two-shot.

    Args:
        device: profile of each participant.
        message_bytes: bytes reduced per device.
        devices: participants N; 1 costs nothing.
        graphs: captured in a graph; False adds the eager launch.

    Returns:
        min[a + b·log2 N + (N-1)B/(e1·link), a + g + b·log2 N + 2(N-1)/N·B/(e2·link)].
    """
    c = device.constants
    size = np.asarray(message_bytes, dtype=np.float64)
    if devices == 1:
        return Timing(np.zeros_like(size), np.zeros(()), np.zeros(()), np.zeros(()))
    link = device.link_bytes_per_s
    launch = c.allreduce_launch_s + c.allreduce_hop_s * np.log2(devices) + (0.0 if graphs else c.allreduce_eager_s)
    one_shot = (devices - 1) * size / (c.allreduce_one_shot_efficiency * link)
    two_shot = c.allreduce_two_shot_s + 2.0 * (devices - 1) / devices * size / (c.allreduce_two_shot_efficiency * link)
    moved = np.minimum(one_shot, two_shot)
    return Timing(launch + moved, np.zeros(()), moved, np.asarray(launch))
