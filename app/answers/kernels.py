"""`kernels`: time attention, matrix products and other kernels on this machine."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import ValidationError

from app.answers.answer import Answer, Column, Row, Table
from app.questions.field import inputs_of
from app.questions.kernels import KernelsQuestion
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import load_device
from hardware_profiles.profile import Device
from hardware_profiles.units import GIGA, MICRO
from real_runs.campaigns.file import Campaign
from real_runs.campaigns.results import merge_job, read_results
from traces.storage.kernels import KernelProvenance, KernelRow, KernelTrace, read_kernels

_OPERATIONS = ("attention", "prefill", "gemm", "moe", "copy", "launch", "steps")
_LONGEST_CALL_S = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedKernel(Row):
    """A kernel at a shape, as its table shows it."""

    kernel: Annotated[str, Column("Implementation.")]
    shape: Annotated[str, Column("Sizes that are not zero.")]
    median_us: Annotated[float, Column("Median time, µs.", "median µs", decimals=1)]
    quartiles: Annotated[str, Column("First and third quartile, µs.", "quartiles µs")]
    gigabytes_per_s: Annotated[float, Column("Bytes moved, GB/s.", "GB/s", decimals=1)]
    gigaflops_per_s: Annotated[float, Column("Operations, GFLOP/s.", "GFLOP/s", decimals=1)]
    cold: Annotated[bool, Column("Whether its inputs lay outside the caches.")]
    repeats: Annotated[str, Column("Times that count, and how many were discarded.")]


@dataclass(frozen=True, kw_only=True)
class KernelTimes(Answer):
    """The answer of `kernels`.

    Attributes:
        provenance: of the rows.
        rows: a kernel at a shape each.
        skipped: what was left out, with the reason.
        title: of the table.
        trace: of which the rows are, for the page.
        profile: whose cost model is drawn beside; None: that of the rows, where they name one.
        plot: the page; None: there is none.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    unwritten: ClassVar[tuple[str, ...]] = ("title", "trace", "profile", "plot")
    provenance: KernelProvenance
    rows: Sequence[KernelRow]
    skipped: Sequence[Mapping[str, Any]]
    title: str
    trace: KernelTrace
    profile: Device | None
    plot: Path | None

    @property
    def own_rows(self) -> Sequence[KernelRow]:
        """The rows."""
        return self.rows

    def shown(self) -> Iterator[Table | str]:
        """The rows, and where they are drawn."""
        yield Table(
            title=self.title,
            rows=[_timed(row) for row in self.rows],
            columns=[
                "kernel",
                "shape",
                "median_us",
                "quartiles",
                "gigabytes_per_s",
                "gigaflops_per_s",
                "cold",
                "repeats",
            ],
            caption=f"{len(self.skipped)} left out; --json says why" if self.skipped else "",
        )
        if self.plot is not None:
            yield f"drawn in {self.plot}"


def answer(question: KernelsQuestion) -> KernelTimes:
    """Time the kernels of an operation, or take the rows of a file.

    Raises:
        InputError: no such operation, device or profile, numbers that make no sense, or a file that
            cannot be read.
    """
    if question.operation not in _OPERATIONS:
        raise UnknownNameError("operation", question.operation, _OPERATIONS)
    profile = None if question.profile is None else load_device(question.profile)
    sizes: dict[str, Any] = {}
    if question.table is not None:
        trace, what = _read(question.table), "kernels"
    else:
        sizes, what = _parameters(question), question.operation
        trace = _measured(question, sizes)
    if profile is None and question.plot is not None and trace.provenance.profile:
        profile = load_device(trace.provenance.profile)
    return KernelTimes(
        inputs=inputs_of(question, **sizes),
        provenance=trace.provenance,
        rows=trace.rows,
        skipped=trace.skipped,
        title=f"{what} on {trace.provenance.device}",
        trace=trace,
        profile=profile,
        plot=question.plot,
    )


def _measured(question: KernelsQuestion, sizes: Mapping[str, Any]) -> KernelTrace:
    """The rows of a job of one operation, which join what `--out` has already."""
    job = {
        **sizes,
        "name": question.operation,
        "kind": question.operation,
        "estimate_s": question.budget_s,
        "dtype": question.dtype,
        "graph": question.graph,
        "repeats": question.repeats,
    }
    # needs torch, which rows of a file do not
    from real_runs.campaigns.kernel_job import run_job

    try:
        campaign = Campaign.model_validate(
            {"schema": 1, "device": question.device, "threads": question.threads, "jobs": [job]}
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = f"--{str(first['loc'][-1]).replace('_', '-')}"
        raise InputError(first["msg"], key=key, value=first.get("input")) from None
    trace = run_job(
        campaign.jobs[0],
        campaign,
        deadline=time.monotonic() + question.budget_s,
        command=f"rooftree kernels {question.operation}",
    )
    if question.out is not None:
        question.out.mkdir(parents=True, exist_ok=True)
        merge_job(question.out, question.operation, trace)
    return trace


def _read(table: Path) -> KernelTrace:
    """The rows of a file or of a results folder."""
    if not table.is_dir():
        return read_kernels(table)
    trace = read_results(table)
    if trace is None:
        raise InputError("holds no kernels.parquet", file=table, key="--table")
    return trace


def _parameters(question: KernelsQuestion) -> dict[str, Any]:
    """The parameters that a kind of job takes."""
    operation, model = question.operation, question.model
    if operation in ("attention", "prefill", "steps"):
        requests, tokens = list(question.batch), list(question.query_tokens)
        cached = list(question.context)
        if 0 in cached and operation != "prefill":
            raise InputError(
                f"{operation} reads cached tokens: at least 1", key="--context", value=0
            )
        if operation == "steps":
            sizes = {"requests": requests, "query_tokens": tokens, "context": cached}
            longest = {"longest_call_s": _LONGEST_CALL_S}
            return {"model": model, "masks": [question.mask], **longest, **sizes}
        shared = {
            "model": model,
            "requests": requests,
            "implementations": question.implementation,
        }
        if operation == "prefill":
            return shared | {"chunk": tokens, "prefix": cached}
        return shared | {"mask": question.mask, "query_tokens": tokens, "context": cached}
    counts = list(question.rows)
    by_kind: dict[str, dict[str, Any]] = {
        "gemm": {"models": [model], "rows": counts},
        "moe": {"model": model, "rows": counts},
        "copy": {"sizes_bytes": counts},
        "launch": {"kernels": counts},
    }
    return by_kind[operation]


def _timed(row: KernelRow) -> TimedKernel:
    sizes = {
        "b": row.requests,
        "n": row.query_tokens,
        "ctx": row.context,
        "M": row.rows,
        "N": row.outputs,
        "K": row.inputs,
    }
    return TimedKernel(
        kernel=row.implementation,
        shape=" ".join(f"{name}={value}" for name, value in sizes.items() if value),
        median_us=row.median_s / MICRO,
        quartiles=f"{row.low_s / MICRO:.1f}–{row.high_s / MICRO:.1f}",
        gigabytes_per_s=row.bytes / row.median_s / GIGA,
        gigaflops_per_s=row.flops / row.median_s / GIGA,
        cold=row.cold,
        repeats=f"{row.repeats}" + (f" (-{row.discarded})" if row.discarded else ""),
    )
