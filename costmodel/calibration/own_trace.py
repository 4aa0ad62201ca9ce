"""Which rows of a kernel trace of ours does a profile time?

Attention, matrix products and expert layers; of several implementations of one shape the fastest,
which is what an engine would choose, and of an operation that was captured the captured rows alone:
launches one by one are the host's time. Copies and launches are left out: they measure roofs, not
operations.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from costmodel.calibration.measurements import Measurements, measurements
from costmodel.calibration.routing import MOST_SLOTS
from costmodel.passes.ops import FEW_ROWS, LEAST_ROWS, MANY_ROWS, distinct_experts
from traces.storage.kernels import KernelRow, read_kernels


def trace_measurements(path: str | Path) -> list[Measurements]:
    """The measured operations of a kernel trace.

    Raises:
        InputError: as `traces.storage.kernels.read_kernels`.
    """
    return row_measurements(read_kernels(path).rows, str(path))


def row_measurements(recorded: Sequence[KernelRow], file: str) -> list[Measurements]:
    """The same of rows at hand, which messages call `file`."""
    captured = {row.operation for row in recorded if row.graph}
    rows = _fastest(row for row in recorded if row.graph or row.operation not in captured)
    by_operation = {
        "attention_generation": [
            r for r in rows if r.operation == "attention" and r.query_tokens == 1
        ],
        "attention_verify": [r for r in rows if r.operation == "attention" and r.query_tokens > 1],
        "attention_context": [r for r in rows if r.operation == "prefill_attention"],
    }
    tables = [_attention(name, mine, file) for name, mine in by_operation.items()]
    tables.append(_products([r for r in rows if r.operation == "gemm"], file))
    tables.append(_experts([r for r in rows if r.operation == "moe"], file))
    return [table for table in tables if len(table)]


def _fastest(rows: Iterable[KernelRow]) -> list[KernelRow]:
    best: dict[tuple[object, ...], KernelRow] = {}
    for r in rows:
        shape = (
            r.operation,
            r.dtype,
            r.mask,
            r.requests,
            r.query_tokens,
            r.context,
            r.heads,
            r.kv_heads,
            r.head_dim,
            r.rows,
            r.outputs,
            r.inputs,
            r.experts,
            r.experts_per_token,
            r.cold,
            r.graph,
        )
        if shape not in best or r.median_s < best[shape].median_s:
            best[shape] = r
    return list(best.values())


def _rest(rows: list[KernelRow], file: str) -> dict[str, object]:
    return {"file": file, "dtype": [r.dtype for r in rows], "cold": [r.cold for r in rows]}


def _attention(operation: str, rows: list[KernelRow], file: str) -> Measurements:
    names = ("requests", "query_tokens", "context", "heads", "kv_heads", "head_dim")
    columns = {name: [float(getattr(r, name)) for r in rows] for name in names}
    columns |= {"beside_requests": [0.0] * len(rows), "beside_context": [0.0] * len(rows)}
    return measurements(operation, columns, [r.median_s for r in rows], **_rest(rows, file))  # type: ignore[arg-type]


def _products(rows: list[KernelRow], file: str) -> Measurements:
    columns = {
        name: [float(getattr(r, name)) for r in rows] for name in ("rows", "outputs", "inputs")
    }
    return measurements("gemm", columns, [r.median_s for r in rows], **_rest(rows, file))  # type: ignore[arg-type]


def _experts(rows: list[KernelRow], file: str) -> Measurements:
    tokens = np.array([float(r.rows) for r in rows])
    slots = np.minimum(tokens * np.array([float(r.experts_per_token) for r in rows]), MOST_SLOTS)
    visited = np.array(
        [
            float(min(r.experts, r.rows * r.experts_per_token))
            if r.mask == "balanced"
            else float(distinct_experts(float(r.rows), r.experts, r.experts_per_token, skew=0.0))
            for r in rows
        ]
    )
    tile = np.where(tokens > np.array([float(r.experts) for r in rows]), MANY_ROWS, FEW_ROWS)
    load = slots / np.maximum(visited, 1.0)
    padded, least = (
        np.ceil(load / rows_of - 1e-9) * rows_of * visited for rows_of in (tile, LEAST_ROWS)
    )
    columns = {
        "tokens": tokens,
        "hidden": [float(r.inputs) for r in rows],
        "width": [float(r.outputs) for r in rows],
        "experts": [float(r.experts) for r in rows],
        "experts_per_token": [float(r.experts_per_token) for r in rows],
        "visited": visited,
        "padded_rows": padded,
        "least_padded_rows": least,
    }
    seconds, part = [r.median_s for r in rows], [r.mask for r in rows]
    return measurements("moe", columns, seconds, part=part, **_rest(rows, file))  # type: ignore[arg-type]
