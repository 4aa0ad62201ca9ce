"""Which torch device does a model run on?

Checks a torch device's name and tells which hardware is behind it. Leaves out its speed
(`hardware_profiles`).
"""

from __future__ import annotations

import torch

from hardware_profiles.errors import InputError
from real_runs.models.processor import cpu_title


def checked_device(name: str) -> torch.device:
    """The torch device of that name.

    On a GPU `scaled_dot_product_attention` is kept to torch's flash, memory-efficient and plain
    kernels from here on: cuDNN's makes a plan for every shape, which a growing cache pays for at
    each length, and comes first in some versions of torch.

    Raises:
        InputError: no such device here.
    """
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    # torch raises all three, by device: not built in, no driver, no such operation
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"must be a torch device of this machine ({reason})", key="device", value=name
        ) from None
    if device.type == "cuda":
        torch.backends.cuda.enable_cudnn_sdp(False)
    return device


def device_title(device: torch.device) -> str:
    """The CPU's model name, or the GPU's; Apple names both alike."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return cpu_title().removeprefix("CPU: ") if device.type == "mps" else cpu_title()
