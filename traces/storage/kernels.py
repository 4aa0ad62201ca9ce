"""How long did which kernel take, at which shape, on which device?

Measured operations as rows with their provenance, checked when made and again when read, in
Parquet. What could not be measured is stored beside the rows with its reason. Leaves out how times
are taken (`real_runs.kernels`) and what they are fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from hardware_profiles.errors import InputError
from traces.storage.parquet_files import write_parquet
from traces.storage.row_table import columns_of, read_rows, row_table

KIND = "kernels"
OPERATIONS = (
    "attention",
    "prefill_attention",
    "gemm",
    "moe",
    "copy",
    "read",
    "write",
    "launch",
    "step",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelRow:
    """One measured operation; a size that an operation does not have is 0.

    Attributes:
        job: campaign job that measured it.
        operation: one of `OPERATIONS`.
        implementation: what was called, e.g. "flash" or "split-flash".
        kernels: kernels that one call ran on the device, joined by " + "; "" where they were not
            looked up.
        dtype: number format of the operands.
        mask: "causal" or "tree" for attention, "balanced" or "random" routing for experts, else "".
        requests: batch b of attention.
        query_tokens: new tokens per request n.
        context: cached tokens per request before them.
        heads: query heads.
        kv_heads: key/value heads.
        head_dim: width of a head.
        rows: tokens M of a matrix product or of an expert layer; kernels of a chain.
        outputs: N of a matrix product; inner width of an expert.
        inputs: K of a matrix product; model width of an expert layer.
        experts: experts of the layer.
        experts_per_token: experts that each token visits.
        model: shipped name of the model whose pass a step is; "" for single kernels.
        layers: layers that a step ran; 0 for single kernels.
        splits: parts that the cache was split into by us; 0 where the kernel decides.
        packed: the query heads of a group share rows against one key/value head.
        median_s: median time of one call.
        low_s: lower quartile.
        high_s: upper quartile.
        repeats: repeats that count.
        discarded: repeats left out because something else held the processor.
        outliers: counted repeats above twice the median.
        sets: operand sets that the calls rotated through.
        cold: operands were out of the last-level cache.
        graph: calls were replayed from a captured graph.
        cpu_ratio: process time over wall time; 0 on other devices than a CPU.
        flops: operations that the call needs.
        bytes: bytes that it must move, each operand once.

    Raises:
        InputError: an unknown operation, or a number out of range.
    """

    job: str = ""
    operation: str
    implementation: str
    kernels: str = ""
    dtype: str
    mask: str = ""
    requests: int = 0
    query_tokens: int = 0
    context: int = 0
    heads: int = 0
    kv_heads: int = 0
    head_dim: int = 0
    rows: int = 0
    outputs: int = 0
    inputs: int = 0
    experts: int = 0
    experts_per_token: int = 0
    model: str = ""
    layers: int = 0
    splits: int = 0
    packed: bool = False
    median_s: float
    low_s: float
    high_s: float
    repeats: int
    discarded: int = 0
    outliers: int = 0
    sets: int = 1
    cold: bool
    graph: bool
    cpu_ratio: float = 0.0
    flops: float
    bytes: float

    def __post_init__(self) -> None:
        if self.operation not in OPERATIONS:
            raise InputError(
                f"must be one of {', '.join(OPERATIONS)}", key="operation", value=self.operation
            )
        for name in _NUMBERS:
            value = getattr(self, name)
            if not (math.isfinite(value) and 0 <= value < 1e24):
                raise InputError("must be finite and not negative", key=name, value=value)
        if not 0 < self.low_s <= self.median_s <= self.high_s:
            times = (self.low_s, self.median_s, self.high_s)
            raise InputError(
                "quartiles and median must be positive and in order", key="median_s", value=times
            )
        if self.repeats < 1 or self.outliers > self.repeats:
            raise InputError(
                "must count at least one repeat, and outliers among them",
                key="repeats",
                value=self.repeats,
            )


_NUMBERS = columns_of(KernelRow, "int", "float")
# files from before whole passes were timed have no such columns
_ADDED_COLUMNS = ("model", "layers")


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelProvenance:
    """What the rows were measured on, and by what. Empty text means unknown.

    Attributes:
        device: the device's own name.
        profile: shipped device profile of that name; "" where there is none.
        torch: version of torch.
        driver: version of the device's driver.
        threads: CPU threads.
        cache_bytes: last-level cache that operands were kept out of.
        clocks: clocks as read before and after, in words.
        command: what was run.
        started: UTC, ISO 8601.
        recorder_version: program and version.
        notes: what a reader must know before trusting a number.
        extra: further JSON values.
    """

    device: str = ""
    profile: str = ""
    torch: str = ""
    driver: str = ""
    threads: int = 1
    cache_bytes: int = 0
    clocks: str = ""
    command: str = ""
    started: str = ""
    recorder_version: str = ""
    notes: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelTrace:
    """Rows of one device, where they come from, and what is missing.

    Attributes:
        rows: the measured operations.
        provenance: device and program.
        skipped: what was not measured: objects with the shape's keys and a `reason`.
    """

    rows: tuple[KernelRow, ...]
    provenance: KernelProvenance = field(default_factory=KernelProvenance)
    skipped: tuple[Mapping[str, Any], ...] = ()


def kernel_table(trace: KernelTrace) -> pa.Table:
    """Rows and header of a kernel trace as one table.

    Raises:
        InputError: provenance that JSON cannot hold.
    """
    about = asdict(replace(trace.provenance, extra=dict(trace.provenance.extra)))
    skipped = [dict(row) for row in trace.skipped]
    return row_table(trace.rows, KernelRow, kind=KIND, provenance=about, skipped=skipped)


def write_kernels(trace: KernelTrace, path: str | Path) -> None:
    """Write a kernel trace; an existing file is replaced in one move.

    Args:
        trace: to write.
        path: of the file, `.parquet`.

    Raises:
        InputError: the place cannot be written, or provenance holds what JSON cannot.
    """
    write_parquet(kernel_table(trace), path)


def read_kernels(path: str | Path) -> KernelTrace:
    """Read a kernel trace, trusting nothing.

    Args:
        path: file as `write_kernels` writes it.

    Raises:
        InputError: absent, truncated, foreign or damaged, of another kind or schema, or with values
            out of range.
    """
    rows, header = read_rows(path, KernelRow, kind=KIND, optional=_ADDED_COLUMNS)
    file = str(path)
    return KernelTrace(
        rows=rows, provenance=_provenance(header, file), skipped=_skipped(header, file)
    )


def _provenance(header: Mapping[str, Any], file: str) -> KernelProvenance:
    recorded = header.get("provenance")
    if not isinstance(recorded, dict):
        raise InputError("must be an object", file=file, key="provenance", value=recorded)
    values: dict[str, Any] = {}
    for item in fields(KernelProvenance):
        kind: type = (
            dict
            if item.name == "extra"
            else int
            if item.name in ("threads", "cache_bytes")
            else str
        )
        value = recorded.get(item.name)
        if value is None:
            continue
        if type(value) is not kind:
            key = f"provenance.{item.name}"
            raise InputError(f"must be of type {kind.__name__}", file=file, key=key, value=value)
        values[item.name] = value
    return KernelProvenance(**values)


def _skipped(header: Mapping[str, Any], file: str) -> tuple[Mapping[str, Any], ...]:
    skipped = header.get("skipped", [])
    if not isinstance(skipped, list) or not all(isinstance(row, dict) for row in skipped):
        raise InputError("must be a list of objects", file=file, key="skipped")
    return tuple(skipped)
