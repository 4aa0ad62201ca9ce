"""What is known about one device, and where does each number come from?

Datasheet peaks (`Device`) and fitted constants (`Constants`) are kept apart: a peak is what the maker
promises, a constant is how far a kernel falls short of it. Every number has an entry in `Device.provenance`.
How the numbers turn into times is left to the cost model.
"""

import math
import numbers
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Generic, Literal, TypeVar

from hardware_profiles.errors import InputError

V = TypeVar("V")

Kind = Literal["datasheet", "measured", "assumed"]
KINDS: tuple[Kind, ...] = ("datasheet", "measured", "assumed")
DTYPES = ("fp32", "bf16", "fp16", "fp8", "int8", "fp4")
OPERATIONS = (
    "gemm",
    "attention",
    "unsplit",
    "mla",
    "moe",
    "prefill",
    "elementwise",
    "sampler",
    "allreduce",
    "host",
)


class FrozenTable(Mapping[str, V], Generic[V]):
    """A mapping that cannot change and can be hashed, compared with any mapping, copied and pickled."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[str, V]) -> None:
        self._entries = dict(entries)

    def __getitem__(self, key: str) -> V:
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return f"FrozenTable({self._entries!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return FrozenTable, (self._entries,)


@dataclass(frozen=True, kw_only=True, slots=True)
class Provenance:
    """Where a number comes from.

    Attributes:
        kind: "datasheet" (the maker's figure), "measured" (timed on such a device) or "assumed" (carried
            over, or a sensible guess).
        source: document, table or reasoning, in words.
    """

    kind: Kind
    source: str


def _bounded(low: float, high: float) -> float:
    """A required dataclass field that holds a number in [low, high]; `check_range` enforces it."""
    return field(metadata={"range": (low, high)})  # type: ignore[no-any-return]


def _launch() -> float:
    return _bounded(0.0, 1.0)


def _efficiency() -> float:
    # above 1 happens: the fitted peak may exceed the datasheet's, whose clock is conservative on some boards
    return _bounded(1e-3, 2.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Constants:
    """Fitted constants of the operation models: times in seconds, efficiencies as ratios of the peaks.

    Attributes:
        gemm_launch_s: fixed cost of one matrix multiplication.
        gemm_compute_efficiency: share of the peak reached at large shapes.
        gemm_bandwidth_efficiency: share of the bandwidth reached at small ones.
        gemm_norm: p of the p-norm that joins both roofs; 1 adds them, infinity takes the larger.
        attention_launch_s: fixed cost of one split-KV attention call.
        attention_wave_s: cost of each wave of work over the processors.
        attention_combine_s: cost of merging the splits, where there is more than one.
        attention_bandwidth_efficiency: share of the bandwidth reached while reading KV.
        attention_compute_efficiency: share of the peak reached on the padded tiles.
        attention_tile_s: time of one 64-token KV tile on one processor.
        unsplit_launch_s: fixed cost of an attention call that cannot split the KV cache.
        unsplit_tile_s: time of one 64x64 tile of such a call.
        mla_launch_s: fixed cost of absorbed latent attention.
        mla_bandwidth_efficiency: its share of the bandwidth.
        mla_compute_efficiency: its share of the peak.
        moe_launch_s: fixed cost of one mixture-of-experts layer.
        moe_expert_s: cost of each distinct expert touched.
        moe_bandwidth_efficiency: its share of the bandwidth.
        moe_compute_efficiency: its share of the peak, rows padded per expert.
        prefill_compute_efficiency: share of the peak in passes of many hundred tokens; at most 1.
        elementwise_kernel_s: fixed cost of a norm, rotation, activation or residual kernel.
        elementwise_kernels_per_layer: how many of those a layer runs.
        elementwise_bandwidth_efficiency: their share of the bandwidth.
        sampler_launch_s: fixed cost of sampling.
        sampler_row_s: cost of each sampled row.
        allreduce_launch_s: fixed cost of an all-reduce.
        allreduce_hop_s: cost of each doubling of the number of devices.
        allreduce_two_shot_s: extra cost of the two-shot algorithm.
        allreduce_one_shot_efficiency: share of the link bandwidth reached by the one-shot algorithm.
        allreduce_two_shot_efficiency: the same for the two-shot algorithm.
        allreduce_eager_s: extra cost of a call outside a captured graph.
        host_layer_s: CPU time per layer without captured graphs; with graphs it has no effect.
        residual_ratio: per operation, the half width of the 80 % interval of measured / predicted - 1. Every
            operation of `OPERATIONS` is present.
    """

    gemm_launch_s: float = _launch()
    gemm_compute_efficiency: float = _efficiency()
    gemm_bandwidth_efficiency: float = _efficiency()
    gemm_norm: float = _bounded(1.0, math.inf)
    attention_launch_s: float = _launch()
    attention_wave_s: float = _launch()
    attention_combine_s: float = _launch()
    attention_bandwidth_efficiency: float = _efficiency()
    attention_compute_efficiency: float = _efficiency()
    attention_tile_s: float = _launch()
    unsplit_launch_s: float = _launch()
    unsplit_tile_s: float = _launch()
    mla_launch_s: float = _launch()
    mla_bandwidth_efficiency: float = _efficiency()
    mla_compute_efficiency: float = _efficiency()
    moe_launch_s: float = _launch()
    moe_expert_s: float = _launch()
    moe_bandwidth_efficiency: float = _efficiency()
    moe_compute_efficiency: float = _efficiency()
    prefill_compute_efficiency: float = _bounded(1e-3, 1.0)
    elementwise_kernel_s: float = _launch()
    elementwise_kernels_per_layer: float = _bounded(0.0, 1000.0)
    elementwise_bandwidth_efficiency: float = _efficiency()
    sampler_launch_s: float = _launch()
    sampler_row_s: float = _launch()
    allreduce_launch_s: float = _launch()
    allreduce_hop_s: float = _launch()
    allreduce_two_shot_s: float = _launch()
    allreduce_one_shot_efficiency: float = _efficiency()
    allreduce_two_shot_efficiency: float = _efficiency()
    allreduce_eager_s: float = _launch()
    host_layer_s: float = _launch()
    residual_ratio: Mapping[str, float]

    def __post_init__(self) -> None:
        check_range(self, "constants.")
        missing = [name for name in OPERATIONS if name not in self.residual_ratio]
        if missing:
            raise InputError(
                f"every operation needs a residual; missing: {', '.join(missing)}",
                key="constants.residual_ratio",
            )
        for name, ratio in self.residual_ratio.items():
            _check_number(f"constants.residual_ratio.{name}", ratio, RESIDUAL_RANGE)
        object.__setattr__(self, "residual_ratio", FrozenTable(self.residual_ratio))


CONSTANT_NAMES = tuple(each.name for each in fields(Constants) if each.name != "residual_ratio")
RESIDUAL_RANGE = (1e-4, 5.0)
PEAK_RANGE = (1e8, 1e19)


@dataclass(frozen=True, kw_only=True, slots=True)
class Device:
    """One device: a GPU, or one server processor.

    Attributes:
        name: what the command line calls it, such as "h100-sxm".
        title: its full name.
        vendor: its maker.
        kind: "gpu" or "cpu".
        year: the year it came to market.
        memory_bytes: capacity that weights and KV cache can use.
        bandwidth_bytes_per_s: peak rate of its memory.
        peak_flops_per_s: dense peak by dtype, for those of `DTYPES` that the device computes natively.
        cache_bytes: last-level cache.
        processors: streaming multiprocessors, compute units or cores.
        link_bytes_per_s: rate to a sibling device, per direction.
        host_link_bytes_per_s: rate to the host's memory, per direction.
        power_w: board power limit.
        price_usd_per_hour: rent, or None where unknown.
        constants: fitted constants of the operation models.
        provenance: where each number comes from, by dotted name ("bandwidth_bytes_per_s",
            "peak_flops_per_s.bf16", "constants.gemm_launch_s", "constants.residual_ratio.gemm").
        calibrated: whether the constants of GEMM and attention, of which every pass is made, were measured on
            this very device; the other operations are told apart by `provenance`.
        constants_from: the device that constants not given for this one were carried over from; its own name
            where nothing was carried over.
    """

    name: str
    title: str
    vendor: str
    kind: Literal["gpu", "cpu"]
    year: int = field(metadata={"range": (1990, 2100)})
    memory_bytes: float = _bounded(1e7, 1e15)
    bandwidth_bytes_per_s: float = _bounded(1e7, 1e16)
    peak_flops_per_s: Mapping[str, float]
    cache_bytes: float = _bounded(0.0, 1e13)
    processors: int = field(metadata={"range": (1, 1_000_000)})
    link_bytes_per_s: float = _bounded(1e6, 1e16)
    host_link_bytes_per_s: float = _bounded(1e6, 1e16)
    power_w: float = _bounded(0.1, 1e6)
    price_usd_per_hour: float | None = field(default=None, metadata={"range": (0.0, 1e6)})
    constants: Constants
    provenance: Mapping[str, Provenance]
    calibrated: bool
    constants_from: str

    def __post_init__(self) -> None:
        check_range(self, "")
        if not self.peak_flops_per_s:
            raise InputError(f"at least one dtype is needed, of {', '.join(DTYPES)}", key="peak_flops_per_s")
        for dtype, peak in self.peak_flops_per_s.items():
            if dtype not in DTYPES:
                allowed = ", ".join(DTYPES)
                raise InputError(f"a dtype must be one of {allowed}", key="peak_flops_per_s", value=dtype)
            _check_number(f"peak_flops_per_s.{dtype}", peak, PEAK_RANGE)
        object.__setattr__(self, "peak_flops_per_s", FrozenTable(self.peak_flops_per_s))
        object.__setattr__(self, "provenance", FrozenTable(self.provenance))

    def peak(self, dtype: str) -> float:
        """Dense peak for `dtype`, FLOP/s; no other dtype stands in for one that the device lacks.

        Raises:
            InputError: the device does not compute in `dtype`; the message names the dtypes that it has.
        """
        if dtype not in self.peak_flops_per_s:
            has = ", ".join(self.peak_flops_per_s)
            raise InputError(f"{self.name} has no such peak; it has {has}", key="dtype", value=dtype)
        return self.peak_flops_per_s[dtype]


def check_range(record: "Constants | Device", prefix: str) -> None:
    """Raise InputError for the first field of `record` whose number lies outside its stated range."""
    for each in fields(record):
        value = getattr(record, each.name)
        if "range" in each.metadata and not (value is None and each.default is None):
            _check_number(prefix + each.name, value, each.metadata["range"])


def _check_number(key: str, value: float, allowed: tuple[float, float]) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputError("must be a number", key=key, value=value)
    low, high = allowed
    if not low <= value <= high:
        raise InputError(f"must lie between {low:g} and {high:g}", key=key, value=value)
