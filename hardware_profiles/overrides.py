"""What would happen on a device with one number changed?

Applies `--set device.<key>=<number>` to a device. Changed numbers are marked as assumed, and a
device with a changed constant no longer counts as calibrated. Names and texts cannot be changed:
write a file instead.
"""

import math
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.fitted.constants import CONSTANT_NAMES, OPERATIONS, Constants
from hardware_profiles.profile import DTYPES, Device, NumberProvenance
from hardware_profiles.units import amount_of_bytes, is_of_bytes

SOURCE = "set on the command line"


def override_keys() -> list[str]:
    """Every key that an override can set."""
    return [f"device.{name}" for name in _settable()]


def overridden(device: Device, override: str) -> Device:
    """The device with one number changed.

    Args:
        device: the device to start from.
        override: `device.<key>=<number>`, the number in SI; bytes and their rates also with a
            unit, as in 80GB or 3.35TB/s.

    Raises:
        InputError: no number, an unknown key (the nearest are offered), or a number out of its
            key's range.

    Example:
        >>> from hardware_profiles.loader import load_device
        >>> overridden(load_device("l4"), "device.power_w=60").power_w
        60.0
    """
    key, equals, text = (part.strip() for part in override.partition("="))
    if not equals:
        raise InputError("an override reads device.<key>=<number>", key="set", value=override)
    keys = override_keys()
    if key not in keys:
        raise UnknownNameError("key", key, keys, key="set")
    number = _number(key, text)
    name = key.removeprefix("device.")
    try:
        return _changed(device, name, number)
    except InputError as error:
        error.key, error.value = key, text
        raise


def _settable() -> Iterator[str]:
    yield from (
        field.name for field in fields(Device) if "range" in field.metadata and field.name != "year"
    )
    yield from (f"peak_flops_per_s.{dtype}" for dtype in DTYPES)
    yield from (f"constants.{name}" for name in CONSTANT_NAMES)
    yield from (f"constants.residual_ratio.{operation}" for operation in OPERATIONS)


def _changed(device: Device, name: str, number: float) -> Device:
    provenance = {**device.provenance, name: NumberProvenance(kind="assumed", source=SOURCE)}
    head, _, tail = name.partition(".")
    changes: dict[str, Any] = {head: number}
    if head == "peak_flops_per_s":
        changes = {head: {**device.peak_flops_per_s, tail: number}}
    elif head == "constants":
        changes = {head: _with_constant(device.constants, tail, number), "calibrated": False}
    return replace(device, provenance=provenance, **changes)


def _with_constant(constants: Constants, name: str, number: float) -> Constants:
    table, _, operation = name.partition(".")
    if table == "residual_ratio":
        return replace(constants, residual_ratio=constants.residuals.changed(operation, number))
    return constants.changed({name: number})


def _number(key: str, text: str) -> float:
    try:
        rate = key.endswith("_per_s")
        number = amount_of_bytes(text, per_s=rate) if is_of_bytes(key) else float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number):
        raise InputError("must be a number, in SI", key=key, value=text)
    if key != "device.processors":
        return number
    if not number.is_integer():
        raise InputError("must be a whole number", key=key, value=text)
    return int(number)
