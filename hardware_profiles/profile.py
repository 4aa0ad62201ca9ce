"""What is known about one device, and where does each number come from?

Datasheet peaks (`Device`) and fitted constants (`Constants`) are separate: a peak is what the maker
promises, a constant is how far a kernel falls short of it. Every number has an entry in
`Device.provenance`. How the numbers turn into times is left to the cost model.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from hardware_profiles.errors import InputError
from hardware_profiles.fitted.corrections import CORRECTED, Correction
from hardware_profiles.fitted.formats import FormatGroup
from hardware_profiles.fitted.residuals import Residuals
from hardware_profiles.frozen_table import FrozenTable
from hardware_profiles.ranges import (
    bounded,
    check_number,
    check_range,
    efficiency,
    launch,
    neutral,
    share,
)

Kind = Literal["datasheet", "measured", "assumed"]
KINDS: tuple[Kind, ...] = ("datasheet", "measured", "assumed")
DTYPES = ("fp32", "bf16", "fp16", "fp8", "int8", "fp4")
OPERATIONS = (
    "gemm",
    "attention",
    "verify",
    "unsplit",
    "context",
    "mla",
    "moe",
    "prefill",
    "elementwise",
    "sampler",
    "allreduce",
    "trtllm",
    "nccl",
    "host",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class NumberProvenance:
    """Where a number comes from.

    Attributes:
        kind: "datasheet" (the maker's figure), "measured" (timed on such a device) or "assumed"
            (carried over, or a sensible guess).
        source: document, table or reasoning, in words.
    """

    kind: Kind
    source: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Constants:
    """Fitted constants of the operation models: times in seconds, efficiencies as ratios of the
    peaks.

    Attributes:
        gemm_launch_s: fixed cost of one matrix multiplication.
        gemm_compute_efficiency: share of the peak reached at large shapes.
        gemm_bandwidth_efficiency: share of the bandwidth reached at small ones.
        gemm_output_efficiency: share of the bandwidth reached while writing outputs.
        gemm_norm: p of the p-norm that joins both roofs; 1 adds them, infinity takes the larger.
        gemm_tile_ratio: how much slower arithmetic in small output tiles is: by this times
            (128/rows - 1)/2.
        gemm_wave_ratio: how far a partly filled wave of tiles counts as a full one; 0 not at all, 1
            fully.
        gemm_fill_ratio: share of the bandwidth, in multiples of a processor's own, that one
            processor cannot draw more of: 1 over what it draws at most. 0 where a library splits
            the inner dimension, so that all draw.
        gemm_block_rows: rows that a CPU's products take together; what is left of them is taken one
            by one.
        gemm_single_ratio: time of arithmetic on such a row over that on a row of a block.
        attention_launch_s: fixed cost of one split-KV attention call.
        attention_wave_s: cost of each wave of work over the processors, more than 256 tokens
            cached.
        attention_combine_s: cost of merging the splits, where there is more than one.
        attention_bandwidth_efficiency: share of the bandwidth reached while reading KV.
        attention_compute_efficiency: share of the peak reached on the padded tiles.
        attention_tile_s: time of one 64-token KV tile on one processor, head width 128.
        attention_wave_ratio: how far a partly filled wave counts as a full one.
        attention_short_wave_s: in place of `attention_wave_s` where at most 256 tokens are cached.
        attention_unit_s: time of a wave of units beside its tiles, which passes while other units
            read.
        attention_padding_ratio: how far query rows of decoding and verification are computed as
            full tiles of 64; 0 where a kernel takes them row by row.
        verify_launch_s: fixed cost of a call with several query tokens per request over a split KV
            cache.
        verify_wave_s: cost of each wave of such work over the processors.
        verify_combine_s: cost of merging its splits.
        verify_bandwidth_efficiency: share of the bandwidth it reaches while reading KV.
        verify_compute_efficiency: share of the peak it reaches on the padded tiles.
        verify_tile_s: time of one of its 64-token KV tiles on one processor.
        verify_wave_ratio: how far one of its partly filled waves counts as a full one.
        verify_mask_ratio: share of the square of new tokens that is computed: half where the kernel
            skips what the causal mask hides, all of it where it does not.
        unsplit_launch_s: fixed cost of an attention call that cannot split the KV cache.
        unsplit_unit_s: fixed cost of a block of 64 query rows of one head on its processor.
        unsplit_tile_s: time of one 64x64 tile of such a call.
        unsplit_wave_ratio: how far a partly filled wave of blocks counts as a full one.
        unsplit_reread_ratio: blocks in flight, in multiples of the processors, beyond which the
            heads of a group stop sharing what they read: 1 over that number.
        unsplit_bandwidth_efficiency: share of the bandwidth reached while reading KV, rereads
            included.
        context_launch_s: fixed cost of attention over a prompt.
        context_unit_s: fixed cost of a block of 64 query rows of one head on its processor.
        context_tile_s: time of one 64x64 tile, head width 128.
        context_wave_ratio: how far a partly filled wave of blocks counts as a full one.
        context_bandwidth_efficiency: its share of the bandwidth.
        context_compute_efficiency: its share of the peak.
        context_norm: p of the p-norm that joins the walk of the tiles and the roofs.
        context_row_tile: query rows of a block.
        context_width_ratio: share of a tile's time that grows with the width of a head; the rest is
            the softmax's.
        context_append_ratio: time to write new keys and values into the cache beforehand, in that
            of their own traffic at the full bandwidth; 0 where no kernel of its own does it.
        mla_launch_s: fixed cost of absorbed latent attention.
        mla_bandwidth_efficiency: its share of the bandwidth.
        mla_compute_efficiency: its share of the peak.
        mla_tile_s: time of 64 cached tokens, where the cache of a request is not split.
        mla_norm: p of the p-norm that joins that walk and the roofs.
        mla_wave_s: cost of each wave of requests' head tiles over the processors.
        mla_reread_ratio: share of the cache that a further tile of 16 query heads reads from memory
            again, where fewer than 64 rows share a request's cache.
        moe_launch_s: fixed cost of one mixture-of-experts layer.
        moe_expert_s: cost of each distinct expert touched.
        moe_bandwidth_efficiency: its share of the bandwidth.
        moe_compute_efficiency: its share of the peak, rows padded per expert.
        moe_norm: p of the p-norm that joins both roofs.
        moe_few_rows: rows of a tile; 8 where the kernels choose it by the load of an expert.
        moe_many_rows: rows of a tile once there are more tokens than experts; as many where they
            do.
        prefill_compute_efficiency: share of the peak in passes of many hundred tokens; at most 1.
        elementwise_kernel_s: fixed cost of a norm, rotation, activation or residual kernel.
        elementwise_kernels_per_layer: how many of those a layer runs.
        elementwise_bandwidth_efficiency: their share of the bandwidth.
        sampler_launch_s: fixed cost of sampling.
        sampler_row_s: cost of each sampled row.
        allreduce_launch_s: fixed cost of an all-reduce.
        allreduce_hop_s: cost of each doubling of the number of devices.
        allreduce_two_shot_s: extra cost of the two-shot algorithm.
        allreduce_one_shot_efficiency: share of the link bandwidth reached by the one-shot
            algorithm.
        allreduce_two_shot_efficiency: the same for the two-shot algorithm.
        allreduce_eager_s: least time of a call outside a captured graph.
        trtllm_launch_s: fixed cost of an all-reduce by TensorRT-LLM's kernels.
        trtllm_hop_s: cost of each doubling of the number of devices with these kernels.
        trtllm_two_shot_s: extra cost of their two-shot algorithm.
        trtllm_one_shot_efficiency: share of the link bandwidth that their one-shot algorithm
            reaches.
        trtllm_two_shot_efficiency: the same for their two-shot algorithm.
        trtllm_most_bytes: message from which TensorRT-LLM hands over to NCCL.
        nccl_launch_s: fixed cost of NCCL's ring.
        nccl_hop_s: its cost per participant.
        nccl_efficiency: its share of the link bandwidth.
        host_layer_s: CPU time per layer without captured graphs; with graphs it has no effect.
        residual_ratio: per operation, the half width of the 80 % interval of measured / predicted -
            1. Every operation of `OPERATIONS` is present. A `Residuals` adds regimes; any other
               mapping becomes one without.
        corrections: what measurements leave of the forms of some operations, to interpolate in.
    """

    gemm_launch_s: float = launch()
    gemm_compute_efficiency: float = efficiency()
    gemm_bandwidth_efficiency: float = efficiency()
    gemm_output_efficiency: float = efficiency()
    gemm_norm: float = bounded(1.0, math.inf)
    gemm_tile_ratio: float = bounded(0.0, 10.0)
    gemm_wave_ratio: float = share()
    gemm_fill_ratio: float = neutral(0.0, 1.0, 0.0)
    gemm_block_rows: float = neutral(1.0, 1024.0, 1.0)
    gemm_single_ratio: float = neutral(1.0, 100.0, 1.0)
    attention_launch_s: float = launch()
    attention_wave_s: float = launch()
    attention_combine_s: float = launch()
    attention_bandwidth_efficiency: float = efficiency()
    attention_compute_efficiency: float = efficiency()
    attention_tile_s: float = launch()
    attention_wave_ratio: float = share()
    attention_short_wave_s: float = launch()
    attention_unit_s: float = neutral(0.0, 1.0, 0.0)
    attention_padding_ratio: float = neutral(0.0, 1.0, 1.0)
    verify_launch_s: float = launch()
    verify_wave_s: float = launch()
    verify_combine_s: float = launch()
    verify_bandwidth_efficiency: float = efficiency()
    verify_compute_efficiency: float = efficiency()
    verify_tile_s: float = launch()
    verify_wave_ratio: float = share()
    verify_mask_ratio: float = bounded(0.25, 2.0)
    unsplit_launch_s: float = launch()
    unsplit_unit_s: float = launch()
    unsplit_tile_s: float = launch()
    unsplit_wave_ratio: float = share()
    unsplit_reread_ratio: float = bounded(0.0, 100.0)
    unsplit_bandwidth_efficiency: float = efficiency()
    context_launch_s: float = launch()
    context_unit_s: float = launch()
    context_tile_s: float = launch()
    context_wave_ratio: float = share()
    context_bandwidth_efficiency: float = efficiency()
    context_compute_efficiency: float = efficiency()
    context_norm: float = bounded(1.0, math.inf)
    context_row_tile: float = neutral(16.0, 1024.0, 64.0)
    context_width_ratio: float = neutral(0.0, 1.0, 1.0)
    context_append_ratio: float = neutral(0.0, 50.0, 0.0)
    mla_launch_s: float = launch()
    mla_bandwidth_efficiency: float = efficiency()
    mla_compute_efficiency: float = efficiency()
    mla_tile_s: float = launch()
    mla_norm: float = bounded(1.0, math.inf)
    mla_wave_s: float = neutral(0.0, 1.0, 0.0)
    mla_reread_ratio: float = neutral(0.0, 2.0, 0.0)
    moe_launch_s: float = launch()
    moe_expert_s: float = launch()
    moe_bandwidth_efficiency: float = efficiency()
    moe_compute_efficiency: float = efficiency()
    moe_norm: float = bounded(1.0, math.inf)
    moe_few_rows: float = neutral(1.0, 1024.0, 8.0)
    moe_many_rows: float = neutral(1.0, 1024.0, 8.0)
    prefill_compute_efficiency: float = bounded(1e-3, 1.0)
    elementwise_kernel_s: float = launch()
    elementwise_kernels_per_layer: float = bounded(0.0, 1000.0)
    elementwise_bandwidth_efficiency: float = efficiency()
    sampler_launch_s: float = launch()
    sampler_row_s: float = launch()
    allreduce_launch_s: float = launch()
    allreduce_hop_s: float = launch()
    allreduce_two_shot_s: float = launch()
    allreduce_one_shot_efficiency: float = efficiency()
    allreduce_two_shot_efficiency: float = efficiency()
    allreduce_eager_s: float = launch()
    trtllm_launch_s: float = launch()
    trtllm_hop_s: float = launch()
    trtllm_two_shot_s: float = launch()
    trtllm_one_shot_efficiency: float = efficiency()
    trtllm_two_shot_efficiency: float = efficiency()
    trtllm_most_bytes: float = bounded(0.0, 1e12)
    nccl_launch_s: float = launch()
    nccl_hop_s: float = launch()
    nccl_efficiency: float = efficiency()
    host_layer_s: float = launch()
    residual_ratio: Mapping[str, float]
    corrections: Mapping[str, Correction] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_range(self, "constants.")
        missing = [name for name in OPERATIONS if name not in self.residual_ratio]
        if missing:
            raise InputError(
                f"every operation needs a residual; missing: {', '.join(missing)}",
                key="constants.residual_ratio",
            )
        for name, ratio in self.residual_ratio.items():
            check_number(f"constants.residual_ratio.{name}", ratio, RESIDUAL_RANGE)
        for name, correction in self.corrections.items():
            if name not in CORRECTED or len(correction.axes) != len(CORRECTED[name]):
                corrected = "; ".join(
                    f"{operation} by {', '.join(axes)}" for operation, axes in CORRECTED.items()
                )
                raise InputError(
                    f"only these have a correction: {corrected}", key=f"constants.{name}.correction"
                )
        object.__setattr__(self, "residual_ratio", self.residuals)
        object.__setattr__(self, "corrections", FrozenTable(self.corrections))

    @property
    def residuals(self) -> Residuals:
        """The residual ratios with their regimes."""
        ratios = self.residual_ratio
        return ratios if isinstance(ratios, Residuals) else Residuals(ratios)


NEUTRAL = {
    constant.name: float(constant.default)
    for constant in fields(Constants)
    if isinstance(constant.default, float)
}
CONSTANT_NAMES = tuple(
    constant.name for constant in fields(Constants) if "range" in constant.metadata
)
RESIDUAL_RANGE = (1e-4, 5.0)
PEAK_RANGE = (1e8, 1e19)


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One device: a GPU, or one server processor.

    Attributes:
        name: what the command line calls it, such as "h100-sxm".
        title: its full name.
        vendor: its maker.
        kind: "gpu", "cpu", or "accelerator" for what is neither.
        year: the year it came to market.
        memory_bytes: capacity that the driver reports; what driver and engine keep of it counts
            where it is used.
        bandwidth_bytes_per_s: peak rate of its memory.
        peak_flops_per_s: dense peak by dtype, for those of `DTYPES` that the device computes
            natively.
        cache_bytes: last-level cache.
        processors: streaming multiprocessors, compute units or cores.
        link_bytes_per_s: rate to a sibling device, per direction.
        host_link_bytes_per_s: rate to the host's memory, per direction.
        power_w: board power limit.
        price_usd_per_hour: rent, or None where unknown.
        link_devices: devices that this link joins; None: those of one server.
        direct_devices: most devices of which every two have a link of their own (NVLink, Infinity
            Fabric) or reach each other through switches of such links; 1: devices meet over the
            host's links (PCIe) alone. None: all that the link joins.
        constants: fitted constants of the operation models.
        formats: constants of operations that compute in fewer than 16 bits, by format and
            operation.
        provenance: where each number comes from, by dotted name ("bandwidth_bytes_per_s",
            "peak_flops_per_s.bf16", "constants.gemm_launch_s", "constants.residual_ratio.gemm").
        calibrated: whether the constants of GEMM and attention, of which every pass is made, were
            measured on this very device; the other operations are distinguished by `provenance`.
        constants_from: the device that constants not given for this one were carried over from; its
            own name where nothing was carried over.
        driver_names: what drivers call it, for `recognition.recognise`.
    """

    name: str
    title: str
    vendor: str
    kind: Literal["gpu", "cpu", "accelerator"]
    year: int = field(metadata={"range": (1990, 2100)})
    memory_bytes: float = bounded(1e7, 1e15)
    bandwidth_bytes_per_s: float = bounded(1e7, 1e16)
    peak_flops_per_s: Mapping[str, float]
    cache_bytes: float = bounded(0.0, 1e13)
    processors: int = field(metadata={"range": (1, 1_000_000)})
    link_bytes_per_s: float = bounded(1e6, 1e16)
    host_link_bytes_per_s: float = bounded(1e6, 1e16)
    power_w: float = bounded(0.1, 1e6)
    price_usd_per_hour: float | None = field(default=None, metadata={"range": (0.0, 1e6)})
    link_devices: int | None = field(default=None, metadata={"range": (2, 1_000_000)})
    direct_devices: int | None = field(default=None, metadata={"range": (1, 1_000_000)})
    constants: Constants
    provenance: Mapping[str, NumberProvenance]
    calibrated: bool
    constants_from: str
    driver_names: tuple[str, ...] = ()
    formats: Mapping[str, Mapping[str, FormatGroup]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_range(self, "")
        if not self.peak_flops_per_s:
            raise InputError(
                f"at least one dtype is needed, of {', '.join(DTYPES)}", key="peak_flops_per_s"
            )
        for dtype, peak in self.peak_flops_per_s.items():
            if dtype not in DTYPES:
                allowed = ", ".join(DTYPES)
                raise InputError(
                    f"a dtype must be one of {allowed}", key="peak_flops_per_s", value=dtype
                )
            check_number(f"peak_flops_per_s.{dtype}", peak, PEAK_RANGE)
        object.__setattr__(self, "peak_flops_per_s", FrozenTable(self.peak_flops_per_s))
        object.__setattr__(self, "provenance", FrozenTable(self.provenance))
        for dtype, groups in self.formats.items():
            _check_groups(f"formats.{dtype}.", groups)
        tables = {dtype: FrozenTable(groups) for dtype, groups in self.formats.items()}
        object.__setattr__(self, "formats", FrozenTable(tables))

    def peak(self, dtype: str) -> float:
        """Dense peak for `dtype`, FLOP/s; no other dtype stands in for one that the device lacks.

        Raises:
            InputError: the device does not compute in `dtype`; the message names the dtypes that it
                has.
        """
        if dtype not in self.peak_flops_per_s:
            has = ", ".join(self.peak_flops_per_s)
            raise InputError(
                f"{self.name} has no such peak; it has {has}", key="dtype", value=dtype
            )
        return self.peak_flops_per_s[dtype]

    def in_format(self, dtype: str) -> "Device":
        """The device whose constants are those of kernels that compute in `dtype`, where it has
        some of their own.

        Operations without keep the constants of 16 bits; so does everything where the profile knows
        of none.
        """
        groups = self.formats.get(dtype)
        if not groups:
            return self
        values = {name: value for group in groups.values() for name, value in group.values.items()}
        residuals, corrections = self.constants.residuals, dict(self.constants.corrections)
        for operation, group in groups.items():
            residuals = residuals.changed(operation, group.residual_ratio, group.regimes)
            corrections.pop(operation, None)
            if group.correction is not None:
                corrections[operation] = group.correction
        prefix = f"formats.{dtype}."
        origins = {
            f"constants.{name.removeprefix(prefix)}": origin
            for name, origin in self.provenance.items()
            if name.startswith(prefix)
        }
        constants = replace(
            self.constants, **values, residual_ratio=residuals, corrections=corrections
        )
        return replace(self, constants=constants, provenance={**self.provenance, **origins})


def _check_groups(prefix: str, groups: Mapping[str, FormatGroup]) -> None:
    ranges = {
        constant.name: constant.metadata["range"]
        for constant in fields(Constants)
        if "range" in constant.metadata
    }
    for operation, group in groups.items():
        for name, value in group.values.items():
            check_number(prefix + name, value, ranges[name])
        check_number(f"{prefix}residual_ratio.{operation}", group.residual_ratio, RESIDUAL_RANGE)
