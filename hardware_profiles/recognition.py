"""Which profile stands for the GPU that a driver names?

Exact names only, as profiles list them (`names`), with the memory and the processors that the
driver reports as a check: an RTX 4090 D is no RTX 4090, an A100 on PCIe none on SXM, and a slice of
a card is no card. Leaves out how a driver is asked, and what people say
(`hardware_profiles.stated_names`).
"""

import re

from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import load_device
from hardware_profiles.stated_names import MEMORY_RATIO, driver_names, profile_of_driver
from hardware_profiles.units import GIB

_SLICE = re.compile(r"\bmig\b|^grid\b|^nvidia grid\b|\bvgpu\b|-\d+[qcab]$", re.IGNORECASE)


def recognise(name: str, memory_bytes: float | None = None, sm_count: int | None = None) -> str:
    """The profile of a device by the name that its driver gives.

    Args:
        name: as `nvidia-smi --query-gpu=name`, `torch.cuda.get_device_name` or `rocminfo` say it,
            in any case.
        memory_bytes: what the driver reports; a card with another size is another card. None: not
            checked.
        sm_count: streaming multiprocessors or compute units that it reports. None: not checked.

    Returns:
        A name for `load_device`.

    Raises:
        UnknownNameError: no profile lists the name; the nearest ones are offered.
        InputError: a slice of a card, or memory or processors that the profile does not have.

    Example:
        >>> recognise("NVIDIA H100 80GB HBM3"), recognise("NVIDIA GeForce RTX 4090 D")
        ('h100-sxm', 'rtx-4090-d')
    """
    if _SLICE.search(name.strip()):
        raise InputError(
            "is a slice of a card, for which no profile stands; write one of your own",
            key="GPU",
            value=name,
        )
    profile = profile_of_driver(name)
    if profile is None:
        listed = [listed_name for names in driver_names().values() for listed_name in names]
        raise UnknownNameError("GPU", name[:200], listed)
    device = load_device(profile)
    if memory_bytes is not None and abs(memory_bytes / device.memory_bytes - 1.0) > MEMORY_RATIO:
        rule = (
            f"a {device.title} has {device.memory_bytes / GIB:.1f} GiB; with another size it is"
            " another card"
        )
        raise InputError(rule, key=f"memory of {name}", value=f"{memory_bytes / GIB:.1f} GiB")
    if sm_count is not None and sm_count != device.processors:
        rule = (
            f"a {device.title} has {device.processors} processors; with another number it is"
            " another card"
        )
        raise InputError(rule, key=f"processors of {name}", value=sm_count)
    return profile
