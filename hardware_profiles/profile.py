"""What is known about one device, and where does each number come from?

Datasheet peaks (`Device`) and fitted constants (`hardware_profiles.fitted.constants`) are separate: a peak
is what the maker promises, a constant is how far a kernel falls short of it. Every number has an entry in
`Device.provenance`. How the numbers turn into times is left to the cost model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hardware_profiles.errors import InputError
from hardware_profiles.fitted.constants import RESIDUAL_RANGE, Constants
from hardware_profiles.fitted.formats import FormatGroup
from hardware_profiles.frozen_table import FrozenTable
from hardware_profiles.ranges import bounded, check_number, check_range

Kind = Literal["datasheet", "measured", "assumed"]
KINDS: tuple[Kind, ...] = ("datasheet", "measured", "assumed")
DTYPES = ("fp32", "bf16", "fp16", "fp8", "int8", "fp4")
PEAK_RANGE = (1e8, 1e19)


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
            "peak_flops_per_s.bf16", "constants.gemm.launch_s", "constants.residual_ratio.gemm").
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
            for operation, group in groups.items():
                key = f"formats.{dtype}.residual_ratio.{operation}"
                check_number(key, group.residual_ratio, RESIDUAL_RANGE)
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
        own: dict[str, Any] = {operation: group.constants for operation, group in groups.items()}
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
            self.constants, **own, residual_ratio=residuals, corrections=corrections
        )
        return replace(self, constants=constants, provenance={**self.provenance, **origins})
