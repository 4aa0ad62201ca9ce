"""Which shipped profile is that of the GPU at hand?

The names that profiles list decide, and what the driver says of processors and memory. A card that
no profile stands for has none: a relative's numbers would be wrong without a sign of it. Leaves out
CPUs.
"""

from __future__ import annotations

import torch

from hardware_profiles.errors import InputError
from hardware_profiles.recognition import recognise
from real_runs.models.device import device_title


def profile_of(
    title: str, *, processors: int | None = None, memory_bytes: float | None = None
) -> str:
    """The shipped profile of a card, "" where none is certain.

    Args:
        title: the card's own name.
        processors: multiprocessors or compute units; None: not known.
        memory_bytes: of the card; None: not known.

    Example:
        >>> profile_of("NVIDIA H100 80GB HBM3"), profile_of("NVIDIA H100 80GB HBM3 MIG 1g.10gb")
        ('h100-sxm', '')
    """
    try:
        return recognise(title, memory_bytes=memory_bytes, sm_count=processors)
    except InputError:
        return ""


def profile_here(place: torch.device) -> str:
    """The shipped profile of a torch device, "" where none is certain."""
    if place.type == "mps":
        return profile_of(device_title(place))
    if place.type != "cuda":
        return ""
    properties = torch.cuda.get_device_properties(place)
    return profile_of(
        properties.name,
        processors=properties.multi_processor_count,
        memory_bytes=properties.total_memory,
    )
