"""Which shipped profile is that of the GPU at hand?

By its whole name, and where the driver gives cards of several sizes one name, by processors and memory. A card that is
not in the table has no profile: a relative's numbers would be wrong without a sign of it. Leaves out CPUs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from hardware_profiles.loader import device_names
from hardware_profiles.units import GIB


@dataclass(frozen=True, slots=True)
class _Card:
    """A card as torch names it: pattern of the whole name, profile, processors, least and most GiB of memory."""

    pattern: str
    profile: str
    processors: int
    least_gib: float
    most_gib: float


_CARDS = (
    _Card(r"NVIDIA H100 80GB HBM3", "h100-sxm", 132, 75, 85),
    _Card(r"NVIDIA H100 PCIe", "h100-pcie", 114, 75, 85),
    _Card(r"NVIDIA H200", "h200-sxm", 132, 130, 150),
    _Card(r"NVIDIA GH200 (480GB|96GB HBM3)", "gh200-96", 132, 90, 100),
    _Card(r"NVIDIA A100-SXM4-80GB", "a100-sxm-80", 108, 75, 85),
    _Card(r"(NVIDIA )?A100-SXM4-40GB", "a100-sxm-40", 108, 37, 42),
    _Card(r"NVIDIA A10G", "a10g", 80, 20, 25),
    _Card(r"NVIDIA B200", "b200-sxm", 148, 170, 195),
    _Card(r"NVIDIA L4", "l4", 58, 20, 25),
    _Card(r"NVIDIA L40S", "l40s", 142, 40, 50),
    _Card(r"NVIDIA GeForce RTX 3090", "rtx-3090", 82, 22, 25),
    _Card(r"NVIDIA GeForce RTX 4090", "rtx-4090", 128, 22, 25),
    _Card(r"NVIDIA RTX PRO 6000 Blackwell (Server|Workstation) Edition", "rtx-pro-6000", 188, 90, 100),
    _Card(r"AMD Instinct MI300X( OAM)?", "mi300x", 304, 180, 200),
)


def profile_of(title: str, *, processors: int | None = None, memory_bytes: float | None = None) -> str:
    """The shipped profile of a card, "" where none is certain.

    Args:
        title: the card's own name.
        processors: multiprocessors or compute units; None: not known.
        memory_bytes: of the card; None: not known.

    Example:
        >>> profile_of("NVIDIA H100 80GB HBM3"), profile_of("NVIDIA H100 80GB HBM3 MIG 1g.10gb")
        ('h100-sxm', '')
    """
    known = device_names()
    for card in _CARDS:
        if re.fullmatch(card.pattern, title) is None or card.profile not in known:
            continue
        right_size = memory_bytes is None or card.least_gib <= memory_bytes / GIB <= card.most_gib
        if right_size and processors in (None, card.processors):
            return card.profile
    return ""


def profile_here(place: torch.device) -> str:
    """The shipped profile of a torch device, "" where none is certain."""
    if place.type != "cuda":
        return ""
    found = torch.cuda.get_device_properties(place)
    return profile_of(found.name, processors=found.multi_processor_count, memory_bytes=found.total_memory)
