"""How is a device written to a file, in the form that `load_device` reads?

What it writes, `hardware_profiles.loader` reads. Every constant is spelled out with its own kind
and source, so a written file has no relative. Numbers survive but for rounding in the last bits:
files hold scaled units.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

from hardware_profiles.fitted.constants import OPERATIONS
from hardware_profiles.fitted.regime_lines import regime_line
from hardware_profiles.fitted.residuals import Regime
from hardware_profiles.loader import SCALARS, written_key
from hardware_profiles.profile import Device, NumberProvenance
from hardware_profiles.units import MICRO, TERA
from hardware_profiles.whole_file import whole_file


def device_text(device: Device) -> str:
    """The device as TOML, in the form that `load_device` reads.

    Example:
        >>> from hardware_profiles.loader import load_device
        >>> print(device_text(load_device("l4")).splitlines()[0])
        name = "l4"
    """
    return "\n".join([*_head(device), *_constants(device)]) + "\n"


def write_device(device: Device, path: Path) -> None:
    """Write `device_text(device)` to `path`, whole or not at all.

    Raises:
        InputError: the folder is missing or cannot be written.
    """
    with whole_file(path) as part:
        part.write_text(device_text(device), encoding="utf-8")


def _head(device: Device) -> Iterator[str]:
    for name in ("name", "title", "vendor", "kind"):
        yield f"{name} = {_quoted(getattr(device, name))}"
    yield f"year = {device.year}"
    yield ""
    for name, (key, unit, factor) in SCALARS.items():
        number = getattr(device, name)
        if number is not None:
            scaled = number if factor == 1 else number / factor
            yield f"{key} = {{ {unit} = {scaled!r}, {_origin(device.provenance[name])} }}"
    yield ""
    yield "[peak]"
    for dtype, peak in device.peak_flops_per_s.items():
        origin = _origin(device.provenance[f"peak_flops_per_s.{dtype}"])
        yield f"{dtype} = {{ TFLOP_per_s = {float(peak) / TERA!r}, {origin} }}"


def _constants(device: Device) -> Iterator[str]:
    for operation in OPERATIONS:
        yield from _group(device, "constants", operation)
    for dtype, groups in device.formats.items():
        for operation in groups:
            yield from _group(device.in_format(dtype), f"formats.{dtype}", operation)


def _group(device: Device, table: str, operation: str) -> Iterator[str]:
    constants = device.constants.of(operation)
    names = [constant.name for constant in fields(constants)]
    common = device.provenance[f"constants.{operation}.{names[0]}"]
    yield ""
    yield f"[{table}.{operation}]"
    yield f"kind = {_quoted(common.kind)}"
    yield f"source = {_quoted(common.source)}"
    residual = float(device.constants.residual_ratio[operation])
    stated = _origin(device.provenance[f"constants.residual_ratio.{operation}"])
    yield f"residual = {{ p80_ratio = {residual!r}, {stated} }}"
    yield from _regimes(device.constants.residuals.regimes.get(operation, ()))
    correction = device.constants.corrections.get(operation)
    if correction is not None:
        axes, values = [list(axis) for axis in correction.axes], list(correction.values)
        yield f"correction = {{ axes = {axes}, values = {values} }}"
    for name in names:
        origin = device.provenance[f"constants.{operation}.{name}"]
        yield _constant(name, float(getattr(constants, name)), origin, common)


def _regimes(regimes: Sequence[Regime]) -> Iterator[str]:
    if regimes:
        yield "regimes = ["
        yield from (f"  '{regime_line(regime)}'," for regime in regimes)
        yield "]"


def _constant(name: str, number: float, origin: NumberProvenance, common: NumberProvenance) -> str:
    key = written_key(name)
    scaled = number / MICRO if key != name else number
    if origin == common:
        return f"{key} = {scaled!r}"
    return f"{key} = {{ value = {scaled!r}, {_origin(origin)} }}"


def _origin(provenance: NumberProvenance) -> str:
    return f"kind = {_quoted(provenance.kind)}, source = {_quoted(provenance.source)}"


def _quoted(text: str) -> str:
    # a JSON string is a TOML string, but for DEL
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
