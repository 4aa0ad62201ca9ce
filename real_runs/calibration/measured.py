"""Which profile does a minute of measuring make of the device at hand?

Copies first, then matrix products, attention over a cache, and products in further formats, each
until its share of the time is spent; a relative's constants are fitted to the rows. What a kernel
cannot say (power, rent, links of a GPU) stays assumed. Leaves out whole passes, which
`rooftree calibrate --here` times as well (`real_runs.calibration.device`).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from costmodel.calibration.own_trace import row_measurements
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from hardware_profiles.profile import Device, NumberProvenance
from hardware_profiles.template import device_template
from hardware_profiles.units import MIB
from real_runs.calibration.operations import OperationScore, fit_operations
from real_runs.calibration.roofs import (
    conditions,
    shared_memory_links,
    threads_in_words,
    timed_roofs,
    vendor_of,
)
from real_runs.kernels.attention import attention_cases, checked_forms, layer_shape
from real_runs.kernels.copy import copy_cases
from real_runs.kernels.gemm import gemm_cases, weight_shapes
from real_runs.kernels.machine import Machine, machine
from real_runs.kernels.sweep import Case, Swept, sweep
from real_runs.kernels.timing import Effort
from real_runs.models.processor import memory_bytes
from traces.storage.kernels import KernelProvenance, KernelRow

LEAST_BUDGET_S = 20.0
_WRITING_SHARE = 0.2  # of the budget, for loading before and fitting after
_TELL_EVERY_S = 5.0
_LEAST_COPY_BYTES = 64 * MIB


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """What is timed on a kind of device.

    Attributes:
        relative: profile whose numbers stand in for what cannot be timed.
        model: shipped model whose layers are timed.
        dtype: number format of attention and most products.
        formats: further formats of products.
        rows: tokens of products, those of a decode step and of a prompt.
        forms: kernels of attention, as in `real_runs.kernels.attention_forms.FORMS`.
        graph: capture graphs.
    """

    relative: str
    model: str
    dtype: str
    formats: tuple[str, ...]
    rows: tuple[int, ...]
    forms: tuple[str, ...]
    graph: bool = False


_GPU_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 512, 2048)
PLACES = {
    "cpu": Place(
        relative="cpu-generic",
        model="llama-3.2-1b",
        dtype="fp32",
        formats=("bf16", "fp16"),
        rows=(1, 2, 4, 8, 16, 32, 128, 512),
        forms=("sdpa-packed",),
    ),
    "cuda": Place(
        relative="rtx-4090",
        model="llama-3.1-8b",
        dtype="bf16",
        formats=("fp16", "fp32"),
        rows=_GPU_ROWS,
        forms=("flash", "split-flash"),
        graph=True,
    ),
    "mps": Place(
        relative="apple-m3-max",
        model="llama-3.1-8b",
        dtype="fp16",
        formats=("bf16", "fp32"),
        rows=_GPU_ROWS,
        forms=("math-packed",),
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class MeasuredDevice:
    """A device's own profile.

    Attributes:
        device: the profile.
        scores: errors by operation on rows that were not fitted.
        skipped: why a kind of work has no row, in words.
        seconds: wall time.
    """

    device: Device
    scores: dict[str, OperationScore]
    skipped: tuple[str, ...]
    seconds: float


def measure_device(
    name: str,
    *,
    device: str = "cpu",
    like: str | None = None,
    threads: int | None = None,
    budget_s: float = 60.0,
    progress: Callable[[str], None] = lambda text: None,
) -> MeasuredDevice:
    """Measure this device and make a profile of it.

    Args:
        name: of the profile: lower case, digits and dashes.
        device: torch device: "cpu", "cuda", "cuda:1" or "mps".
        like: shipped relative; None: the card's own profile where it ships, else one by kind.
        threads: CPU threads; None: as many as torch takes by itself.
        budget_s: wall time, `LEAST_BUDGET_S` or more.
        progress: called with what is under way, every few seconds.

    Raises:
        InputError: a budget that is too short, no such device, a name that no profile can have, or
            a device on which neither copies nor products could be timed.
    """
    if budget_s < LEAST_BUDGET_S:
        rule = f"must be {LEAST_BUDGET_S:g}s or more: copies, products and attention take that long"
        raise InputError(rule, key="budget", value=f"{budget_s:g}s")
    begun = time.monotonic()
    plan = PLACES.get(device.split(":", maxsplit=1)[0])
    if plan is None:
        rule = f"must be one of {', '.join(PLACES)}"
        raise InputError(rule, key="on", value=device)
    device_template(name, like or plan.relative)
    progress(f"measuring {device} for at most {budget_s:.0f} s")
    here = machine(device, plan.dtype, threads=threads or torch.get_num_threads())
    about = KernelProvenance(
        device=here.title,
        profile=here.profile,
        torch=torch.__version__,
        threads=here.threads,
        cache_bytes=here.cache_bytes,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    deadline = begun + (1.0 - _WRITING_SHARE) * budget_s
    rows, skipped = _timed(plan, here, deadline, progress)
    progress("fitting")
    start = _relative(name, like or here.profile or plan.relative)
    own = _own_numbers(timed_roofs(start, rows, about, dtype=plan.dtype), here, about)
    fitted, scores = fit_operations(
        row_measurements(rows, name), own, dtype=plan.dtype, conditions=conditions(about)
    )
    kinds = {fitted.provenance[f"constants.{part}.launch_s"].kind for part in ("gemm", "attention")}
    return MeasuredDevice(
        device=replace(fitted, calibrated=kinds == {"measured"}, constants_from=name),
        scores=scores,
        skipped=skipped,
        seconds=time.monotonic() - begun,
    )


def _timed(
    plan: Place, here: Machine, deadline: float, progress: Callable[[str], None]
) -> tuple[list[KernelRow], tuple[str, ...]]:
    """The rows of every kind of work, in the order of what matters, and what has none."""
    rows: list[KernelRow] = []
    missing = []
    works = _works(plan, here)
    shares = sum(share for _, share, _ in works)
    for name, share, make in works:
        begun = time.monotonic()
        end = begun + max(0.0, deadline - begun) * share / shares
        shares -= share
        try:
            cases = make()
            swept = sweep(
                cases,
                here,
                Effort(repeats=9, budget_s=0.06, graph=plan.graph, longest_call_s=0.5),
                deadline=end,
                checkpoint=_teller(name, len(cases), deadline, progress),
                names=False,
            )
        except RuntimeError as error:  # a format that torch cannot compute in here
            missing.append(f"{name}: {str(error).splitlines()[0][:120]}")
            continue
        rows += swept.rows
        if not swept.rows:
            reasons = [str(entry.get("reason", "")) for entry in swept.skipped[:1]]
            missing.append(f"{name}: {reasons[0] if reasons else 'nothing could be timed'}")
        progress(
            f"{name}: {len(swept.rows)} rows in {time.monotonic() - begun:.0f} s, at most"
            f" {max(0.0, deadline - time.monotonic()):.0f} s left"
        )
    return rows, tuple(missing)


def _teller(
    name: str, cases: int, deadline: float, progress: Callable[[str], None]
) -> Callable[[Swept], None]:
    last = time.monotonic()

    def tell(swept: Swept) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _TELL_EVERY_S:
            last = now
            left = max(0.0, deadline - now)
            progress(f"{name}: {len(swept.rows)} of {cases} shapes, at most {left:.0f} s left")

    return tell


def _works(plan: Place, here: Machine) -> list[tuple[str, float, Callable[[], Sequence[Case]]]]:
    """Name, share of the time, and the shapes of every kind of work, what matters most first."""
    device = here.device
    weights = weight_shapes(plan.model, head=False)
    small = min(weights, key=lambda shape: shape[0] * shape[1])
    roomy = here.memory_bytes / 4
    sizes = [max(here.cache_bytes, _LEAST_COPY_BYTES) * factor for factor in (1, 2, 4)]

    def attention() -> Sequence[Case]:
        layer = layer_shape(plan.model)
        forms, wrong = checked_forms(plan.forms, layer, device, plan.dtype)
        if not forms:
            raise RuntimeError("; ".join(wrong.values()))
        sizes: dict[str, Any] = {
            "requests": [1, 2, 4],
            "query_tokens": [1, 4, 16],
            "context": [128, 512, 1024, 2048, 4096],
        }
        return attention_cases(
            layer, device, plan.dtype, operation="attention", forms=forms, **sizes
        )

    def products(dtype: str, shapes: Sequence[tuple[int, int]], rows: Sequence[int]) -> Any:
        return lambda: gemm_cases(shapes, device, dtype, rows=rows)

    return [
        (
            "copies",
            0.1,
            lambda: copy_cases(
                device, sizes_bytes=[size for size in sizes if size <= roomy] or sizes[:1]
            ),
        ),
        (
            f"products in {plan.dtype}",
            0.4,
            products(plan.dtype, weights, plan.rows),
        ),
        ("attention", 0.3, attention),
        # rates alone: none of the few rows of decoding, which memory bounds
        *(
            (f"products in {name}", 0.1, products(name, [small], [64, plan.rows[-1]]))
            for name in plan.formats
        ),
    ]


def _relative(name: str, like: str) -> Device:
    """A relative under a new name, every number of it marked as assumed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.toml"
        file.write_text(device_template(name, like), encoding="utf-8")
        return load_device(file)


def _own_numbers(device: Device, here: Machine, about: KernelProvenance) -> Device:
    """The profile with what the system says of the machine: name, memory, processors, cache."""
    kind = here.device.type
    numbers: dict[str, Any] = {}
    if kind == "cpu":
        device = shared_memory_links(device)
        numbers = {
            "processors": here.threads,
            "cache_bytes": here.cache_bytes,
            "memory_bytes": memory_bytes(),
        }
        title = f"{here.title.removeprefix('CPU: ')}, {threads_in_words(here.threads)}"
    elif kind == "cuda":
        properties = torch.cuda.get_device_properties(here.device)
        title = here.title
        numbers = {
            "processors": properties.multi_processor_count,
            "cache_bytes": here.cache_bytes,
            "memory_bytes": properties.total_memory,
        }
    else:
        title = f"{here.title}, GPU"
        numbers = {
            "processors": _apple_cores(),
            "memory_bytes": torch.mps.recommended_max_memory(),
        }
    read = {key: value for key, value in numbers.items() if value}
    source = NumberProvenance(
        kind="measured", source=f"as the system and torch {about.torch} say, {about.started[:10]}"
    )
    return replace(
        device,
        title=title,
        vendor=vendor_of(here.title),
        kind="cpu" if kind == "cpu" else "gpu",
        provenance=dict(device.provenance) | dict.fromkeys(read, source),
        **read,
    )


def _apple_cores() -> int | None:
    """Cores of Apple's GPU as `system_profiler` counts them; None where it does not."""
    command = ["system_profiler", "-json", "SPDisplaysDataType"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        cards = json.loads(done.stdout)["SPDisplaysDataType"]
        return max(int(card.get("sppci_cores", 0)) for card in cards) or None
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return None
