"""Which fitted constants does each operation of a device have, and where may they lie?

One record per operation: how far its kernels fall short of the device's peaks, and what they cost
beside arithmetic and traffic. Times are in seconds; an efficiency is a share of a peak. What a
device file calls its groups, these records call themselves. How the constants become a time is left
to `costmodel.passes.kernels`, and fitting them to `costmodel.calibration`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, get_type_hints

from hardware_profiles.errors import InputError
from hardware_profiles.fitted.corrections import CORRECTED, Correction
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

RESIDUAL_RANGE = (1e-4, 5.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationConstants:
    """The constants of one operation; all fields are numbers.

    Attributes:
        operation: its name, one of `OPERATIONS`.

    Raises:
        InputError: a number out of its range.
    """

    operation: ClassVar[str]

    def __post_init__(self) -> None:
        check_range(self, f"constants.{self.operation}.")


@dataclass(frozen=True, kw_only=True, slots=True)
class Gemm(OperationConstants):
    """Matrix products.

    Attributes:
        launch_s: fixed cost of a product.
        compute_efficiency: share of the peak reached at large shapes.
        bandwidth_efficiency: share of the bandwidth reached at small ones.
        output_efficiency: share of the bandwidth reached while writing outputs.
        norm: p of the p-norm that joins both roofs; 1 adds them, infinity takes the larger.
        tile_ratio: how much slower arithmetic in small output tiles is: by this times
            (128/rows - 1)/2.
        wave_ratio: how far a partly filled wave of tiles counts as a full one; 0 not at all, 1
            fully.
        fill_ratio: share of the bandwidth, in multiples of a processor's own, that one processor
            cannot draw more of: 1 over what it draws at most. 0 where a library splits the inner
            dimension, so that all draw.
        block_rows: rows that a CPU's products take together; what is left of them is taken one by
            one.
        single_ratio: time of arithmetic on such a row over that on a row of a block.
    """

    operation: ClassVar[str] = "gemm"
    launch_s: float = launch()
    compute_efficiency: float = efficiency()
    bandwidth_efficiency: float = efficiency()
    output_efficiency: float = efficiency()
    norm: float = bounded(1.0, math.inf)
    tile_ratio: float = bounded(0.0, 10.0)
    wave_ratio: float = share()
    fill_ratio: float = neutral(0.0, 1.0, 0.0)
    block_rows: float = neutral(1.0, 1024.0, 1.0)
    single_ratio: float = neutral(1.0, 100.0, 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class SplitAttention(OperationConstants):
    """Attention whose kernel splits the KV cache of a request over processors.

    Attributes:
        launch_s: fixed cost of a call.
        wave_s: cost of each wave of work over the processors.
        combine_s: cost of merging the splits, where there is more than one.
        bandwidth_efficiency: share of the bandwidth reached while reading KV.
        compute_efficiency: share of the peak reached on the padded tiles.
        tile_s: time of one 64-token KV tile on one processor, head width 128.
        wave_ratio: how far a partly filled wave counts as a full one.
    """

    launch_s: float = launch()
    wave_s: float = launch()
    combine_s: float = launch()
    bandwidth_efficiency: float = efficiency()
    compute_efficiency: float = efficiency()
    tile_s: float = launch()
    wave_ratio: float = share()


SPLIT_CONSTANTS = tuple(constant.name for constant in fields(SplitAttention))
"""What decoding and verification have in common."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeAttention(SplitAttention):
    """Split-KV attention with one query token per request.

    Attributes:
        wave_s: cost of each wave, more than 256 tokens cached.
        short_wave_s: in place of `wave_s` where at most 256 tokens are cached.
        unit_s: time of a wave of units beside its tiles, which passes while other units read.
        padding_ratio: how far query rows of decoding and verification are computed as full tiles of
            64; 0 where a kernel takes them row by row.
    """

    operation: ClassVar[str] = "attention"
    short_wave_s: float = launch()
    unit_s: float = neutral(0.0, 1.0, 0.0)
    padding_ratio: float = neutral(0.0, 1.0, 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class VerifyAttention(SplitAttention):
    """Split-KV attention with several query tokens per request.

    Attributes:
        mask_ratio: share of the square of new tokens that is computed: half where the kernel skips
            what the causal mask hides, all of it where it does not.
    """

    operation: ClassVar[str] = "verify"
    mask_ratio: float = bounded(0.25, 2.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class UnsplitAttention(OperationConstants):
    """Attention whose kernel cannot split the KV cache of a request.

    Attributes:
        launch_s: fixed cost of a call.
        unit_s: fixed cost of a block of 64 query rows of one head on its processor.
        tile_s: time of one 64x64 tile.
        wave_ratio: how far a partly filled wave of blocks counts as a full one.
        reread_ratio: blocks in flight, in multiples of the processors, beyond which the heads of a
            group stop sharing what they read: 1 over that number.
        bandwidth_efficiency: share of the bandwidth reached while reading KV, rereads included.
    """

    operation: ClassVar[str] = "unsplit"
    launch_s: float = launch()
    unit_s: float = launch()
    tile_s: float = launch()
    wave_ratio: float = share()
    reread_ratio: float = bounded(0.0, 100.0)
    bandwidth_efficiency: float = efficiency()


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextAttention(OperationConstants):
    """Attention over a prompt or a chunk of one.

    Attributes:
        launch_s: fixed cost of a call.
        unit_s: fixed cost of a block of 64 query rows of one head on its processor.
        tile_s: time of one 64x64 tile, head width 128.
        wave_ratio: how far a partly filled wave of blocks counts as a full one.
        bandwidth_efficiency: share of the bandwidth.
        compute_efficiency: share of the peak.
        norm: p of the p-norm that joins the walk of the tiles and the roofs.
        row_tile: query rows of a block.
        width_ratio: share of a tile's time that grows with the width of a head; the rest is the
            softmax's.
        append_ratio: time to write new keys and values into the cache beforehand, in that of their
            own traffic at the full bandwidth; 0 where no kernel of its own does it.
    """

    operation: ClassVar[str] = "context"
    launch_s: float = launch()
    unit_s: float = launch()
    tile_s: float = launch()
    wave_ratio: float = share()
    bandwidth_efficiency: float = efficiency()
    compute_efficiency: float = efficiency()
    norm: float = bounded(1.0, math.inf)
    row_tile: float = neutral(16.0, 1024.0, 64.0)
    width_ratio: float = neutral(0.0, 1.0, 1.0)
    append_ratio: float = neutral(0.0, 50.0, 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class LatentAttention(OperationConstants):
    """Absorbed multi-head latent attention.

    Attributes:
        launch_s: fixed cost of a call.
        bandwidth_efficiency: share of the bandwidth.
        compute_efficiency: share of the peak.
        tile_s: time of 64 cached tokens on one processor, where the cache of a request is not split.
        pair_ratio: time of the same where the processor's neighbour walks too, in multiples of it.
        norm: p of the p-norm that joins that walk and the roofs.
        wave_s: cost of each wave of requests' head tiles over the processors.
        reread_ratio: share of the cache that a further tile of 16 query heads reads from memory
            again, where fewer than 64 rows share a request's cache.
    """

    operation: ClassVar[str] = "mla"
    launch_s: float = launch()
    bandwidth_efficiency: float = efficiency()
    compute_efficiency: float = efficiency()
    tile_s: float = launch()
    norm: float = bounded(1.0, math.inf)
    pair_ratio: float = neutral(1.0, 4.0, 1.0)
    wave_s: float = neutral(0.0, 1.0, 0.0)
    reread_ratio: float = neutral(0.0, 2.0, 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Experts(OperationConstants):
    """The grouped products of a mixture-of-experts layer.

    Attributes:
        launch_s: fixed cost of a layer.
        expert_s: cost of each distinct expert touched in a model 4096 wide; it goes with the width.
        bandwidth_efficiency: share of the bandwidth.
        compute_efficiency: share of the peak, rows padded per expert.
        norm: p of the p-norm that joins both roofs.
        few_rows: rows of a tile; 8 where the kernels choose it by the load of an expert.
        many_rows: rows of a tile once there are more tokens than experts; as many where the kernels
            choose it by the load of an expert.
        unaligned_ratio: how many times as long experts take, the launch aside, whose width is no
            multiple of 16; 1 where it does not matter.
    """

    operation: ClassVar[str] = "moe"
    launch_s: float = launch()
    expert_s: float = launch()
    bandwidth_efficiency: float = efficiency()
    compute_efficiency: float = efficiency()
    norm: float = bounded(1.0, math.inf)
    few_rows: float = neutral(1.0, 1024.0, 8.0)
    many_rows: float = neutral(1.0, 1024.0, 8.0)
    unaligned_ratio: float = neutral(1.0, 10.0, 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Prefill(OperationConstants):
    """Matrix products in passes of many hundred tokens.

    Attributes:
        compute_efficiency: share of the peak; at most 1.
    """

    operation: ClassVar[str] = "prefill"
    compute_efficiency: float = bounded(1e-3, 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Elementwise(OperationConstants):
    """Norms, rotations, activations and residuals.

    Attributes:
        kernel_s: fixed cost of a kernel.
        kernels_per_layer: how many of those a layer runs.
        bandwidth_efficiency: their share of the bandwidth.
    """

    operation: ClassVar[str] = "elementwise"
    kernel_s: float = launch()
    kernels_per_layer: float = bounded(0.0, 1000.0)
    bandwidth_efficiency: float = efficiency()


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampler(OperationConstants):
    """Sampling from logits.

    Attributes:
        launch_s: fixed cost of a call.
        row_s: cost of each sampled row.
    """

    operation: ClassVar[str] = "sampler"
    launch_s: float = launch()
    row_s: float = launch()


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineAllReduce(OperationConstants):
    """All-reduce by an engine's own kernels, which write into the memory of every peer.

    Attributes:
        launch_s: fixed cost of a call.
        hop_s: cost of each doubling of the number of devices.
        two_shot_s: extra cost of the two-shot algorithm.
        one_shot_efficiency: share of the link bandwidth reached by the one-shot algorithm.
        two_shot_efficiency: the same for the two-shot algorithm.
    """

    launch_s: float = launch()
    hop_s: float = launch()
    two_shot_s: float = launch()
    one_shot_efficiency: float = efficiency()
    two_shot_efficiency: float = efficiency()


@dataclass(frozen=True, kw_only=True, slots=True)
class AllReduce(EngineAllReduce):
    """All-reduce by vLLM's kernels.

    Attributes:
        eager_s: least time of a call outside a captured graph.
    """

    operation: ClassVar[str] = "allreduce"
    eager_s: float = launch()


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorRtAllReduce(EngineAllReduce):
    """All-reduce by TensorRT-LLM's kernels.

    Attributes:
        most_bytes: message from which they hand over to NCCL.
    """

    operation: ClassVar[str] = "trtllm"
    most_bytes: float = bounded(0.0, 1e12)


@dataclass(frozen=True, kw_only=True, slots=True)
class Nccl(OperationConstants):
    """NCCL's ring.

    Attributes:
        launch_s: fixed cost of a call.
        hop_s: cost per participant.
        efficiency: share of the link bandwidth.
    """

    operation: ClassVar[str] = "nccl"
    launch_s: float = launch()
    hop_s: float = launch()
    efficiency: float = efficiency()


@dataclass(frozen=True, kw_only=True, slots=True)
class Host(OperationConstants):
    """The CPU that launches kernels.

    Attributes:
        layer_s: CPU time per layer without captured graphs; with graphs it has no effect.
    """

    operation: ClassVar[str] = "host"
    layer_s: float = launch()


@dataclass(frozen=True, kw_only=True, slots=True)
class Constants:
    """Fitted constants of a device by operation; one of them is named `gemm.launch_s`.

    Attributes:
        gemm: matrix products.
        attention: decode attention with a split KV cache.
        verify: the same with several query tokens per request.
        unsplit: attention that cannot split the cache.
        context: attention over prompts.
        mla: absorbed latent attention.
        moe: expert layers.
        prefill: products of many hundred tokens.
        elementwise: the small kernels of a layer.
        sampler: sampling.
        allreduce: vLLM's all-reduce.
        trtllm: TensorRT-LLM's all-reduce.
        nccl: NCCL's ring.
        host: launches by the CPU.
        residual_ratio: per operation, the half width of the 80 % interval of measured / predicted -
            1. Every operation of `OPERATIONS` is present. A `Residuals` adds regimes; any other
            mapping becomes one without.
        corrections: what measurements leave of the forms of some operations, to interpolate in.

    Raises:
        InputError: a residual that is missing or out of its range, or a correction of an operation
            that has none.
    """

    gemm: Gemm
    attention: DecodeAttention
    verify: VerifyAttention
    unsplit: UnsplitAttention
    context: ContextAttention
    mla: LatentAttention
    moe: Experts
    prefill: Prefill
    elementwise: Elementwise
    sampler: Sampler
    allreduce: AllReduce
    trtllm: TensorRtAllReduce
    nccl: Nccl
    host: Host
    residual_ratio: Mapping[str, float]
    corrections: Mapping[str, Correction] = field(default_factory=dict)

    def __post_init__(self) -> None:
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

    def of(self, operation: str) -> OperationConstants:
        """The constants of an operation of `OPERATIONS`."""
        constants: OperationConstants = getattr(self, operation)
        return constants

    def number(self, name: str) -> float:
        """One constant, by its name in `CONSTANT_NAMES`."""
        operation, _, constant = name.partition(".")
        number: float = getattr(self.of(operation), constant)
        return number

    def changed(self, numbers: Mapping[str, float]) -> "Constants":
        """A copy with some constants replaced.

        Args:
            numbers: by name of `CONSTANT_NAMES`.

        Raises:
            InputError: a number out of its range.

        Example:
            >>> from hardware_profiles.loader import load_device
            >>> load_device("l4").constants.changed({"gemm.launch_s": 3e-6}).gemm.launch_s
            3e-06
        """
        by_operation: dict[str, dict[str, float]] = {}
        for name, number in numbers.items():
            operation, _, constant = name.partition(".")
            by_operation.setdefault(operation, {})[constant] = number
        groups: dict[str, Any] = {
            operation: replace(self.of(operation), **constants)
            for operation, constants in by_operation.items()
        }
        return replace(self, **groups)


RECORDS: Mapping[str, type[OperationConstants]] = {
    name: record
    for name, record in get_type_hints(Constants).items()
    if isinstance(record, type) and issubclass(record, OperationConstants)
}
"""The record of every operation."""
OPERATIONS = tuple(RECORDS)
CONSTANT_NAMES = tuple(
    f"{operation}.{constant.name}"
    for operation, record in RECORDS.items()
    for constant in fields(record)
)
NEUTRAL = {
    f"{operation}.{constant.name}": float(constant.default)
    for operation, record in RECORDS.items()
    for constant in fields(record)
    if isinstance(constant.default, float)
}
"""Constants that leave a form as it was before it had them; files may leave them out."""
