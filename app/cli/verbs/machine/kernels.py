"""`kernels`: time attention, matrix products and other kernels on this machine."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from app.questions.field import Field, Group
from app.questions.fields import Json, Out, Quiet
from app.questions.values import whole_numbers

if TYPE_CHECKING:
    from hardware_profiles.profile import Device
    from traces.storage.kernels import KernelRow, KernelTrace

_OPERATIONS = ("attention", "prefill", "gemm", "moe", "copy", "launch", "steps")


def kernels(
    operation: Annotated[
        str,
        Field(
            "attention, prefill, gemm, moe, copy, launch or steps.", Group.WORKLOAD, argument=True
        ),
    ] = "attention",
    model: Annotated[
        str, Field("Shipped model whose shapes to take.", Group.WORKLOAD)
    ] = "smollm2-135m",
    device: Annotated[str, Field("Torch device.", Group.HARDWARE)] = "cpu",
    dtype: Annotated[str, Field("fp32, bf16 or fp16.", Group.FORMATS)] = "fp32",
    threads: Annotated[int, Field("CPU threads.", Group.HARDWARE, least=1)] = 1,
    batch: Annotated[str, Field("Requests, comma-separated.", Group.WORKLOAD)] = "1",
    query_tokens: Annotated[
        str,
        Field("New tokens per request, or chunk lengths, comma-separated.", Group.RUN),
    ] = "1,8,64",
    context: Annotated[
        str, Field("Cached tokens per request, comma-separated.", Group.WORKLOAD)
    ] = "512,2048",
    rows: Annotated[
        str,
        Field("Tokens of a product, kernels of a chain, or bytes of a copy.", Group.SEARCH),
    ] = "1,8,64",
    mask: Annotated[str, Field("causal or tree.", Group.RUN)] = "causal",
    implementation: Annotated[
        list[str] | None,
        Field("Repeat for several; default: all that run here.", Group.RUN),
    ] = None,
    graph: Annotated[
        bool,
        Field(
            "Replay captured graphs, or launch one by one.", Group.RUN, spelled="--graph/--eager"
        ),
    ] = True,
    repeats: Annotated[int, Field("Most repeats.", Group.RUN, least=3)] = 15,
    budget: Annotated[str, Field("Wall time, e.g. 60s or 5m.", Group.RUN)] = "2m",
    table: Annotated[
        Path | None,
        Field("Measure nothing: take the rows of this file or results folder.", Group.WORKLOAD),
    ] = None,
    plot: Annotated[Path | None, Field("Draw the rows as an HTML page.", Group.OUTPUT)] = None,
    profile: Annotated[
        str | None,
        Field("Device profile whose cost model is drawn beside.", Group.HARDWARE),
    ] = None,
    out: Out = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Time kernels on a torch device, each checked against an exact answer first where it is
    attention.
    """
    from app.questions.places import require_file
    from app.questions.values import seconds
    from hardware_profiles.errors import InputError, UnknownNameError

    if operation not in _OPERATIONS:
        raise UnknownNameError("operation", operation, _OPERATIONS)
    limit_s = seconds(budget, "--budget")
    if plot is not None:
        require_file(plot, "--plot")
    drawn_beside = _profile(profile)
    if table is not None:
        _show(_read(table), operation, plot, drawn_beside, json, quiet, {"table": str(table)})
        return
    job: dict[str, Any] = {
        "name": operation,
        "kind": operation,
        "estimate_s": limit_s,
        "dtype": dtype,
        "graph": graph,
        "repeats": repeats,
    } | _parameters(operation, model, batch, query_tokens, context, rows, mask, implementation)

    from pydantic import ValidationError

    from real_runs.campaigns.file import Campaign
    from real_runs.campaigns.kernel_job import run_job

    try:
        campaign = Campaign.model_validate(
            {"schema": 1, "device": device, "threads": threads, "jobs": [job]}
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = f"--{str(first['loc'][-1]).replace('_', '-')}"
        raise InputError(first["msg"], key=key, value=first.get("input")) from None
    trace = run_job(
        campaign.jobs[0],
        campaign,
        deadline=time.monotonic() + limit_s,
        command=f"rooftree kernels {operation}",
    )
    if out is not None:
        from real_runs.campaigns.results import merge_job

        out.mkdir(parents=True, exist_ok=True)
        merge_job(out, operation, trace)
    inputs = {
        "device": device,
        **{key: value for key, value in job.items() if key not in ("name", "estimate_s")},
    }
    _show(trace, operation, plot, drawn_beside, json, quiet, inputs)


def _show(
    trace: "KernelTrace",
    operation: str,
    plot: Path | None,
    profile: "Device | None",
    json: bool,
    quiet: bool,
    inputs: dict[str, Any],
) -> None:
    """Draw and print rows as asked."""
    from app.render.json import print_json
    from app.render.text import print_table, say

    if plot is not None:
        from app.render.html.kernel_plots import write_kernel_page
        from hardware_profiles.loader import load_device

        known = trace.provenance.profile
        write_kernel_page(trace, plot, device=profile or (load_device(known) if known else None))
    if json:
        skipped = [dict(each) for each in trace.skipped]
        print_json(
            {
                "inputs": inputs,
                "provenance": trace.provenance,
                "rows": list(trace.rows),
                "skipped": skipped,
            }
        )
    elif not quiet:
        lines = [_line(row) for row in trace.rows]
        columns = [
            "kernel",
            "shape",
            "median µs",
            "quartiles µs",
            "GB/s",
            "GFLOP/s",
            "cold",
            "repeats",
        ]
        left_out = f"{len(trace.skipped)} left out; --json says why" if trace.skipped else ""
        what = "kernels" if "table" in inputs else operation
        print_table(f"{what} on {trace.provenance.device}", columns, lines, caption=left_out)
        if plot is not None:
            say(f"drawn in {plot}")


def _read(table: Path) -> "KernelTrace":
    from hardware_profiles.errors import InputError
    from traces.storage.kernels import read_kernels

    if not table.is_dir():
        return read_kernels(table)
    from real_runs.campaigns.results import read_results

    found = read_results(table)
    if found is None:
        raise InputError("holds no kernels.parquet", file=table, key="--table")
    return found


def _profile(name: str | None) -> "Device | None":
    if name is None:
        return None
    from hardware_profiles.loader import load_device

    return load_device(name)


def _parameters(
    operation: str,
    model: str,
    batch: str,
    query_tokens: str,
    context: str,
    rows: str,
    mask: str,
    implementation: list[str] | None,
) -> dict[str, Any]:
    """The parameters that a kind takes."""
    if operation in ("attention", "prefill", "steps"):
        requests = whole_numbers(batch, "--batch", least=1, most=4096)
        tokens = whole_numbers(query_tokens, "--query-tokens", least=1, most=1 << 20)
        cached = whole_numbers(
            context, "--context", least=int(operation != "prefill"), most=1 << 24
        )
        if operation == "steps":
            sizes = {"requests": requests, "query_tokens": tokens, "context": cached}
            return {"model": model, "masks": [mask], "longest_call_s": 5.0, **sizes}
        shared = {"model": model, "requests": requests, "implementations": implementation}
        if operation == "prefill":
            return shared | {"chunk": tokens, "prefix": cached}
        return shared | {"mask": mask, "query_tokens": tokens, "context": cached}
    count = whole_numbers(rows, "--rows", least=1)
    by_kind: dict[str, dict[str, Any]] = {
        "gemm": {"models": [model], "rows": count},
        "moe": {"model": model, "rows": count},
        "copy": {"sizes_bytes": count},
        "launch": {"kernels": count},
    }
    return by_kind[operation]


def _line(row: "KernelRow") -> list[str]:
    from hardware_profiles.units import GIGA, MICRO

    sizes = {
        "b": row.requests,
        "n": row.query_tokens,
        "ctx": row.context,
        "M": row.rows,
        "N": row.outputs,
        "K": row.inputs,
    }
    return [
        row.implementation,
        " ".join(f"{name}={value}" for name, value in sizes.items() if value),
        f"{row.median_s / MICRO:.1f}",
        f"{row.low_s / MICRO:.1f}–{row.high_s / MICRO:.1f}",
        f"{row.bytes / row.median_s / GIGA:.1f}",
        f"{row.flops / row.median_s / GIGA:.1f}",
        "yes" if row.cold else "no",
        f"{row.repeats}" + (f" (-{row.discarded})" if row.discarded else ""),
    ]
