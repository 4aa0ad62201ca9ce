"""Which kernels does one call really run?

Asks torch's profiler: kernel names on a GPU, the operators that take the time on a CPU. Leaves out
their times.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch._C._autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from real_runs.kernels.timing import Call

_MOST_NAMES = 12
_MOST_CHARACTERS = 90
_SHOWN_CPU_OPERATORS = 2


def kernel_names(call: Call, device: torch.device) -> str:
    """Names of the kernels that a call runs, in the order of their first run, joined by " + ".

    Args:
        call: run twice, the second time under the profiler.
        device: where it runs.
    """
    call()
    on_gpu = device.type == "cuda"
    if on_gpu:
        torch.cuda.synchronize()
    with (
        _silent(),
        profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as profiled,
    ):
        call()
        if on_gpu:
            torch.cuda.synchronize()
    if on_gpu:
        names = [event.name for event in profiled.events() if event.device_type == DeviceType.CUDA]
    else:
        slowest = sorted(
            profiled.key_averages(), key=lambda operator: -operator.self_cpu_time_total
        )
        names = [operator.key for operator in slowest[:_SHOWN_CPU_OPERATORS]]
    return " + ".join(list(dict.fromkeys(short_name(name) for name in names))[:_MOST_NAMES])


def short_name(name: str) -> str:
    """A kernel's name without its return type, arguments and deepest template arguments.

    Example:
        >>> short_name("void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64>, true>(Params)")
        'flash::flash_fwd_splitkv_kernel'
    """
    bare = re.sub(r"^void ", "", name).replace("(anonymous namespace)::", "")
    kept = re.split(r"[<(]", bare, maxsplit=1)[0].strip() or bare
    return kept[:_MOST_CHARACTERS]


@contextmanager
def _silent() -> Iterator[None]:
    """Keep what the profiler's own library prints out of the error stream."""
    sys.stderr.flush()
    saved = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
