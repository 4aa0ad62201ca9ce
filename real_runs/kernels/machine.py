"""Which device are kernels timed on?

Names, cache, memory and clocks of a torch device, read and never changed. Leaves out what the
device is supposed to reach (`hardware_profiles`).
"""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from hardware_profiles.units import KIB, MIB
from real_runs.kernels.device_names import profile_here
from real_runs.models.device import checked_device, device_title

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_ASSUMED_CPU_CACHE_BYTES = 32 * MIB
_MEMORY_SHARE = 0.55  # of what is free: room for scratch, graphs and fragmentation
_QUERY = (
    "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,power.draw,power.limit,temperature.gpu"
)
_LIMITS = "clocks_event_reasons.active"  # a driver that does not know it answers nothing at all


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """A device as kernels are timed on it.

    Attributes:
        device: torch device.
        title: the device's own name.
        profile: shipped profile of that device; "" where none is known.
        cache_bytes: last-level cache.
        memory_bytes: what operands of one shape may take.
        threads: CPU threads.
        copy_bytes_per_s: rate of a plain copy, bytes read and written; for time estimates only.
        gemm_flops_per_s: rate of a square matrix product in `dtype`; for time estimates only.
    """

    device: torch.device
    title: str
    profile: str
    cache_bytes: int
    memory_bytes: int
    threads: int
    copy_bytes_per_s: float
    gemm_flops_per_s: float

    def least_seconds(self, flops: float, moved_bytes: float) -> float:
        """The larger of the two roofs as probed, in seconds."""
        return max(flops / self.gemm_flops_per_s, moved_bytes / self.copy_bytes_per_s)


def machine(
    device: str, dtype: str, *, threads: int | None = None, memory_limit_bytes: int | None = None
) -> Machine:
    """Look at a device and warm it up by probing its two roofs.

    Args:
        device: torch device, e.g. "cpu" or "cuda".
        dtype: number format of the probe.
        threads: CPU threads to use; None: one.
        memory_limit_bytes: upper limit of what operands may take; None: a share of what is free.

    Raises:
        InputError: no such device or format.
    """
    if dtype not in DTYPES:
        raise InputError(f"must be one of {', '.join(DTYPES)}", key="dtype", value=dtype)
    torch.set_num_threads(threads or 1)
    place = checked_device(device)
    title = device_title(place)
    free = _free_bytes(place)
    limit = int(free * _MEMORY_SHARE)
    copy_rate, gemm_rate = _probe(place, DTYPES[dtype])
    return Machine(
        device=place,
        title=title,
        profile=profile_here(place),
        cache_bytes=_cache_bytes(place),
        memory_bytes=limit if memory_limit_bytes is None else min(limit, memory_limit_bytes),
        threads=torch.get_num_threads(),
        copy_bytes_per_s=copy_rate,
        gemm_flops_per_s=gemm_rate,
    )


def driver_and_clocks(place: torch.device) -> tuple[str, str]:
    """Version of the driver, and clocks, power and their limits as its own tool reads them; empty
    where it cannot.

    Whether fp32 products may run as TF32 stands beside them, for that changes their rate eightfold.
    """
    if place.type != "cuda":
        return "", _cpu_clock()
    tf32 = f"TF32 {'on' if torch.get_float32_matmul_precision() != 'highest' else 'off'}"
    for query in (f"{_QUERY},{_LIMITS}", _QUERY):
        values = _driver_values(place, query)
        if values:
            named = zip(query.split(","), values, strict=False)
            return values[1], ", ".join([*(f"{name} {value}" for name, value in named), tf32])
    return "", tf32


def _driver_values(place: torch.device, query: str) -> list[str]:
    """What nvidia-smi says of this very card, whatever order it counts cards in."""
    card = getattr(torch.cuda.get_device_properties(place), "uuid", None)
    which = [f"--id=GPU-{card}"] if card else []
    command = ["nvidia-smi", *which, f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    lines = done.stdout.splitlines()
    values = (
        [value.strip() for value in lines[min(place.index or 0, len(lines) - 1)].split(",")]
        if lines
        else []
    )
    return values if len(values) == len(query.split(",")) else []


def synchronize(place: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if place.type == "cuda":
        torch.cuda.synchronize(place)
    elif place.type == "mps":
        torch.mps.synchronize()


def _free_bytes(place: torch.device) -> int:
    if place.type == "cuda":
        return int(torch.cuda.mem_get_info(place)[0])
    if place.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    try:
        text = Path("/proc/meminfo").read_text(encoding="utf-8")
        return int(re.findall(r"MemAvailable:\s+(\d+) kB", text)[0]) * KIB
    except (OSError, IndexError):
        return 2048 * MIB


def _cache_bytes(place: torch.device) -> int:
    if place.type == "cuda":
        second, profile = (
            int(torch.cuda.get_device_properties(place).L2_cache_size),
            profile_here(place),
        )
        # a driver counts the second level, and an MI300X has a third of 256 MB behind its 4
        return max(second, int(load_device(profile).cache_bytes or 0)) if profile else second
    if place.type == "mps" and (profile := profile_here(place)):
        return int(load_device(profile).cache_bytes)
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        size = re.fullmatch(r"(\d+)K", path.read_text(encoding="utf-8").strip())
        sizes.append(int(size[1]) * KIB if size else 0)
    return max(sizes, default=0) or _ASSUMED_CPU_CACHE_BYTES


def _cpu_clock() -> str:
    try:
        clocks = re.findall(
            r"cpu MHz\s*:\s*([\d.]+)", Path("/proc/cpuinfo").read_text(encoding="utf-8")
        )
    except OSError:
        return ""
    return f"cpu MHz {clocks[0]}" if clocks else ""


def _probe(place: torch.device, dtype: torch.dtype) -> tuple[float, float]:
    """Best rates of three copies and three square products, after a first of each."""
    width, size = (384, 32 * MIB) if place.type == "cpu" else (4096, 512 * MIB)
    left = torch.empty(size, dtype=torch.int8, device=place).fill_(1)
    right = torch.empty_like(left)
    a, b = (torch.rand(width, width, device=place).to(dtype) for _ in range(2))
    copy_s = gemm_s = float("inf")
    for _ in range(4):
        copy_s = min(copy_s, _seconds(place, lambda: right.copy_(left)))
        gemm_s = min(gemm_s, _seconds(place, lambda: a @ b))
    return 2 * size / copy_s, 2 * width**3 / gemm_s


def _seconds(place: torch.device, call: Callable[[], object]) -> float:
    synchronize(place)
    start = time.perf_counter()
    call()
    synchronize(place)
    return time.perf_counter() - start
