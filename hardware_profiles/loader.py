"""How does the name of a device, or a user's file, become a `Device`?

Answers which devices there are, reads and checks one file, and carries constants over from a
relative where a device has none of its own. Overrides are in `hardware_profiles.overrides`.
Measuring a device is left to `rooftree calibrate`, which writes files of the same form into
`data/measured/`.
"""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardware_profiles.entry_points import provided
from hardware_profiles.errors import InputError, UnknownNameError, joined, separate
from hardware_profiles.fitted.constants import NEUTRAL, OPERATIONS, RECORDS, Constants
from hardware_profiles.fitted.corrections import Correction
from hardware_profiles.fitted.formats import FORMAT_OPERATIONS, FORMATS, WEIGHT_FORMATS, FormatGroup
from hardware_profiles.fitted.regime_lines import parse_regime
from hardware_profiles.fitted.residuals import Regime, Residuals
from hardware_profiles.outside_file import read_bounded
from hardware_profiles.overrides import overridden
from hardware_profiles.profile import Device, NumberProvenance
from hardware_profiles.stated_names import DATA, read_device_name
from hardware_profiles.units import GIGA, MEGA, MIB, MICRO

if TYPE_CHECKING:
    from hardware_profiles.schema import ConstantGroup, DeviceFile

MAX_FILE_BYTES = MIB

# ASSUMED from one pair: GEMM constants of the H100 used on the A100 leave 3.8 times the residual
# they leave at home, those of the A100 used on the H100 1.9 times; the geometric mean, 2.7, is
# rounded up
WIDENING_RATIO = 3.0
# an interval of measured / predicted must keep a positive lower end
WIDEST_RATIO = 0.95

# the key and the unit of a file, and the unit in SI
SCALARS = {
    "memory_bytes": ("memory", "GB", GIGA),
    "bandwidth_bytes_per_s": ("bandwidth", "GB_per_s", GIGA),
    "cache_bytes": ("cache", "MB", MEGA),
    "processors": ("processors", "count", 1),
    "link_bytes_per_s": ("link", "GB_per_s", GIGA),
    "host_link_bytes_per_s": ("host_link", "GB_per_s", GIGA),
    "power_w": ("power", "W", 1),
    "price_usd_per_hour": ("price", "usd_per_hour", 1),
    "link_devices": ("link_devices", "count", 1),
    "direct_devices": ("direct_devices", "count", 1),
}


def device_names() -> list[str]:
    """Names of the devices that can be loaded, sorted; no file is opened."""
    return sorted([*_files(), *_provided()])


def load_device(name_or_path: str | Path, overrides: Sequence[str] = ()) -> Device:
    """One device, from a shipped or measured profile, or from a file.

    Example:
        >>> device = load_device("H100 SXM", ["device.bandwidth_bytes_per_s=4.8e12"])
        >>> device.name, device.bandwidth_bytes_per_s, device.provenance["bandwidth_bytes_per_s"].kind
        ('h100-sxm', 4800000000000.0, 'assumed')

    Args:
        name_or_path: a name of `device_names()`, in any case and with any separators; a shorter or
            a driver's name of such a device (`H100`, `NVIDIA H100 PCIe`), as `read_device_name`
            reads it; or a path that ends in .toml.
        overrides: `device.<key>=<number>`, in SI: "device.bandwidth_bytes_per_s=4.8e12",
            "device.peak_flops_per_s.bf16=1e15", "device.constants.gemm.launch_s=3e-6". Later ones
            win.

    Returns:
        The device; overridden numbers are marked as assumed.

    Raises:
        InputError: an unknown name (the nearest are offered), an unreadable or wrong file, a wrong
            override.
    """
    if str(name_or_path).casefold().endswith(".toml"):
        device = _read(Path(name_or_path))
    else:
        device = _shipped(_resolved(str(name_or_path)))
    for override in overrides:
        device = overridden(device, override)
    return device


def profile_name(name_or_path: str) -> str:
    """The name of the device that `load_device` would load; a path, and a name that nothing
    carries, as they are.
    """
    if not name_or_path or name_or_path.casefold().endswith(".toml"):
        return name_or_path
    try:
        return _resolved(name_or_path)
    except UnknownNameError:
        return name_or_path


def _files() -> dict[str, Path]:
    return {
        path.stem: path for folder in (DATA, DATA / "measured") for path in folder.glob("*.toml")
    }


@cache
def _provided() -> Mapping[str, Device]:
    """Devices of installed packages, by name."""
    return {device.name: device for device in provided("rooftree.devices", Device, _require_free)}


def _require_free(device: Device) -> None:
    if device.name in _files():
        raise InputError("is the name of a shipped device", key="name", value=device.name)


@cache
def _resolved(name: str) -> str:
    if name in _files():  # what packages provide may be made of it
        return name
    names = device_names()
    matches = [known for known in names if _bare(known) == _bare(name)]
    if len(matches) == 1:
        return matches[0]
    if (stated := read_device_name(name)) is None:
        raise UnknownNameError("device", name, names)
    return stated


def _bare(name: str) -> str:
    return re.sub(r"[\W_]+", "", name.casefold())


@cache
def _shipped(name: str) -> Device:
    return _read(_files()[name]) if name in _files() else _provided()[name]


def _parsed(path: Path) -> "DeviceFile":
    from hardware_profiles.schema import parse_device

    return parse_device(_toml(path), str(path))


@cache
def _relative(path: Path) -> "DeviceFile":
    return _parsed(path)


def _read(path: Path) -> Device:
    file = _parsed(path)
    try:
        return _device(file, path)
    except InputError as error:
        mistakes = separate(error)
        for mistake in mistakes:
            _blamed(mistake, path)
        raise joined(mistakes) from None


def _blamed(error: InputError, path: Path) -> None:
    """Let an error about a number name the file, and the key that stands there for it."""
    if error.file is None:
        blamed_key = str(error.key)
        error.file, error.key = str(path), _file_key(blamed_key)
        error.message = (
            error.message if error.key == blamed_key else f"{blamed_key} {error.message}"
        )


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_bounded(path, MAX_FILE_BYTES).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not TOML: {error}", file=path) from None


def _device(file: "DeviceFile", path: Path) -> Device:
    scalars = {name: getattr(file, key) for name, (key, *_) in SCALARS.items()}
    numbers: dict[str, Any] = {name: number and number.si for name, number in scalars.items()}
    peaks = dict(file.peak.named())
    stated = {name: number for name, number in scalars.items() if number is not None}
    stated |= {f"peak_flops_per_s.{dtype}": number for dtype, number in peaks.items()}
    provenance = {
        name: NumberProvenance(kind=number.kind, source=number.source)
        for name, number in stated.items()
    }
    ancestry = _ancestry(file, path)
    constants, origins = _constants(ancestry)
    formats, narrow = _formats(ancestry)
    own = [getattr(file.constants, operation) for operation in ("gemm", "attention")]
    return Device(
        name=file.name,
        title=file.title,
        vendor=file.vendor,
        kind=file.kind,
        year=file.year,
        **numbers,
        peak_flops_per_s={dtype: peak.si for dtype, peak in peaks.items()},
        constants=constants,
        formats=formats,
        provenance=provenance | origins | narrow,
        calibrated=all(group is not None and group.kind == "measured" for group in own),
        constants_from=file.constants.like or file.name,
        driver_names=tuple(file.names),
    )


def _ancestry(file: "DeviceFile", path: Path) -> list["DeviceFile"]:
    """The file, the relative it names, the relative of that one, and so on."""
    ancestry, paths = [file], [path.resolve()]
    files = _files()
    while (like := ancestry[-1].constants.like) is not None:
        if like not in files:
            raise UnknownNameError(
                "device", like, sorted(files), file=paths[-1], key="constants.like"
            )
        if files[like].resolve() in paths:
            raise InputError(
                "a device's relatives must not lead back to it", key="constants.like", value=like
            )
        paths.append(files[like].resolve())
        ancestry.append(_relative(files[like]))
    return ancestry


@dataclass(frozen=True, kw_only=True, slots=True)
class _Read:
    """One group of constants as the cost model knows it, and where each of its numbers comes
    from.
    """

    group: FormatGroup
    origins: dict[str, NumberProvenance]


def _constants(ancestry: list["DeviceFile"]) -> tuple[Constants, dict[str, NumberProvenance]]:
    """The constants of the first file, its own or a relative's, with where each comes from."""
    records: dict[str, Any] = {}
    residuals: dict[str, float] = {}
    regimes: dict[str, tuple[Regime, ...]] = {}
    corrections: dict[str, Correction] = {}
    origins: dict[str, NumberProvenance] = {}
    mistakes: list[InputError] = []
    for operation in OPERATIONS:
        try:
            read = _inherited(ancestry, operation, "constants")
        except InputError as error:
            mistakes += separate(error)
            continue
        if read is None:
            mistakes.append(
                InputError("is missing, here and in every relative", key=f"constants.{operation}")
            )
            continue
        records[operation] = read.group.constants
        residuals[operation], regimes[operation] = read.group.residual_ratio, read.group.regimes
        if read.group.correction is not None:
            corrections[operation] = read.group.correction
        origins |= read.origins
    if mistakes:
        raise joined(mistakes)
    table = Residuals(residuals, regimes)
    return Constants(**records, residual_ratio=table, corrections=corrections), origins


def _formats(
    ancestry: list["DeviceFile"],
) -> tuple[dict[str, dict[str, FormatGroup]], dict[str, NumberProvenance]]:
    """The groups of narrow formats that the device computes in, its own or a relative's, by format
    and operation.
    """
    groups: dict[str, dict[str, FormatGroup]] = {}
    origins: dict[str, NumberProvenance] = {}
    for dtype in FORMATS:
        for operation in FORMAT_OPERATIONS:
            computes = dtype in WEIGHT_FORMATS or getattr(ancestry[0].peak, dtype) is not None
            read = _inherited(ancestry, operation, f"formats.{dtype}") if computes else None
            if read is not None:
                groups.setdefault(dtype, {})[operation] = read.group
                origins |= read.origins
    return groups, origins


def _inherited(ancestry: list["DeviceFile"], operation: str, table: str) -> _Read | None:
    """A group of a table of the first file, or of its nearest relative that has one; None where
    none has.

    Raises:
        InputError: keys that the operation does not have, or keys that are missing.
    """
    groups = [_table(relative, table).get(operation) for relative in ancestry]
    depth = next((i for i, group in enumerate(groups) if group is not None), None)
    if depth is None:
        return None
    group, owner = groups[depth], ancestry[depth]
    assert group is not None
    wrong = _wrong_keys(operation, group, f"{table}.{operation}")
    if wrong:
        raise joined(wrong)
    numbers, sources, residual = _group(operation, group, table)
    parts, correction = _parts(group, f"{table}.{operation}")
    if depth > 0:
        # carried over twice is not twice as wrong: the widest of the factors passed on the way
        # counts
        factor = max(_widening(relative) for relative in ancestry[:depth])
        residual, parts = (
            widened(residual, factor),
            tuple(provenance.wider(factor) for provenance in parts),
        )
        numbers = _rescaled(numbers, owner, ancestry[0])
        sources = {
            name: _carried_over(provenance, owner.name, factor)
            for name, provenance in sources.items()
        }
        correction = None  # which kernels a library picks is not handed down
    try:
        constants = RECORDS[operation](**numbers)  # whose errors name the constants of 16 bits
    except InputError as error:
        for mistake in separate(error):
            mistake.key = f"{table}.{str(mistake.key).removeprefix('constants.')}"
        raise
    read = FormatGroup(
        constants=constants, residual_ratio=residual, regimes=parts, correction=correction
    )
    return _Read(group=read, origins=sources)


def _table(file: "DeviceFile", table: str) -> dict[str, "ConstantGroup | None"]:
    """The groups of `constants`, or of one of the `formats`, by operation."""
    dtype = table.partition(".")[2]
    entry = getattr(file.formats, dtype) if dtype else file.constants
    return {name: getattr(entry, name, None) for name in OPERATIONS} if entry is not None else {}


def _parts(group: "ConstantGroup", path: str) -> tuple[tuple[Regime, ...], Correction | None]:
    """Regimes and correction of a group, as the cost model knows them."""
    try:
        regimes = tuple(parse_regime(line) for line in group.regimes)
        return regimes, group.correction.correction if group.correction else None
    except InputError as error:
        error.key = f"{path}.{error.key}"
        raise


def _widening(file: "DeviceFile") -> float:
    return file.constants.widening.si if file.constants.widening else WIDENING_RATIO


def widened(residual_ratio: float, factor: float) -> float:
    """The residual of constants on a device they were not fitted on: `factor` times as wide, at
    most 0.95.

    Args:
        residual_ratio: where they were fitted, > 0.
        factor: >= 1.
    """
    return max(residual_ratio, min(residual_ratio * factor, WIDEST_RATIO))


def _rescaled(
    numbers: dict[str, float], owner: "DeviceFile", heir: "DeviceFile"
) -> dict[str, float]:
    """Times of arithmetic on one processor follow the peak of one processor; all else is kept."""
    theirs, ours = dict(owner.peak.named()), dict(heir.peak.named())
    shared = next(
        (dtype for dtype in ("bf16", "fp16", "fp32") if dtype in theirs and dtype in ours), None
    )
    if shared is None:
        return numbers
    parts = (ours[shared].si, heir.processors.number, owner.processors.number, theirs[shared].si)
    if not all(0 < part < math.inf for part in parts):
        return numbers  # the device that is made of them is refused
    speed = parts[0] / parts[1] * parts[2] / parts[3]
    return {
        name: number / speed if name == "tile_s" else number for name, number in numbers.items()
    }


def _carried_over(origin: NumberProvenance, owner: str, factor: float) -> NumberProvenance:
    note = (
        f"carried over from {owner} (tile times by peak per processor, interval {factor:g} times as"
        " wide)"
    )
    return NumberProvenance(kind="assumed", source=f"{note}; there: {origin.source}")


def _wrong_keys(operation: str, group: "ConstantGroup", path: str) -> list[InputError]:
    """Keys of a group that its operation does not have, or those that are missing."""
    names = [constant.name for constant in fields(RECORDS[operation])]
    written = [written_key(name) for name in names]
    constants = group.__pydantic_extra__
    allowed = [*written, *type(group).model_fields]
    unknown: list[InputError] = [
        UnknownNameError("key", key, allowed, key=path) for key in constants if key not in written
    ]
    needed = [written_key(name) for name in names if f"{operation}.{name}" not in NEUTRAL]
    return unknown or [
        InputError("is missing", key=f"{path}.{key}") for key in needed if key not in constants
    ]


def _group(
    operation: str, group: "ConstantGroup", table: str
) -> tuple[dict[str, float], dict[str, NumberProvenance], float]:
    """Constants by name, provenance by dotted name, and the residual, of one group of a file."""
    constants = group.__pydantic_extra__
    values: dict[str, float] = {}
    origins: dict[str, NumberProvenance] = {}
    for name in (constant.name for constant in fields(RECORDS[operation])):
        key = written_key(name)
        entry = constants.get(key, NEUTRAL.get(f"{operation}.{name}", 0.0))
        number = entry if isinstance(entry, int | float) else entry.value
        where = group if isinstance(entry, int | float) else entry
        values[name] = number * MICRO if key != name else number
        origins[f"{table}.{operation}.{name}"] = NumberProvenance(
            kind=where.kind, source=where.source
        )
    kind, source = group.residual.kind or group.kind, group.residual.source or group.source
    origins[f"{table}.residual_ratio.{operation}"] = NumberProvenance(kind=kind, source=source)
    return values, origins, group.residual.interval_ratio


def written_key(name: str) -> str:
    """The key that a file uses for a constant of an operation: times stand in microseconds."""
    return name.removesuffix("_s") + "_us" if name.endswith("_s") else name


def _file_key(name: str) -> str:
    """The key in a file for a dotted name of `Device.provenance`."""
    if name in SCALARS:
        return ".".join(SCALARS[name][:2])
    if name.startswith("peak_flops_per_s."):
        return f"peak.{name.split('.')[1]}.TFLOP_per_s"
    table, _, tail = name.rpartition(".")
    if table.endswith(".residual_ratio"):
        return f"{table.removesuffix('.residual_ratio')}.{tail}.residual"
    if table.rpartition(".")[2] in OPERATIONS:
        return f"{table}.{written_key(tail)}"
    return name
