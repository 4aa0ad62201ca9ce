"""How is one kernel job run, from its parameters to a kernel trace?

Turns a timed job of a campaign file into cases, times them until its deadline and writes what is
there every few seconds. Leaves out the process around it (`job_process`) and the order of jobs
(`campaign`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from hardware_profiles.errors import InputError
from real_runs.campaigns.file import Campaign
from real_runs.campaigns.jobs import (
    AttentionJob,
    CopyJob,
    GemmJob,
    Job,
    LaunchJob,
    MoeJob,
    PrefillJob,
    StepsJob,
    TimedJob,
)
from real_runs.kernels.attention import attention_cases, checked_forms, layer_shape
from real_runs.kernels.attention_forms import FORMS
from real_runs.kernels.copy import copy_cases
from real_runs.kernels.gemm import gemm_cases, weight_shapes
from real_runs.kernels.launch import launch_cases
from real_runs.kernels.machine import Machine, driver_and_clocks, machine
from real_runs.kernels.moe import expert_layer, moe_cases
from real_runs.kernels.prefill import FORMS_BY_DEVICE, prefill_cases
from real_runs.kernels.step import step_cases
from real_runs.kernels.sweep import Case, Swept, sweep
from real_runs.kernels.timing import Effort
from traces.storage.kernels import KernelProvenance, KernelRow, KernelTrace, write_kernels

CHECKPOINT_S = 5.0
RECORDER = "rooftree 0.1.0 real_runs.kernels"
NOTES = (
    "Medians of one call; operand sets rotate so that memory is cold unless a row says otherwise."
    " Attention layouts are changed, and FlashInfer is planned, before the clock runs. Bytes count"
    " every operand once; masks and scores that a form keeps in memory are not counted."
)


def run_job(
    job: Job,
    campaign: Campaign,
    *,
    deadline: float,
    should_stop: Callable[[], bool] = lambda: False,
    part: Path | None = None,
    command: str = "",
    measured: Sequence[KernelRow] = (),
) -> KernelTrace:
    """Run a job.

    Args:
        job: what to time.
        campaign: device, threads and memory limit.
        deadline: `time.monotonic()` at which to end.
        should_stop: asked between shapes.
        part: file that holds what is there so far, rewritten every few seconds; None: no file.
        command: for the provenance.
        measured: rows of this job that an earlier call left; with several rounds they are measured
            anew.

    Raises:
        UnknownNameError: a model or implementation that does not exist.
        InputError: a parameter that does not fit the model, or no such device.
    """
    if not isinstance(job, TimedJob):
        raise InputError("is no job of timed shapes", key="job", value=job.name)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    torch.manual_seed(0)
    dtype = "bf16" if job.dtype == "fp8" else job.dtype
    place = machine(
        campaign.device,
        dtype,
        threads=campaign.threads,
        memory_limit_bytes=campaign.memory_limit_bytes,
    )
    driver, before = driver_and_clocks(place.device)
    about = KernelProvenance(
        device=place.title,
        profile=place.profile,
        torch=torch.__version__,
        driver=driver,
        threads=place.threads,
        cache_bytes=place.cache_bytes,
        command=command,
        started=started,
        recorder_version=RECORDER,
        notes=NOTES,
        extra={
            "cuda": torch.version.cuda or "",
            "load_average": os.getloadavg()[0],
            "probe_copy_bytes_per_s": place.copy_bytes_per_s,
            "probe_gemm_flops_per_s": place.gemm_flops_per_s,
        },
    )
    cases, wrong = _cases(job, place)
    refused = [{"implementation": name, "reason": reason} for name, reason in wrong.items()]
    last = time.monotonic()

    def trace(swept: Swept) -> KernelTrace:
        clocks = f"before: {before}; after: {driver_and_clocks(place.device)[1]}"
        skipped = (*refused, *swept.skipped)
        return KernelTrace(
            rows=tuple(swept.rows), provenance=replace(about, clocks=clocks), skipped=skipped
        )

    def checkpoint(swept: Swept) -> None:
        nonlocal last
        if part is not None and time.monotonic() - last > CHECKPOINT_S:
            write_kernels(trace(swept), part)
            last = time.monotonic()

    capture = job.graph and not isinstance(job, StepsJob)  # a step brings its own graph along
    effort = Effort(
        repeats=job.repeats, budget_s=job.budget_s, graph=capture, longest_call_s=job.longest_call_s
    )
    outcome = sweep(
        cases,
        place,
        effort,
        deadline=deadline,
        rounds=job.rounds,
        should_stop=should_stop,
        checkpoint=checkpoint,
        names=job.kernel_names,
        measured=measured if job.rounds == 1 else (),
    )
    return trace(outcome)


def _cases(job: TimedJob, place: Machine) -> tuple[list[Case], Mapping[str, str]]:
    """Cases of a job, and the implementations that are wrong or absent here with the reason."""
    device, dtype = place.device, job.dtype
    wrong: Mapping[str, str] = {}
    match job:
        case AttentionJob():
            layer = replace(
                layer_shape(job.model, tensor_parallel=job.tensor_parallel), mask=job.mask
            )
            forms, wrong = checked_forms(job.implementations or list(FORMS), layer, device, dtype)
            sizes = {
                "requests": job.requests,
                "query_tokens": job.query_tokens,
                "context": job.context,
            }
            cases = attention_cases(
                layer, device, dtype, operation="attention", forms=forms, **sizes
            )
        case PrefillJob():
            layer = layer_shape(job.model, tensor_parallel=job.tensor_parallel)
            implementations = job.implementations or FORMS_BY_DEVICE[device.type]
            forms, wrong = checked_forms(implementations, layer, device, dtype)
            sizes = {"requests": job.requests, "chunk": job.chunk, "prefix": job.prefix}
            cases = prefill_cases(layer, device, dtype, forms=forms, **sizes)
        case GemmJob():
            shapes = [
                shape
                for model in job.models
                for shape in weight_shapes(
                    model, tensor_parallel=job.tensor_parallel, head=job.head
                )
            ]
            cases = gemm_cases(list(dict.fromkeys(shapes)), device, dtype, rows=job.rows)
        case MoeJob():
            hidden, experts = expert_layer(job.model)
            cases = moe_cases(hidden, experts, device, dtype, rows=job.rows, routings=job.routings)
        case CopyJob():
            cases = copy_cases(device, sizes_bytes=job.sizes_bytes)
        case LaunchJob():
            cases = launch_cases(device, kernels=job.kernels)
        case StepsJob():
            sizes = {
                "requests": job.requests,
                "query_tokens": job.query_tokens,
                "context": job.context,
            }
            cases = step_cases(
                job.model,
                place,
                dtype,
                masks=job.masks,
                layers=job.layers,
                graph=job.graph,
                **sizes,
            )
        case _:
            raise TypeError(f"no timed job: {type(job).__name__}")
    return cases, wrong
