"""What does launching a kernel cost, one by one and replayed from a graph?

A chain of additions to a few numbers, each waiting for the one before: what it takes beyond the
first is launch and nothing else. Leaves out the host's own work between launches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch

from real_runs.kernels.sweep import Case, Variant

_NUMBERS = 256
_WIDTH = 4


def launch_cases(device: torch.device, *, kernels: Sequence[int]) -> list[Case]:
    """Chains of kernels of next to no work; the effort says whether a graph replays them.

    Args:
        device: where they are launched.
        kernels: kernels of a chain, >= 1.
    """
    return [
        Case(
            shape={"operation": "launch", "dtype": "fp32", "rows": count, "inputs": _NUMBERS},
            flops=float(count * _NUMBERS),
            bytes=2.0 * count * _NUMBERS * _WIDTH,
            set_bytes=float(_NUMBERS * _WIDTH),
            build=partial(_builders, count, device),
            most_sets=1,
        )
        for count in kernels
    ]


def _builders(count: int, device: torch.device, sets: int) -> Mapping[str, Callable[[], Variant]]:
    numbers = [torch.zeros(_NUMBERS, device=device) for _ in range(sets)]

    def chain(values: torch.Tensor) -> torch.Tensor:
        for _ in range(count):
            values.add_(1.0)
        return values

    return {"chain": lambda: Variant(calls=[partial(chain, number) for number in numbers])}
