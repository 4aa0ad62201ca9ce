"""How is a confidence trace stored in a file and read back?

Parquet with one row per run and list columns; model, mask, canvas and policies stand in the
footer's header. A file read back equals the trace written. Leaves out what the values mean
(`traces.kinds.confidence`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import SCHEMA_VERSION
from traces.kinds.confidence import (
    CANDIDATE_FIELDS,
    CELL_FIELDS,
    STEP_FIELDS,
    ConfidenceTrace,
    check_sizes,
)
from traces.kinds.naming import naming
from traces.kinds.refine_policy import MOST_CANVAS_TOKENS, RefinePolicy, policy_of
from traces.storage.header import (
    METADATA_KEY,
    decode_header,
    header_bytes,
    provenance_of,
    whole_number,
)
from traces.storage.parquet_files import (
    decoded_values,
    list_column,
    lists,
    numbers,
    opened_parquet,
    texts,
    write_parquet,
)

KIND = "confidence"
_MAX_RUNS = 100_000
_STEPS = ("forward", *STEP_FIELDS)
_CELLS = ("top_ids", "doubt")


def write_confidence(trace: ConfidenceTrace, path: str | Path) -> None:
    """Write a confidence trace; an existing file is replaced in one move.

    Args:
        trace: to write.
        path: of the file, `.parquet`.

    Raises:
        InputError: the place cannot be written, or provenance holds what JSON cannot.
    """
    write_parquet(confidence_table(trace), path)


def confidence_table(trace: ConfidenceTrace) -> pa.Table:
    """The rows and header of a confidence trace, one row per run.

    Raises:
        InputError: as `write_confidence`.
    """
    steps = trace.steps
    cells = _per_run(trace.cell_counts(), trace.step_offsets)
    canvas = np.full(trace.runs, trace.canvas_tokens, dtype=np.int64)
    columns: dict[str, pa.Array] = {
        "request": pa.array(trace.request_ids, pa.string()),
        "prompt_kind": pa.array(trace.prompt_kinds, pa.string()),
        "policy": pa.array(trace.policy_of_run),
        "prompt_ids": list_column(trace.prompt_ids, np.diff(trace.prompt_offsets)),
        "final_ids": list_column(trace.final_ids.reshape(-1), canvas),
        "committed_at": list_column(trace.committed_at.reshape(-1), canvas),
    }
    for lengths, names in (
        (steps, (*_STEPS, "wall_s")),
        (cells, (*_CELLS, *CELL_FIELDS, *CANDIDATE_FIELDS)),
    ):
        for name in names:
            values: NDArray[Any] | None = getattr(trace, name)
            if values is not None:
                width = values.shape[1] if values.ndim == 2 else 1
                columns[name] = list_column(values.reshape(-1), lengths * width)
    header = {
        "schema": SCHEMA_VERSION,
        "kind": KIND,
        "runs": trace.runs,
        "cells": int(cells.sum()),
        "vocabulary": trace.vocabulary,
        "mask_id": trace.mask_id,
        "end_id": trace.end_id,
        "canvas_tokens": trace.canvas_tokens,
        "candidates": None if trace.candidate_ids is None else trace.candidate_ids.shape[1],
        "policies": [policy.as_json() for policy in trace.policies],
    }
    return pa.table(columns).replace_schema_metadata(
        {METADATA_KEY: header_bytes(header, trace.provenance)}
    )


def holds_confidence(path: str | Path) -> bool:
    """Whether a Parquet file is a confidence trace, by its footer."""
    try:
        with opened_parquet(path) as parquet:
            decode_header(
                (parquet.schema_arrow.metadata or {}).get(METADATA_KEY), str(path), kinds=(KIND,)
            )
    except InputError:
        return False
    return True


def read_confidence(path: str | Path) -> ConfidenceTrace:
    """Read a confidence trace, trusting nothing.

    Args:
        path: file as `write_confidence` writes it.

    Raises:
        InputError: absent, truncated, foreign or damaged, of another kind or schema, or with values
            out of range.
    """
    file = str(path)
    with opened_parquet(path) as parquet:
        header = decode_header(
            (parquet.schema_arrow.metadata or {}).get(METADATA_KEY), file, kinds=(KIND,)
        )
        canvas = _canvas_tokens(header, file)
        if parquet.metadata.num_rows > _MAX_RUNS:
            raise InputError(
                f"must hold at most {_MAX_RUNS} runs",
                file=file,
                key="rows",
                value=parquet.metadata.num_rows,
            )
        # sizes are held against the limits before any value is decoded
        counts = decoded_values(path)
        with naming(file):
            check_sizes(
                runs=parquet.metadata.num_rows,
                passes=counts.get("forward", 0),
                cells=counts.get("top_ids", 0),
                canvas_tokens=canvas,
            )
        table = parquet.read()
        table.validate(full=True)
    prompt_ids, prompt_lengths = lists(table, "prompt_ids", file)
    trace = ConfidenceTrace(
        provenance=provenance_of(header, file),
        vocabulary=_required(header, "vocabulary", file),
        mask_id=_required(header, "mask_id", file),
        end_id=whole_number(header, "end_id", file),
        canvas_tokens=canvas,
        policies=_policies(header, file),
        request_ids=texts(table, "request", file),
        prompt_kinds=texts(table, "prompt_kind", file),
        policy_of_run=numbers(table, "policy", file),
        prompt_offsets=_offsets(prompt_lengths),
        prompt_ids=prompt_ids,
        final_ids=_canvases(table, "final_ids", canvas, file),
        committed_at=_canvases(table, "committed_at", canvas, file),
        file=file,
        **_steps_and_cells(table, header, file),
    )
    # how many cells a run has follows from its passes; the lists must agree with it
    _, lengths = lists(table, "top_ids", file)
    if not np.array_equal(lengths, _per_run(trace.cell_counts(), trace.step_offsets)):
        raise InputError("every list must have a run's masked positions", file=file, key="top_ids")
    stated = (header.get("runs"), header.get("cells"))
    if stated != (trace.runs, trace.top_ids.size):
        rule = (
            f"the header contradicts the rows, which hold {trace.runs} runs and"
            f" {trace.top_ids.size} cells"
        )
        raise InputError(rule, file=file, key="runs", value=stated)
    return trace


def _steps_and_cells(table: pa.Table, header: dict[str, Any], file: str) -> dict[str, Any]:
    """Arrays over passes and over cells, every run's list as long as its others."""
    values: dict[str, Any] = {}
    candidates = whole_number(header, "candidates", file)
    for first, others in (
        ("forward", (*STEP_FIELDS, "wall_s")),
        ("top_ids", ("doubt", *CELL_FIELDS, *CANDIDATE_FIELDS)),
    ):
        values[first], lengths = lists(table, first, file)
        if first == "forward":
            values["step_offsets"] = _offsets(lengths)
        for name in others:
            optional = name in ("wall_s", *CELL_FIELDS, *CANDIDATE_FIELDS)
            if optional and name not in table.column_names:
                continue
            width = max(candidates or 0, 1) if name in CANDIDATE_FIELDS else 1
            column, list_lengths = lists(table, name, file)
            if not np.array_equal(list_lengths, lengths * width):
                per = "" if name not in CANDIDATE_FIELDS else f"{width} times "
                raise InputError(f"every list must be {per}as long as {first}", file=file, key=name)
            values[name] = column.reshape(-1, width) if name in CANDIDATE_FIELDS else column
    return values


def _canvas_tokens(header: dict[str, Any], file: str) -> int:
    canvas = _required(header, "canvas_tokens", file)
    if not 1 <= canvas <= MOST_CANVAS_TOKENS:
        raise InputError(
            f"must lie in 1..{MOST_CANVAS_TOKENS}", file=file, key="canvas_tokens", value=canvas
        )
    return canvas


def _canvases(table: pa.Table, name: str, canvas: int, file: str) -> NDArray[Any]:
    values, lengths = lists(table, name, file)
    if np.any(lengths != canvas):
        raise InputError(f"every list must have the canvas's {canvas} entries", file=file, key=name)
    return values.reshape(-1, canvas)


def _policies(header: dict[str, Any], file: str) -> tuple[RefinePolicy, ...]:
    policies = header.get("policies")
    if not isinstance(policies, list):
        raise InputError("must be a list", file=file, key="policies", value=policies)
    with naming(file):
        return tuple(policy_of(policy) for policy in policies)


def _required(header: dict[str, Any], key: str, file: str) -> int:
    value = whole_number(header, key, file)
    if value is None:
        raise InputError("must be stated", file=file, key=key)
    return value


def _offsets(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.cumsum(np.append(0, lengths), dtype=np.int64)


def _per_run(counts: NDArray[np.int64], step_offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sums over the passes of every run."""
    total = np.append(0, np.cumsum(counts))
    sums: NDArray[np.int64] = np.diff(total[step_offsets])
    return sums
