"""How long do matrix products, expert layers and the small kernels between them take?

Tile and wave rounding of products is included; leaves out operands that are still in the cache.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from costmodel.passes.expert_kernels import FEW_TOKENS, MANY_TOKENS, ExpertKernel
from costmodel.passes.kernels.correction import by_share, by_size
from costmodel.passes.kernels.timing import Timing, joined
from costmodel.passes.ops import Array, Number, Work
from hardware_profiles.profile import Device

ROW_TILES = (16, 32, 64, 128)  # rows of the output tiles that a library chooses among
_TILES = np.array(ROW_TILES, dtype=np.float64)
COLUMN_TILE = 128
MOST_TILE_ROWS = 64  # rows of tiles up to which it matters how many processors take part
ALIGNED_WIDTH = 16.0  # values, multiples of which suit the kernels of experts
EXPERT_HIDDEN = 4096.0  # width of a model that the time of an expert holds for
LARGEST_DECODE_ROWS = 1024.0  # rows up to which products were measured
PREFILL_ROWS = 4096.0


def gemm_efficiency(device: Device, rows: Number) -> Array:
    """Share of the peak that a matrix product reaches: the decode constant to 1024 rows, prefill's
    from 4096.

    Between them it moves linearly in the logarithm of the rows.

    Args:
        device: profile.
        rows: tokens M, > 0.
    """
    c = device.constants
    if np.size(rows) and np.max(rows) <= LARGEST_DECODE_ROWS:
        return np.asarray(c.gemm.compute_efficiency)
    span = np.log(PREFILL_ROWS / LARGEST_DECODE_ROWS)
    position = np.clip(
        np.log(np.maximum(rows, 1.0) * (1.0 / LARGEST_DECODE_ROWS)) * (1.0 / span), 0.0, 1.0
    )
    return np.asarray(
        c.gemm.compute_efficiency
        + position * (c.prefill.compute_efficiency - c.gemm.compute_efficiency)
    )


def gemm(
    device: Device,
    work: Work,
    rows: Number,
    dtype: str,
    *,
    outputs: Number | None = None,
    read: Number | None = None,
) -> Timing:
    """Matrix product: t0 + ‖tiles, bytes‖ₚ, with the best of the output tiles of 16 to 128 rows.

    With m rows in tiles of r, the arithmetic is that of ⌈m/r⌉·r rows at the share of the peak that
    the device reaches, times 1 + ρ·((128/r + 1)/2 - 1) because small tiles read their operands more
    often, and times the waves of ⌈m/r⌉·⌈N/128⌉ tiles over the processors, rounded up in part. On a
    processor without such tiles (a CPU) rows are not rounded, but those that fill no block may take
    longer. Outputs are written at a share of the bandwidth of their own. Where the profile has a
    table of what measurements leave of this form, the time is corrected by interpolation in it, and
    is no less than the corrected time of fewer rows at the table's nodes and no more than that of
    the rows that whole tiles have. Nor do further rows of tiles, which occupy idle processors, take
    less than fewer.

    Args:
        device: profile.
        work: FLOPs and bytes of the product.
        rows: tokens M.
        dtype: format that the matrix units compute in.
        outputs: N; None leaves waves and corrections out and writes outputs at the speed of reads.
        read: values of an input vector, in those of an output; None: as many as the FLOPs say.
    """
    m = np.asarray(rows, dtype=np.float64)
    timing = _form(device, work, m, dtype, outputs)
    if outputs is None:
        return timing
    n = np.asarray(outputs, dtype=np.float64)
    fills = device.constants.gemm.fill_ratio > 0.0 and n.size == 1
    if not (fills or "gemm" in device.constants.corrections):
        return timing
    k = _inputs(work, m, n)
    moved = k if read is None else np.asarray(read, dtype=np.float64)
    dimensions = np.ndim(timing.seconds)

    def form(rows: Array) -> Timing:
        return _form(device, _of_other(work, rows, m, n, moved), rows, dtype, n)

    most_rows = float(np.max(m, initial=0.0))
    fewer = (
        _partly_idle_rows(device, float(np.reshape(n, ())), most_rows, dimensions)
        if fills
        else None
    )
    if fewer is not None and fewer.size:
        least = np.where(fewer < m, form(fewer).seconds, 0.0).max(axis=0)
        longer = np.maximum(least / timing.seconds, 1.0)
        timing = Timing(*(longer * part for part in timing))
    tiles = _TILES.reshape(-1, *(1 for _ in range(dimensions)))
    return by_size(device, timing, m, n, k, form, np.ceil(m / tiles - 1e-9) * tiles)


def _partly_idle_rows(device: Device, outputs: float, most: float, dimensions: int) -> Array:
    """Rows of whole tiles, up to the most rows, beyond which idle processors take part; [sizes, 1,
    ...].

    The form was fitted to few rows of tiles. That more of them were faster is not in the tables: on
    B200 the step past 128 rows takes 1.02 (fp4) and 1.17 times (fp8) as long, medians of 56 and 62
    narrow products.
    """
    idle = np.ceil(device.processors / np.ceil(outputs / COLUMN_TILE))
    count = min(idle, np.ceil(most / COLUMN_TILE), MOST_TILE_ROWS)
    return np.asarray(COLUMN_TILE * np.arange(1.0, count)).reshape(
        -1, *(1 for _ in range(dimensions))
    )


def _form(device: Device, work: Work, m: Array, dtype: str, outputs: Number | None) -> Timing:
    """The time before it is corrected."""
    c = device.constants.gemm
    full = work.flops / (device.peak(dtype) * gemm_efficiency(device, m))
    compute = full * _rounding(device, m, dtype, outputs)
    moved = work.bytes / c.bandwidth_efficiency
    if outputs is not None:
        penalty = 1.0 / c.output_efficiency - 1.0 / c.bandwidth_efficiency
        moved = moved + work.written_bytes * penalty
    memory = moved / device.bandwidth_bytes_per_s
    if outputs is not None and c.fill_ratio:
        memory = memory * _unfilled(device, m, outputs)
    launch = np.asarray(c.launch_s)
    return Timing(launch + joined(compute, memory, c.norm), compute, memory, launch)


def _of_other(work: Work, other: Array, rows: Array, outputs: Array, read: Array) -> Work:
    """The work of the same weights for other rows: what they read and write follows them, the
    weights do not.

    Args:
        work: at `rows`.
        other: rows of the predicted product.
        rows: M.
        outputs: N.
        read: values of an input vector, in those of an output.
    """
    if np.size(outputs) == 1 and np.size(read) == 1:  # the weights are the same at all rows
        work, rows = Work(*(np.asarray(value.flat[0]) for value in work)), np.asarray(rows.flat[0])
    written = work.written_bytes / rows
    return Work(
        work.flops / rows * other,
        work.bytes - (rows - other) * written * (1.0 + read / outputs),
        written * other,
    )


def _inputs(work: Work, rows: Array, outputs: Array) -> Array:
    """K of a product, a single number where the outputs are."""
    if np.size(outputs) == 1 and np.size(work.flops):
        return np.asarray(work.flops.flat[0] / (2.0 * rows.flat[0] * outputs))
    return np.asarray(work.flops / (2.0 * rows * outputs))


def _rounding(device: Device, m: Array, dtype: str, outputs: Number | None) -> Array:
    """How much longer arithmetic takes because rows do not fill the tiles or blocks of a kernel.

    Where a format has no higher rate than the vector units, products of few rows run on these,
    which take rows as they are: tiles are of matrix units.
    """
    if device.kind == "cpu":
        return _single_factor(device, m)
    if device.peak(dtype) <= device.peak_flops_per_s.get("fp32", 0.0):
        return np.ones(())
    return _tile_factor(device, m, outputs)


def _single_factor(device: Device, m: Array) -> Array:
    """How much longer arithmetic takes because rows that fill no block are taken one by one."""
    c = device.constants.gemm
    if c.single_ratio == 1.0:
        return np.ones(())
    return np.asarray(1.0 + (c.single_ratio - 1.0) * np.mod(m, c.block_rows) / m)


def _tile_factor(device: Device, m: Array, outputs: Number | None) -> Array:
    c = device.constants.gemm
    n = np.asarray(1.0 if outputs is None else outputs, dtype=np.float64)
    per_row, effort = _row_tiles(c.tile_ratio, max(m.ndim, n.ndim))
    tiles = np.ceil(m * per_row - 1e-9)
    rows = tiles * effort
    if outputs is not None and c.wave_ratio:
        per_tile = np.ceil(n / COLUMN_TILE) / device.processors
        waves = np.maximum(tiles * per_tile, 1.0)
        rows = rows * (1.0 - c.wave_ratio + c.wave_ratio * np.ceil(waves - 1e-9) / waves)
    return np.asarray(rows.min(axis=0) / m)


@lru_cache(maxsize=256)
def _row_tiles(tile_ratio: float, dimensions: int) -> tuple[Array, Array]:
    """Of every tile: how many a row takes, and the rows of the largest that cost as much; [tiles,
    1, ...].
    """
    tile = _TILES.reshape(-1, *(1 for _ in range(dimensions)))
    return 1.0 / tile, tile * (1.0 + tile_ratio * (COLUMN_TILE / tile - 1.0) / 2.0)


def _unfilled(device: Device, m: Array, outputs: Number) -> Array:
    """How much longer traffic takes because fewer tiles than processors ask for it."""
    tiles = np.ceil(m / COLUMN_TILE - 1e-9) * np.ceil(
        np.asarray(outputs, dtype=np.float64) / COLUMN_TILE
    )
    return np.asarray(
        1.0 + device.constants.gemm.fill_ratio * (np.maximum(device.processors / tiles, 1.0) - 1.0)
    )


def experts(
    device: Device, work: Work, visited: Number, dtype: str, *, hidden: Number, width: Number
) -> Timing:
    """Grouped expert products: launch, a term per visited expert, and the p-norm of the two roofs.

    The term goes with the width of the model: an expert's last product has a tile of outputs for
    every `COLUMN_TILE` of it, each with its own start and end. Kernels load and store 32 bytes at a
    time, 16 values of 16 bits; CUTLASS's refuse other widths of an expert or leave them to slower
    ones, and Triton's lose what they know of the alignment of a row: all but the launch then takes
    `unaligned_ratio` times as long.

    Args:
        device: profile.
        work: FLOPs and bytes, rows padded per expert.
        visited: distinct experts D.
        dtype: format that the matrix units compute in.
        hidden: width of the model.
        width: of an expert, on one device.

    Reference: TensorRT-LLM, pull request 7757; SGLang, pull request 22627.
    """
    c = device.constants.moe
    whole = np.mod(np.asarray(width, dtype=np.float64), ALIGNED_WIDTH) == 0.0
    slower = np.where(whole, 1.0, c.unaligned_ratio)
    compute = slower * work.flops / (device.peak(dtype) * c.compute_efficiency)
    memory = slower * work.bytes / (device.bandwidth_bytes_per_s * c.bandwidth_efficiency)
    launch = c.launch_s + slower * _per_expert(device, visited, hidden)

    def at(compute_s: Array) -> Timing:
        return Timing(launch + joined(compute_s, memory, c.norm), compute_s, memory, launch)

    return by_share(device, at(np.asarray(compute)), "moe", at)


def stored_width(width: float, weight_bytes: float) -> float:
    """The width of an expert as its kernel sees it: packed weights are stored in whole tiles.

    vLLM pads experts in MXFP4 to multiples of 128 values (quantization/mxfp4.py); what the padding
    adds to their traffic is left out.

    Args:
        width: of an expert, on one device.
        weight_bytes: bytes of a weight; 2 and more are not packed.
    """
    return width if weight_bytes >= 2.0 else ALIGNED_WIDTH * math.ceil(width / ALIGNED_WIDTH)


def _per_expert(device: Device, visited: Number, hidden: Number) -> Array:
    """Seconds of the visited experts beside their arithmetic and traffic."""
    experts = np.asarray(visited, dtype=np.float64) * (np.asarray(hidden) / EXPERT_HIDDEN)
    return np.asarray(device.constants.moe.expert_s * experts)


def engine_experts(
    device: Device,
    work_of: Callable[[float, float], Work],
    visited: Number,
    dtype: str,
    *,
    kernel: ExpertKernel | None,
    tokens: Number,
    hidden: Number,
    width: Number,
    row_bytes: Number,
) -> Timing:
    """Grouped expert products in an engine's kernel: `experts` for few tokens, the kernel's own form
    for many.

    The launch and the traffic of weights are those of `experts`; arithmetic runs at the kernel's
    own share of the peak, and the rows of all chosen experts are moved beside it:
    launch + te·D + ‖FLOPs/(P·ec) + passes·rows/W, bytes/(W·eb)‖ₚ.

    Args:
        device: profile.
        work_of: FLOPs and bytes of tiles of so many rows, up to as many tokens as experts and above.
        visited: distinct experts D.
        dtype: format that the matrix units compute in.
        kernel: its constants; None: those of the profile hold for any number of tokens.
        tokens: of the layer.
        hidden: width of the model.
        width: of an expert, on one device.
        row_bytes: bytes of the rows of all chosen experts, in 16 bits.
    """
    c = device.constants.moe
    few = experts(
        device, work_of(c.few_rows, c.many_rows), visited, dtype, hidden=hidden, width=width
    )
    tokens = np.asarray(tokens, dtype=np.float64)
    if kernel is not None and kernel.few_ratio != 1.0:
        few = Timing(*(kernel.few_ratio * part for part in few))
    if kernel is None or np.max(tokens) <= FEW_TOKENS:
        return few
    work = work_of(kernel.tile_rows, kernel.tile_rows)
    moved = kernel.row_passes * np.asarray(row_bytes) / device.bandwidth_bytes_per_s
    compute = work.flops / (device.peak(dtype) * kernel.compute_efficiency) + moved
    memory = work.bytes / (device.bandwidth_bytes_per_s * c.bandwidth_efficiency)
    launch = c.launch_s + _per_expert(device, visited, hidden)
    many = Timing(launch + joined(compute, memory, c.norm), compute, memory, launch)
    share = np.log(np.maximum(tokens, 1.0) / FEW_TOKENS) / np.log(MANY_TOKENS / FEW_TOKENS)
    share = np.clip(share, 0.0, 1.0)
    return Timing(*(x * (1.0 - share) + y * share for x, y in zip(few, many, strict=True)))


def elementwise(device: Device, work: Work, *, fused: int = 0) -> Timing:
    """Norms, residuals, rotary embedding and activation of one layer: launches plus bytes.

    Args:
        device: profile.
        work: bytes of all of them.
        fused: kernels that are part of another operation: their bytes still move, nothing is
            launched for them.
    """
    c = device.constants.elementwise
    memory = work.bytes / (device.bandwidth_bytes_per_s * c.bandwidth_efficiency)
    launch = np.asarray(c.kernel_s * max(c.kernels_per_layer - fused, 0.0))
    return Timing(launch + memory, np.zeros(()), memory, launch)


def sampler(device: Device, rows: Number) -> Timing:
    """Sampling or argmax over `rows` rows of logits: a launch and a term per row.

    Args:
        device: profile.
        rows: of logits, one per token to choose.
    """
    c = device.constants.sampler
    launch = c.launch_s + c.row_s * np.asarray(rows, dtype=np.float64)
    return Timing(launch, np.zeros(()), np.zeros(()), launch)
