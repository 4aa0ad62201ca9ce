"""How fast are a device's memory and arithmetic, by what was timed on it?

Puts the fastest copy and the fastest product of every number format in the place of a profile's own
roofs. Leaves out how far kernels fall short of them (`real_runs.calibration.operations`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from costmodel.passes.precision import BYTES_PER_VALUE
from hardware_profiles.errors import InputError
from hardware_profiles.profile import Device, NumberProvenance
from traces.storage.kernels import KernelProvenance, KernelRow

_NATIVE = 0.5  # least rate of a format with arithmetic of its own, in that of fp32
_MATRIX_UNITS = 1.25  # the same of one with matrix units of its own


def conditions(about: KernelProvenance) -> str:
    """When, by what and on how many threads rows were timed.

    Example:
        >>> conditions(KernelProvenance(device="CPU: x", threads=2, torch="2.9", started="2026-11-26T10"))
        'timed on 2026-11-26 with 2 threads, torch 2.9'
    """
    day = f" on {about.started[:10]}" if about.started else ""
    ran = threads_in_words(about.threads) if about.device.startswith("CPU") else about.device
    return f"timed{day} with {ran}, torch {about.torch}"


def threads_in_words(threads: int) -> str:
    """A number of CPU threads, counted."""
    return f"{threads} thread" + ("s" if threads > 1 else "")


def timed_roofs(
    device: Device, rows: Sequence[KernelRow], about: KernelProvenance, *, dtype: str
) -> Device:
    """The profile with roofs of its own: bandwidth by cold copies, peaks by products.

    A format of which no product was timed has the profile's ratio to `dtype`, and is assumed. One
    of 16 bits whose products take more than twice as long as in fp32 is left out: the library
    converts it, and the device has no arithmetic of its own for it. One that is no more than a
    quarter faster than fp32 has the rate of fp32: vector units compute it, not matrix units, whose
    tiles the cost model would fill.

    Args:
        device: profile to start from.
        rows: copies, and products of one format or several.
        about: when and how they were timed.
        dtype: format that other formats are scaled by.

    Raises:
        InputError: no copy, or no product in `dtype`.
    """
    moved = [
        row.bytes / row.median_s
        for row in rows
        if row.operation in ("copy", "read", "write") and row.cold
    ]
    products = [row for row in rows if row.operation == "gemm"]
    rates = {
        form: max(row.flops / row.median_s for row in products if row.dtype == form)
        for form in dict.fromkeys(row.dtype for row in products)
    }
    if not moved or dtype not in rates:
        raise InputError(
            "neither copies nor matrix products were measured; raise the budget", key="budget"
        )
    vector = rates.get("fp32", 0.0)
    peaks = {
        form: vector if vector < rate < _MATRIX_UNITS * vector else rate
        for form, rate in rates.items()
        if rate >= _NATIVE * vector or form == dtype
    }
    timed = NumberProvenance(kind="measured", source=conditions(about))
    ratio = NumberProvenance(
        kind="assumed",
        source=f"the ratio of {device.name} to its {dtype}, times what was timed in {dtype}",
    )
    scaled = {
        name: value * peaks[dtype] / device.peak_flops_per_s.get(dtype, peaks[dtype])
        for name, value in device.peak_flops_per_s.items()
        if name not in rates and BYTES_PER_VALUE.get(name)
    }
    origins = {
        name: origin
        for name, origin in device.provenance.items()
        if not name.startswith("peak_flops_per_s.")
    }
    origins |= {f"peak_flops_per_s.{name}": timed for name in peaks}
    origins |= {f"peak_flops_per_s.{name}": ratio for name in scaled}
    return replace(
        device,
        bandwidth_bytes_per_s=max(moved),
        peak_flops_per_s=peaks | scaled,
        provenance=origins | {"bandwidth_bytes_per_s": timed},
    )


def shared_memory_links(device: Device) -> Device:
    """The profile of a processor whose memory is the host's: links at half the rate timed."""
    half = NumberProvenance(
        kind="assumed", source="memory of the same machine, at half the rate timed"
    )
    rate = device.bandwidth_bytes_per_s / 2
    return replace(
        device,
        host_link_bytes_per_s=rate,
        link_bytes_per_s=min(device.link_bytes_per_s, rate),
        provenance=dict(device.provenance)
        | dict.fromkeys(("host_link_bytes_per_s", "link_bytes_per_s"), half),
    )


def vendor_of(title: str) -> str:
    """Who makes a processor, by its name; "generic" where the name does not say."""
    return next(
        (
            name
            for name in ("NVIDIA", "AMD", "Intel", "ARM", "Apple", "IBM")
            if name.casefold() in title.casefold()
        ),
        "generic",
    )
