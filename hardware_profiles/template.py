"""What does a device file look like that someone can fill in?

A commented file with the numbers of a relative, each marked as assumed, which loads as it stands;
replacing number and source is all that is left to do. Leaves out constants: they come from the
relative until `rooftree calibrate` fits them.
"""

import re
from collections.abc import Mapping

from hardware_profiles.errors import InputError
from hardware_profiles.loader import SCALARS, load_device
from hardware_profiles.profile import DTYPES, Device
from hardware_profiles.schema import NAME_PATTERN
from hardware_profiles.units import TERA

_SCALAR_COMMENTS: Mapping[str, str] = {
    "memory": (
        "What the driver reports: MiB of nvidia-smi --query-gpu=memory.total, times 0.001048576."
    ),
    "bandwidth": "Peak of the memory, from the datasheet.",
    "cache": "Last-level cache (L2), in units of 1e6 bytes.",
    "processors": "Streaming multiprocessors, compute units or cores.",
    "link": (
        "To a sibling device, per direction: half of what NVLink is advertised with; PCIe 4.0 x16"
        " has 32, 5.0 64."
    ),
    "host_link": "To the host's memory, per direction.",
    "power": "Limit of the board.",
    "link_devices": (
        "Devices that the link joins, where that is more than one server; leave it out otherwise."
    ),
    "direct_devices": (
        "Most devices that reach each other without the host, 1 where they meet over PCIe "
        "alone; leave it out where the link joins all."
    ),
    "price": (
        "Rent; leave it out where you own the device. Where and when it was read belongs into the"
        " source."
    ),
}


def device_template(name: str, like: str = "h100-sxm") -> str:
    """The text of a device file to fill in.

    Args:
        name: of the new device: lower case, digits and dashes.
        like: relative whose numbers stand in and whose constants are carried over, a name of
            `device_names()`.

    Raises:
        InputError: a name that no device can have; UnknownNameError for a relative that is not
            shipped.

    Example:
        >>> print(device_template("my-card", "l4").splitlines()[3])
        name = "my-card"
    """
    if not re.fullmatch(NAME_PATTERN, name) or len(name) > 80:
        usual = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:80]
        such = f", such as {usual}" if re.fullmatch(NAME_PATTERN, usual) else ""
        raise InputError(
            f"must be lower case letters and digits with dashes between{such}",
            key="name",
            value=name,
        )
    relative = load_device(like)
    assumed = f'kind = "assumed", source = "REPLACE: the number of {relative.name}"'
    lines = [
        (
            f"# A device like {relative.title}. It loads as it is: --device {name}.toml. Replace"
            " numbers and sources,"
        ),
        (
            '# and write kind = "datasheet" or "measured" where you looked a number up; what stays'
            " assumed is said to be."
        ),
        (
            "# All mistakes of a file are reported together. `rooftree calibrate` measures what a"
            " datasheet cannot say."
        ),
        f'name = "{name}"',
        f'title = "{name}"',
        f'vendor = "{relative.vendor}"',
        f'kind = "{relative.kind}"  # gpu, cpu or accelerator',
        f"year = {relative.year}",
        (
            "# Names that the driver uses (nvidia-smi --query-gpu=name), by which a card is"
            " recognised:"
        ),
        'names = []  # ["NVIDIA ..."]',
        "",
    ]
    for field, (key, unit, factor) in SCALARS.items():
        number = getattr(relative, field)
        if number is not None:
            scaled = number if factor == 1 else number / factor
            lines += [f"# {_SCALAR_COMMENTS[key]}", f"{key} = {{ {unit} = {scaled!r}, {assumed} }}"]
    lines += [
        "",
        (
            "# Dense peaks with the accumulation that engines use; advertised rates are often twice"
            " that, for"
        ),
        "# sparse products. A format that the device does not compute in is left out.",
    ]
    lines += ["[peak]", *_peaks(relative, assumed), ""]
    lines += [
        (
            "# Kernel constants are those of the nearest device that was measured, with wider"
            " intervals."
        ),
        "[constants]",
        f'like = "{relative.name}"',
        (
            '# widening = { factor_ratio = 2.0, kind = "assumed", source = "why its kernels are'
            ' nearer or farther" }'
        ),
    ]
    return "\n".join(lines) + "\n"


def _peaks(relative: Device, assumed: str) -> list[str]:
    lines = []
    for dtype in DTYPES:
        if dtype in relative.peak_flops_per_s:
            lines.append(
                f"{dtype} = {{ TFLOP_per_s = {relative.peak_flops_per_s[dtype] / TERA!r},"
                f" {assumed} }}"
            )
        else:
            lines.append(f"# {dtype} = {{ TFLOP_per_s = 0.0, {assumed} }}")
    return lines
