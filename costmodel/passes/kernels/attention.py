"""How long does attention take: decode, verification, prompt processing, and latent attention?

Work is cut into units of 64 query rows; a unit walks its part of the cache tile by tile, and units
share the processors in waves. Leaves out tree masks, which add no bytes, and the compaction of
rejected tokens.
"""

import numpy as np

from costmodel.passes.kernels.timing import Timing, joined, rounded
from costmodel.passes.ops import Array, Mask, Number, Work, mean_reach
from hardware_profiles.fitted.constants import SPLIT_CONSTANTS
from hardware_profiles.profile import Device

LATENT_TILE = 16  # query rows of a tile of latent attention, up to 64
ROW_TILE = 64  # query rows that one attention tile holds
SPLIT_CONTEXT = 128  # least context of one split
SHORT_CONTEXT = 256  # longest context that decode kernels for short caches take
HEAD_DIM = 128  # head width that tile times hold for


def split_attention(
    device: Device,
    work: Work,
    *,
    requests: Number,
    query_tokens: Number,
    context: Number,
    heads: Number,
    kv_heads: Number,
    dtype: str,
    head_dim: Number = HEAD_DIM,
) -> Timing:
    """Decode or verify attention with split-KV: the n query rows of a request share one read of its
    cache.

    R = n·heads/kv_heads packed rows make ⌈R/64⌉ tiles per key/value head; U = b·kv_heads·tiles
    units are split s = clamp(⌊P/U⌋, 1, ⌈context/128⌉) ways over P processors, or not at all where
    that is faster (as with a few more units, for which no processor is left), in w = max(1, U·s/P)
    waves, rounded up in part: ta + tc·w + [s > 1]·t_combine + max(bytes/W, padded FLOPs/peak, (tu +
    ⌈context/64s⌉·t_tile)·w), roofs derated. One query token per request takes the decode constants,
    several take those of `verify`. Where `verify` has constants of its own, several never take less
    time than one: the two may have been measured with kernels of different libraries.

    Args:
        device: profile.
        work: FLOPs and bytes of the operation.
        requests: batch b.
        query_tokens: query tokens per request n.
        context: cached tokens that are read per request.
        heads: query heads of one device.
        kv_heads: key/value heads of one device.
        dtype: format that the matrix units compute in.
        head_dim: width of a head.

    Returns:
        Launch, one term per wave of work units, the combination of splits, and the larger of
        bandwidth, padded arithmetic and the tile loop.
    """
    b, n, ctx = (np.asarray(x, dtype=np.float64) for x in (requests, query_tokens, context))
    several = n > 1.0
    forms = {
        verify: _split(device, work, b, n, ctx, heads, kv_heads, dtype, head_dim, verify=verify)
        for verify in _needed(device, several)
    }
    if True not in forms:
        return forms[False]
    alone = Work(work.flops / n, work.bytes)
    one = _split(
        device, alone, b, np.ones_like(n), ctx, heads, kv_heads, dtype, head_dim, verify=False
    )
    verify = chosen(forms[True].seconds >= one.seconds, forms[True], one)
    return chosen(several, verify, forms[False]) if False in forms else verify


def _needed(device: Device, several: Mask) -> tuple[bool, ...]:
    """Which constants a call needs: decode's (False), verify's (True), or both where they
    differ.
    """
    if not several.any() or _alike(device):
        return (False,)
    return (True,) if several.all() else (False, True)


def chosen(condition: Mask, yes: Timing, no: Timing) -> Timing:
    """`yes` where the condition holds, `no` elsewhere."""
    return Timing(*(np.where(condition, y, x) for y, x in zip(yes, no, strict=True)))


def _alike(device: Device) -> bool:
    """Whether verification was given the constants of decoding, for want of its own: then it is
    timed as decoding.
    """
    decode, verify = device.constants.attention, device.constants.verify
    same = all(getattr(decode, name) == getattr(verify, name) for name in SPLIT_CONSTANTS)
    return same and verify.mask_ratio == 0.5


def _split(
    device: Device,
    work: Work,
    b: Array,
    n: Array,
    ctx: Array,
    heads: Number,
    kv_heads: Number,
    dtype: str,
    head_dim: Number,
    *,
    verify: bool,
) -> Timing:
    decoding, verifying = device.constants.attention, device.constants.verify
    c = verifying if verify else decoding
    rows = n * heads / kv_heads
    tiles = np.ceil(rows / ROW_TILE - 1e-9)
    units = np.maximum(b * kv_heads * tiles, 1e-9)
    splits = np.clip(
        np.floor(device.processors / units), 1.0, np.maximum(np.ceil(ctx / SPLIT_CONTEXT), 1.0)
    )
    padding = 1.0 + decoding.padding_ratio * (tiles * ROW_TILE / rows - 1.0)
    if verify:
        padding = padding * (ctx + verifying.mask_ratio * n) / (ctx + 0.5 * n)
    compute = work.flops * (padding / (device.peak(dtype) * c.compute_efficiency))
    memory = work.bytes / (device.bandwidth_bytes_per_s * c.bandwidth_efficiency)
    per_wave = (
        c.wave_s if verify else np.where(ctx > SHORT_CONTEXT, c.wave_s, decoding.short_wave_s)
    )
    tile_s = c.tile_s * head_dim / HEAD_DIM

    def in_parts(parts: Array) -> Timing:
        waves = rounded(units * parts / device.processors, c.wave_ratio)
        loop = np.ceil(ctx / (ROW_TILE * parts)) * waves * tile_s
        if decoding.unit_s and not verify:
            loop = loop + waves * decoding.unit_s
        launch = c.launch_s + per_wave * waves + np.where(parts > 1, c.combine_s, 0.0)
        return Timing(
            launch + np.maximum(np.maximum(compute, memory), loop), compute, memory, launch
        )

    split = in_parts(splits)
    if not c.combine_s or np.all(splits == 1.0):
        return split
    whole = in_parts(np.ones_like(splits))
    return chosen(split.seconds <= whole.seconds, split, whole)


def _walked_tiles(
    context: Array, query_tokens: Array, row_tile: float, block_tokens: int, window: int | None
) -> tuple[Array, Array]:
    """Tiles of 64 cached or new tokens that a block of `row_tile` query rows walks on average, and
    the longest walk.

    Tiles before the window of the block's first row are passed over.

    Args:
        context: cached tokens.
        query_tokens: new tokens n.
        row_tile: query rows of a block of work.
        block_tokens: new tokens that see each other both ways: 1 causal; 0 all of them.
        window: sliding window in tokens, or None.
    """
    blocks = np.ceil(query_tokens / row_tile - 1e-9)
    seen = np.maximum(
        row_tile, np.minimum(query_tokens, float(block_tokens)) if block_tokens else query_tokens
    )
    most = None if window is None else window + row_tile
    last = context + query_tokens
    longest = np.ceil((last if most is None else np.minimum(last, most)) / ROW_TILE)
    mean = mean_reach(blocks * row_tile, context, seen, most) / ROW_TILE
    return np.minimum(mean, longest), longest


def unsplit_attention(
    device: Device,
    work: Work,
    *,
    requests: Number,
    query_tokens: Number,
    context: Number,
    heads: Number,
    kv_heads: Number,
    dtype: str,
    beside: tuple[Number, Number] | None = None,
    block_tokens: int = 1,
    window: int | None = None,
) -> Timing:
    """Attention whose kernel cannot split a request's cache: one unit walks the whole context tile
    by tile.

    A unit is one head's block of 64 query tokens; it takes tu + t_tile per 64 cached or new tokens
    before it. With ℓ the longest unit and L all units together, the walk takes ℓ·max(1, L/(P·ℓ)),
    rounded up in part. Heads of a group read the same cache; they find it in the last-level cache
    unless so many requests are in flight that a head's turn ends before the next one's begins, and
    then the cache is read up to once per head: bytes·(1 + (heads/kv_heads - 1)·min(1,
    κ·blocks/P)·(1 - exp(-KV of a head/cache))).

    Args:
        device: profile.
        work: FLOPs and bytes of the operation.
        requests: batch b.
        query_tokens: new tokens per request n.
        context: cached tokens per request.
        heads: query heads of one device.
        kv_heads: key/value heads of one device.
        dtype: format that the matrix units compute in.
        beside: requests and cached tokens of requests with one query token in the same call; their
            traffic is to be part of `work`.
        block_tokens: new tokens that see each other both ways: 1 causal; 0 all of them.
        window: sliding window in tokens, or None.
    """
    c = device.constants.unsplit
    b, n, ctx = (np.asarray(x, dtype=np.float64) for x in (requests, query_tokens, context))
    blocks = np.ceil(n / ROW_TILE - 1e-9)
    mean, longest = _walked_tiles(ctx, n, ROW_TILE, block_tokens, window)
    unit_s = c.unit_s + longest * c.tile_s
    total_s = b * blocks * (c.unit_s + mean * c.tile_s)
    streams = b * blocks
    if beside is not None:
        others, cached = (np.asarray(x, dtype=np.float64) for x in beside)
        one_s = c.unit_s + np.ceil((cached + 1.0) / ROW_TILE) * c.tile_s
        unit_s = np.where(others > 0, np.maximum(unit_s, one_s), unit_s)
        total_s, streams = total_s + others * one_s, streams + others
    walk = unit_s * rounded(heads * total_s / (device.processors * unit_s), c.wave_ratio)
    missed = -np.expm1(-work.bytes / kv_heads / max(device.cache_bytes, 1.0))
    crowded = np.minimum(1.0, c.reread_ratio * streams / device.processors)
    rereads = 1.0 + (heads / kv_heads - 1.0) * crowded * missed
    compute = work.flops / (device.peak(dtype) * device.constants.attention.compute_efficiency)
    memory = work.bytes * rereads / (device.bandwidth_bytes_per_s * c.bandwidth_efficiency)
    launch = np.asarray(c.launch_s)
    return Timing(launch + np.maximum(np.maximum(compute, memory), walk), compute, memory, launch)


def prefill_attention(
    device: Device,
    work: Work,
    dtype: str,
    *,
    requests: Number,
    query_tokens: Number,
    context: Number,
    heads: Number,
    head_dim: Number = HEAD_DIM,
    block_tokens: int = 1,
    window: int | None = None,
) -> Timing:
    """Attention over a prompt or chunk: ta + append + ‖walk of the tiles, the larger of the two
    roofs‖ₚ.

    The walk is that of `unsplit_attention`, with constants of prompt kernels: blocks of their own
    number of query rows, and tiles of which only a part of the time grows with the head. New keys
    and values may be written into the cache by a kernel of its own beforehand.

    Args:
        device: profile.
        work: FLOPs and bytes of the operation.
        dtype: format that the matrix units compute in.
        requests: batch b.
        query_tokens: new tokens per request n.
        context: cached tokens per request.
        heads: query heads of one device.
        head_dim: width of a head.
        block_tokens: new tokens that see each other both ways: 1 causal; 0 all of them.
        window: sliding window in tokens, or None.
    """
    c = device.constants.context
    b, n, ctx = (np.asarray(x, dtype=np.float64) for x in (requests, query_tokens, context))
    blocks = np.ceil(n / c.row_tile - 1e-9)
    mean, longest = _walked_tiles(ctx, n, c.row_tile, block_tokens, window)
    tile_s = c.tile_s * (1.0 + c.width_ratio * (np.asarray(head_dim) / HEAD_DIM - 1.0))
    unit_s = c.unit_s + longest * tile_s
    total_s = b * heads * blocks * (c.unit_s + mean * tile_s)
    walk = unit_s * rounded(total_s / np.maximum(device.processors * unit_s, 1e-300), c.wave_ratio)
    compute = work.flops / (device.peak(dtype) * c.compute_efficiency)
    memory = work.bytes / (device.bandwidth_bytes_per_s * c.bandwidth_efficiency)
    append = work.written_bytes * (c.append_ratio / device.bandwidth_bytes_per_s)
    launch = np.asarray(c.launch_s)
    seconds = launch + append + joined(walk, np.maximum(compute, memory), c.norm)
    return Timing(seconds, compute, np.asarray(memory + append), launch)


def latent_attention(
    device: Device, work: Work, dtype: str, *, context: Number, requests: Number, rows: Number
) -> Timing:
    """Absorbed multi-head latent attention: ta + tw·waves + ‖the larger derated roof,
    ⌈context/64⌉·t_tile·walks‖ₚ.

    The last term is that of kernels that do not split a cache, and about 0 where they do: a unit,
    64 query rows of a request, walks the whole cache on one processor, and units walk one after
    another where there are more than processors. Processors stand in pairs; once more than half of
    them walk, both of a pair do, and each takes `pair_ratio` times as long. Fewer than 64 query
    rows of a request run in tiles of 16, each of which reads part of the cache from memory again;
    64 and more run together. A wave is one tile for every processor.

    Args:
        device: profile.
        work: FLOPs and bytes of the operation.
        dtype: format that the matrix units compute in.
        context: cached tokens per request.
        requests: batch b.
        rows: query rows that share a request's cache: heads of one device times query tokens.
    """
    c = device.constants.mla
    tiles = np.where(
        np.asarray(rows) < ROW_TILE, np.ceil(np.asarray(rows) / LATENT_TILE - 1e-9), 1.0
    )
    units = np.asarray(requests, dtype=np.float64) * np.ceil(np.asarray(rows) / ROW_TILE - 1e-9)
    walk = np.ceil(np.asarray(context, dtype=np.float64) / ROW_TILE) * c.tile_s
    walk = walk * _walks(units / device.processors, c.pair_ratio)
    compute = work.flops / (device.peak(dtype) * c.compute_efficiency)
    memory = work.bytes / (device.bandwidth_bytes_per_s * c.bandwidth_efficiency)
    if c.reread_ratio:
        memory = memory * (1.0 + c.reread_ratio * (tiles - 1.0))
    waves = np.maximum(np.asarray(requests, dtype=np.float64) * tiles / device.processors, 1.0)
    launch = np.asarray(c.launch_s + c.wave_s * waves if c.wave_s else c.launch_s)
    return Timing(
        launch + joined(np.maximum(compute, memory), walk, c.norm), compute, memory, launch
    )


def _walks(waves: Array, pair_ratio: float) -> Array:
    """How long units walk in all, in walks of one that is alone: whole waves in pairs, and the last
    one alone where it takes half of the processors at most.

    Args:
        waves: units over processors.
        pair_ratio: time of a unit whose neighbour walks too, in that of one that is alone.
    """
    whole = np.floor(waves + 1e-9)
    last = waves - whole
    alone = np.where(last > 1e-9, 1.0, 0.0)
    return np.asarray(whole * pair_ratio + np.where(last > 0.5, pair_ratio, alone))
