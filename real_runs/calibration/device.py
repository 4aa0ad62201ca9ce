"""What are the constants of the device at hand?

Measures copies, matrix products, attention and whole passes with a campaign of its own, fits the
nearest profile's constants to them, and lays what whole passes take beyond their operations on the
small kernels and the sampler. Leaves out timing (`kernels`), the fit of single operations
(`costmodel.calibration`), and what a decoding loop adds (`validation`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from costmodel.architectures.library import load_model
from costmodel.calibration.own_trace import trace_measurements
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from hardware_profiles.profile import Device, NumberProvenance
from hardware_profiles.whole_file import make_folder, whole_file
from hardware_profiles.writer import write_device
from real_runs.calibration.operations import OperationScore, fit_operations
from real_runs.calibration.passes import PASS_FLOOR_ROWS, PassScore, fit_passes
from real_runs.calibration.profile_names import profile_name
from real_runs.calibration.roofs import (
    conditions,
    shared_memory_links,
    threads_in_words,
    timed_roofs,
    vendor_of,
)
from real_runs.campaigns.campaign import CampaignReport, run_campaign
from real_runs.campaigns.measures import Measures
from real_runs.campaigns.results import kernel_files, read_results
from real_runs.kernels.device_names import profile_here, profile_of
from real_runs.models.device import checked_device, device_title
from traces.storage.kernels import KernelTrace, write_kernels

CONTEXTS = (32, 416, 1472)  # of whole passes; a validation keeps away from them
PLAN = "calibrate.yaml"
LEAST_BUDGET_S = 60.0  # for copies, products, passes and attention
_START_S = 8.0  # of a job's process
_CPU_ROUNDS = 4  # neighbours on a shared machine come and go within seconds
_CPU_BASE = "cpu-generic"
_GPU_FORMS = (
    "flash",
    "flash-varlen",
    "split-flash",
    "vllm-flash-attn-3",
    "flashinfer",
)  # others compile for every shape


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceCalibration:
    """What a calibration found.

    Attributes:
        device: the profile.
        scores: errors by operation on rows that were not fitted.
        passes: the same of whole passes.
        profile: TOML file.
        trace: kernel trace with the rows of all jobs.
        seconds: wall time.
    """

    device: Device
    scores: Mapping[str, OperationScore]
    passes: PassScore
    profile: Path
    trace: Path
    seconds: float


def calibrate_device(
    *,
    out: Path,
    device: str = "cpu",
    model: str | None = None,
    dtype: str | None = None,
    threads: int = 1,
    budget_s: float = 600.0,
    base: str | None = None,
    resume: bool = False,
    isolate: bool | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> DeviceCalibration:
    """Measure this device and fit its profile.

    Args:
        out: folder for the rows, the campaign and the profile.
        device: torch device.
        model: shipped name; the shapes that are measured. None: SmolLM2-135M on a CPU, Llama-3.1-8B
            elsewhere.
        dtype: number format; None: fp32 on a CPU, bf16 elsewhere.
        threads: CPU threads; the profile holds for that many.
        budget_s: wall time, `LEAST_BUDGET_S` or more; what does not fit is left out, what matters
            least first.
        base: profile to start from; None: the device's own where it is shipped, else the nearest.
        resume: go on in a folder that holds rows.
        isolate: run every job in a process of its own; None: on a GPU, which a job may lose. A
            processor that others use too would spend a short budget on starting them.
        progress: called with what is under way.

    Raises:
        InputError: a budget that is too short, no such device or model, a folder that holds
            results, or too little was measured.
    """
    if budget_s < LEAST_BUDGET_S:
        rule = (
            f"must be {LEAST_BUDGET_S:g}s or more; `rooftree devices new NAME --measure` takes less,"
            " without whole passes"
        )
        raise InputError(rule, key="budget", value=f"{budget_s:g}s")
    kind = device.split(":", maxsplit=1)[0]
    isolate = kind != "cpu" if isolate is None else isolate
    form = dtype or ("fp32" if kind == "cpu" else "bf16")
    model = model or ("smollm2-135m" if kind == "cpu" else "llama-3.1-8b")
    load_model(model)
    if kind != "cpu" and base is None:
        place = checked_device(device)
        _base(device_title(place), profile_here(place), cpu=False)
    make_folder(out)
    plan = out / PLAN
    jobs = calibration_jobs(
        model, form, budget_s, cpu=kind == "cpu", start_s=_START_S if isolate else 0.0
    )
    title = f"calibration of {kind} with {model}"
    campaign = {"schema": 1, "title": title, "device": device, "threads": threads, "jobs": jobs}
    with whole_file(plan) as part:
        part.write_text(yaml.safe_dump(campaign, sort_keys=False), encoding="utf-8")
    report = run_campaign(
        plan, budget_s=budget_s, out=out, resume=resume, isolate=isolate, progress=progress
    )
    progress("fitting")
    return _fitted(report, kind=kind, dtype=form, base=base, progress=progress)


def fit_results(folder: Path, *, base: str | None = None, dtype: str = "fp32") -> DeviceCalibration:
    """Fit again what an earlier calibration measured; arguments as in `calibrate_device`.

    Raises:
        InputError: the folder holds no rows.
    """
    results = read_results(folder)
    if results is None:
        raise InputError("holds no measured rows", file=folder)
    kind = "cpu" if results.provenance.device.startswith("CPU") else "cuda"
    report = CampaignReport(out=folder, outcomes=(), seconds=0.0, measures=Measures())
    return _fitted(report, kind=kind, dtype=dtype, base=base, progress=lambda text: None)


def calibration_jobs(
    model: str, dtype: str, budget_s: float, *, cpu: bool, start_s: float = _START_S
) -> list[dict[str, Any]]:
    """Jobs with shares of the budget as estimates, in the order of what matters most; a campaign
    lets each one run half as long again, after the seconds in which it starts.
    """
    layers = load_model(model).layers
    part = max(1, round(layers / 3))
    batches = [1, 2, 4] if cpu else [1, 4, 16, 64]
    tokens = (
        [*range(1, 10), 13, 17, 25, 33] if cpu else [1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256]
    )
    few = [1, 2, 4, 8, 16, 32] if cpu else [1, 2, 4, 8, 16, 32, 64, 128]
    trees = [5, 9, 17] if cpu else [8, 16, 32, 64, 128, 256]
    contexts = list(CONTEXTS) if cpu else [160, 1472, 6144, 24576]
    between = [160, 800, 3008] if cpu else [512, 3072, 98304]
    rows = [1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 512] if cpu else [*few, 256, 512, 1024, 4096]
    megabytes = [4, 16, 64] if cpu else [64, 256, 1024]
    common: dict[str, Any] = {"dtype": dtype, "repeats": 9, "budget_s": 0.06, "kernel_names": False}
    common |= {"rounds": _CPU_ROUNDS} if cpu else {}
    forms = {"implementations": ["sdpa-packed"] if cpu else list(_GPU_FORMS)}
    passes = common | {
        "budget_s": 0.4,
        "repeats": 8,
        "longest_call_s": 3.0,
        "model": model,
        "requests": batches,
    }
    listed: list[tuple[float, dict[str, Any]]] = [
        (0.02, {"name": "copy", "kind": "copy", "sizes_bytes": [m << 20 for m in megabytes]}),
        (0.12, {"name": "gemm", "kind": "gemm", "models": [model], "rows": rows}),
        (
            0.16,
            {
                "name": "passes",
                "kind": "steps",
                "query_tokens": tokens,
                "context": contexts,
                **passes,
                "requests": batches[:1],
            },
        ),
        (
            0.09,
            {
                "name": "attention",
                "kind": "attention",
                "model": model,
                "requests": batches,
                "query_tokens": few,
                "context": sorted([*contexts, *between]),
                **forms,
            },
        ),
        (
            0.40,
            {
                "name": "batch-passes",
                "kind": "steps",
                "query_tokens": tokens[:-2],
                "context": contexts,
                **passes,
                "requests": batches[1:],
            },
        ),
        (
            0.04,
            {
                "name": "part-passes",
                "kind": "steps",
                "query_tokens": few[:4],
                "context": contexts[1:2],
                "layers": part,
                **passes,
            },
        ),
        (
            0.12,
            {
                "name": "tree-passes",
                "kind": "steps",
                "masks": ["tree"],
                "query_tokens": trees,
                "context": contexts,
                **passes,
            },
        ),
        (
            0.05,
            {
                "name": "prefill",
                "kind": "prefill",
                "model": model,
                "requests": [1],
                "chunk": [128, 512] if cpu else [512, 2048, 8192],
                "prefix": [0, 512],
            },
        ),
    ]
    usable = max(budget_s - len(listed) * start_s, 0.3 * budget_s)
    return [
        common
        | {"priority": place + 1, "estimate_s": round(max(1.0, share * usable / 1.5), 1)}
        | job
        for place, (share, job) in enumerate(listed)
    ]


def _fitted(
    report: CampaignReport,
    *,
    kind: str,
    dtype: str,
    base: str | None,
    progress: Callable[[str], None],
) -> DeviceCalibration:
    results = read_results(report.out)
    steps = [row for row in results.rows if row.operation == "step"] if results else []
    if results is None or len(steps) < PASS_FLOOR_ROWS:
        rule = (
            f"too little was measured: {len(steps)} whole passes, at least {PASS_FLOOR_ROWS}; raise"
            " the budget"
        )
        raise InputError(rule, key="budget")
    near = base or _base(
        results.provenance.device, profile_of(results.provenance.device), cpu=kind == "cpu"
    )
    start = _start(results, near, dtype, cpu=kind == "cpu")
    tables = [table for path in kernel_files(report.out) for table in trace_measurements(path)]
    fitted, scores = fit_operations(
        tables, start, dtype=dtype, conditions=conditions(results.provenance)
    )
    progress("fitting whole passes")
    passes = fit_passes(fitted, steps, dtype=dtype)
    kinds = {
        passes.device.provenance[f"constants.{name}.launch_s"].kind
        for name in ("gemm", "attention")
    }
    calibrated = kinds == {"measured"}
    device = replace(passes.device, calibrated=calibrated, constants_from=passes.device.name)
    trace = replace(results, provenance=replace(results.provenance, profile=device.name))
    for path in kernel_files(report.out):
        path.unlink()
    place = report.out / "kernels.parquet"
    write_kernels(trace, place)
    profile = report.out / f"{device.name}.toml"
    write_device(device, profile)
    return DeviceCalibration(
        device=device,
        scores=scores,
        passes=passes.score,
        profile=profile,
        trace=place,
        seconds=report.seconds,
    )


def _base(title: str, own: str, *, cpu: bool) -> str:
    """The profile to start from where none was named: the device's own.

    Raises:
        InputError: a GPU that no shipped profile is of; constants of another one would go
            unnoticed.
    """
    if not own and not cpu:
        raise InputError(
            "must name the nearest shipped profile, for none is that of", key="base", value=title
        )
    return own or _CPU_BASE


def _start(trace: KernelTrace, base: str, dtype: str, *, cpu: bool) -> Device:
    """The profile that a fit starts from; on a CPU with its own roofs, for no datasheet knows the
    threads' share.
    """
    near, about = load_device(base), trace.provenance
    if not cpu:
        near.peak(dtype)
        return replace(near, name=profile_name(about.device, 1), title=about.device)
    own = shared_memory_links(timed_roofs(near, trace.rows, about, dtype=dtype))
    timed = NumberProvenance(kind="measured", source=conditions(about))
    return replace(
        own,
        name=profile_name(about.device, about.threads),
        title=f"{about.device.removeprefix('CPU: ')}, {threads_in_words(about.threads)}",
        vendor=vendor_of(about.device),
        processors=about.threads,
        cache_bytes=about.cache_bytes,
        provenance=dict(own.provenance) | dict.fromkeys(("cache_bytes", "processors"), timed),
    )
