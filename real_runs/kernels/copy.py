"""How fast does the device move memory?

Copies, reads and writes of contiguous buffers over sizes: the roof that memory-bound kernels stand
under. Leaves out strided access and transfers between devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch

from real_runs.kernels.sweep import Case, Variant
from real_runs.kernels.timing import Call

_WIDTH = 4  # bytes of a float32
_FACTOR = {"copy": 2.0, "read": 1.0, "write": 1.0}


def copy_cases(device: torch.device, *, sizes_bytes: Sequence[int]) -> list[Case]:
    """Copy, read (sum of float32) and write (fill) of every size, largest first.

    Args:
        device: where.
        sizes_bytes: size of the buffer.
    """
    return [
        Case(
            shape={"operation": operation, "dtype": "fp32", "rows": size // _WIDTH},
            flops=0.0,
            bytes=_FACTOR[operation] * size,
            set_bytes=2.0 * size,
            build=partial(_builders, operation, size // _WIDTH, device),
        )
        for size in sorted(sizes_bytes, reverse=True)
        for operation in _FACTOR
    ]


def _builders(
    operation: str, length: int, device: torch.device, sets: int
) -> Mapping[str, Callable[[], Variant]]:
    pairs = [
        (torch.ones(length, device=device), torch.zeros(length, device=device)) for _ in range(sets)
    ]
    calls: Mapping[str, Callable[[torch.Tensor, torch.Tensor], Call]] = {
        "copy": lambda a, b: partial(b.copy_, a),
        "read": lambda a, b: partial(torch.sum, a),
        "write": lambda a, b: partial(b.fill_, 2.0),
    }
    builders = {"torch": lambda: Variant(calls=[calls[operation](*pair) for pair in pairs])}
    if (
        operation == "copy" and device.type == "cuda"
    ):  # a graph hands a plain copy to the copy engine, which is slower
        builders["kernel"] = lambda: Variant(calls=[partial(torch.neg, a, out=b) for a, b in pairs])
    return builders
