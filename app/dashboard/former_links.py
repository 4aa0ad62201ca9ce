"""What do links of earlier versions say in the fields of today?

Leaves out checking what they say (`state`).
"""

from collections.abc import Iterator, Mapping
from itertools import islice

from app.dashboard.device_numbers import number_as_sold
from hardware_profiles.errors import InputError
from hardware_profiles.profile import DTYPES

FORMER_KEYS = {
    "against": "rivals",
    "acceptance_ratio": "acceptance",
    "rates": "acceptance",
    "slo_tpot_ms": "slo_tpot",
    "slo_ttft_ms": "slo_ttft",
    "prompt": "recorded_prompt",
}
"""Keys of earlier links, which still open, with the fields that they state."""
FORMER_RATIOS = {
    "bandwidth_ratio": ("bandwidth_gb_per_s",),
    "peak_ratio": tuple(f"{dtype}_tflop_per_s" for dtype in DTYPES),
    "memory_ratio": ("memory_gb",),
    "link_ratio": ("link_gb_per_s",),
    "price_ratio": ("price_usd_per_hour",),
}
"""Keys of earlier links that multiply numbers of the device, with the fields that state these."""
_LEAST_RATIO, _MOST_RATIO = 0.25, 4.0


def by_field(query: Mapping[str, str], *, device: str, most: int) -> Iterator[tuple[str, str]]:
    """The parts of a link by field, those of earlier links under the names of today.

    Args:
        query: of the link.
        device: that it asks about.
        most: parts that are read.
    """
    unused = "acceptance_ratio" if query.get("known_by") == "rates" else "rates"
    for name, text in islice(query.items(), most):
        if name in FORMER_RATIOS:
            yield from _multiplied(name, text, device, query)
            continue
        field = FORMER_KEYS.get(name, name)
        if name in FORMER_KEYS and (name == unused or field in query):
            continue  # the key of today says it, or the other one of two that were kept apart
        yield field, _decimal(text) if name == "acceptance_ratio" else text


def _multiplied(
    name: str, text: str, device: str, query: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """The numbers of a device that a factor of an earlier link makes; the text as it is, to be
    refused, where that is no factor.
    """
    try:
        ratio = float(text)
    except ValueError:
        ratio = 0.0
    if not _LEAST_RATIO <= ratio <= _MOST_RATIO:
        yield name, text
        return
    for field in FORMER_RATIOS[name]:
        try:
            sold = number_as_sold(device, field)
        except InputError:
            return  # the link's device is refused by itself
        if sold is not None and ratio != 1.0 and field not in query:
            yield field, f"{sold * ratio:.10g}"


def _decimal(text: str) -> str:
    """A rate as links write it now, which earlier ones wrote as any number, such as `1e-05`."""
    try:
        return f"{float(text):.6f}".rstrip("0").rstrip(".")
    except ValueError:
        return text
