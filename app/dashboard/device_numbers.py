"""Which numbers of a device can a question change, and what are they as it is sold?

Each is a field of the question in the unit of its name, as a device's file and its datasheet write
it; 0 stands for the number as sold. Leaves out what else a question says (`state`) and the widgets
(`controls`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from app.dashboard.held import device_place
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from hardware_profiles.profile import DTYPES, PEAK_RANGE, Device
from hardware_profiles.units import GIGA, TERA


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceNumber:
    """A number of a device.

    Args:
        key: that `--set` takes, without `device.`.
        factor: of the unit that a person reads, in SI.
        most: largest number allowed, in that unit.
    """

    key: str
    factor: float
    most: float


_RANGES = {
    field.name: field.metadata["range"] for field in fields(Device) if "range" in field.metadata
}


def _scalar(key: str, factor: float) -> DeviceNumber:
    return DeviceNumber(key=key, factor=factor, most=_RANGES[key][1] / factor)


DEVICE_NUMBERS: Mapping[str, DeviceNumber] = {
    "memory_gb": _scalar("memory_bytes", GIGA),
    "bandwidth_gb_per_s": _scalar("bandwidth_bytes_per_s", GIGA),
    **{
        f"{dtype}_tflop_per_s": DeviceNumber(
            key=f"peak_flops_per_s.{dtype}", factor=TERA, most=PEAK_RANGE[1] / TERA
        )
        for dtype in DTYPES
    },
    "link_gb_per_s": _scalar("link_bytes_per_s", GIGA),
    "price_usd_per_hour": _scalar("price_usd_per_hour", 1.0),
}
"""By field of the question."""


def number_as_sold(device: str, name: str) -> float | None:
    """A number of a device in the unit of its field; None where the device has none.

    Example:
        >>> number_as_sold("h100-sxm", "bandwidth_gb_per_s")
        3350.0

    Args:
        device: shipped name, or that of a file that the server keeps.
        name: field of the question.

    Raises:
        InputError: there is no such device.
    """
    return number_of(load_device(device_place(device)), name)


def number_of(device: Device, name: str) -> float | None:
    """A number of a device in the unit of its field; None where the device has none.

    Args:
        device: with the numbers that it has now.
        name: field of the question.
    """
    number = DEVICE_NUMBERS[name]
    table, _, dtype = number.key.partition(".")
    value = getattr(device, table).get(dtype) if dtype else getattr(device, table)
    return None if value is None else value / number.factor


def modified_numbers(device: str, overrides: Sequence[str]) -> dict[str, float]:
    """The numbers that values of `--set` make of a device, by field of the question.

    Example:
        >>> modified_numbers("h100-sxm", ["device.memory_bytes=141GB"])
        {'memory_gb': 141.0}

    Args:
        device: shipped name.
        overrides: `device.KEY=VALUE`.

    Raises:
        InputError: a number that no question of a page changes, or as `load_device`.
    """
    if not overrides:
        return {}
    fields = {f"device.{number.key}": name for name, number in DEVICE_NUMBERS.items()}
    modified, numbers = load_device(device, overrides), {}
    for text in overrides:
        key = text.partition("=")[0].strip()
        if key not in fields:
            rule = f"is no number that a page changes: {', '.join(fields)}"
            raise InputError(rule, key="set", value=key)
        if not (value := number_of(modified, fields[key])):
            raise InputError("must be above 0 on a page", key=key, value=text)
        numbers[fields[key]] = value
    return numbers
