"""How is a trace stored in a file and read back?

Parquet with one row per request and list columns; what is not per request stands in the footer's
header. A file read back equals the trace written. Leaves out other programs' files
(`traces.importers`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace, RequestTrace
from traces.storage.expansion_columns import EXPANSION_COLUMNS, expansion_columns, read_expansions
from traces.storage.header import (
    METADATA_KEY,
    decode_header,
    encode_header,
    provenance_of,
    summary_of,
    whole_number,
)
from traces.storage.parquet_files import (
    list_column,
    lists,
    numbers,
    opened_parquet,
    texts,
    write_parquet,
)
from traces.storage.step_columns import STEP_COLUMNS, read_steps, step_columns

_FLAT = ("emitted", "drafted", "emitted_target_prob", "residual_mass")
_WIDE = ("draft_ids", "draft_probs", "target_probs")
_ACCEPTANCE_COLUMNS = (
    "request",
    "prompt_kind",
    "prompt_tokens",
    "rank",
    *_FLAT,
    *_WIDE,
    *EXPANSION_COLUMNS,
    *STEP_COLUMNS,
)
_EXTRA_KINDS = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_boolean,
    pa.types.is_null,
)


def write_acceptance(trace: AcceptanceTrace, path: str | Path) -> None:
    """Write an acceptance trace; an existing file is replaced in one move.

    Args:
        trace: any level.
        path: Parquet file to write.

    Raises:
        InputError: the place cannot be written, or provenance or extra columns hold what cannot be
            stored.
    """
    write_parquet(acceptance_table(trace), path)


def acceptance_table(trace: AcceptanceTrace) -> pa.Table:
    """The rows and header of an acceptance trace, one row per request.

    Raises:
        InputError: as `write_acceptance`.
    """
    columns: dict[str, pa.Array] = {
        "request": pa.array(trace.request_ids, pa.string()),
        "prompt_kind": pa.array(trace.prompt_kinds, pa.string()),
        "prompt_tokens": pa.array(trace.prompt_tokens),
    }
    lengths = trace.output_tokens
    for name in ("rank", *_FLAT, *_WIDE):
        values: NDArray[Any] | None = getattr(trace, name)
        if values is not None:
            width = values.shape[1] if values.ndim == 2 else 1
            columns[name] = list_column(values.reshape(-1), lengths * width)
    if trace.expansions is not None:
        columns |= expansion_columns(trace.expansions, trace.offsets)
    if trace.steps is not None:
        columns |= step_columns(trace.steps)
    for name, column in trace.extra_columns.items():
        if name in _ACCEPTANCE_COLUMNS:
            raise InputError("an extra column must not bear a column's own name", key=name)
        try:
            columns[name] = pa.array(list(column))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"an extra column must hold values of one kind ({error})", key=name
            ) from None
    table = pa.table(columns)
    return table.replace_schema_metadata({METADATA_KEY: encode_header(trace)})


def read_acceptance(path: str | Path) -> AcceptanceTrace:
    """Read an acceptance trace, trusting nothing.

    Args:
        path: file as `write_acceptance` writes it.

    Raises:
        InputError: absent, truncated, foreign or damaged, of another schema, or with values out of
            range.
    """
    header, table, file = _read(path, "acceptance")
    request_lengths, per_position = _positions(table, header, file)
    invariant = header.get("depth_invariant")
    match_rate = header.get("match_rate")
    if not isinstance(invariant, bool):
        raise InputError("must be true or false", file=file, key="depth_invariant", value=invariant)
    if match_rate is not None and type(match_rate) not in (int, float):
        raise InputError("must be a number or null", file=file, key="match_rate", value=match_rate)
    trace = AcceptanceTrace(
        provenance=provenance_of(header, file),
        request_ids=texts(table, "request", file),
        prompt_kinds=texts(table, "prompt_kind", file),
        prompt_tokens=numbers(table, "prompt_tokens", file),
        offsets=np.cumsum(np.append(0, request_lengths), dtype=np.int64),
        first_step_position=whole_number(header, "first_step_position", file, 0) or 0,
        match_rate=match_rate,
        rank_width=whole_number(header, "rank_width", file, 0) or 0,
        depth_invariant=invariant,
        summary=summary_of(header, file),
        expansions=read_expansions(table, header, request_lengths, file),
        steps=read_steps(table, header, file),
        extra_columns=_extra_columns(table, file),
        file=file,
        **per_position,
    )
    stated = (header.get("level"), header.get("requests"), header.get("positions"))
    if stated != (trace.level, trace.requests, trace.positions):
        content = f"level {trace.level}, {trace.requests} requests and {trace.positions} positions"
        raise InputError(
            f"the header contradicts the rows, which hold {content}", file=file, value=stated
        )
    return trace


def write_requests(
    trace: RequestTrace, path: str | Path, *, further: Mapping[str, pa.Array] | None = None
) -> None:
    """Write a request trace; an existing file is replaced in one move.

    Args:
        trace: to write.
        path: file; its folder must exist.
        further: columns beside the trace's own, one value per request, which readers of traces pass
            over.

    Raises:
        InputError: the place cannot be written, or provenance holds what JSON cannot.
    """
    columns: dict[str, Any] = {
        "arrival_s": pa.array(trace.arrival_s),
        "prompt_tokens": pa.array(trace.prompt_tokens),
        "output_tokens": pa.array(trace.output_tokens),
    }
    if trace.prefix_blocks is not None:
        columns["prefix_blocks"] = pa.array(
            [list(blocks) for blocks in trace.prefix_blocks], pa.list_(pa.int64())
        )
    if trace.priority is not None:
        columns["priority"] = pa.array(trace.priority)
    table = pa.table({**columns, **(further or {})}).replace_schema_metadata(
        {METADATA_KEY: encode_header(trace)}
    )
    write_parquet(table, path)


def read_requests(path: str | Path) -> RequestTrace:
    """Read a request trace, trusting nothing.

    Raises:
        InputError: absent, truncated, foreign or damaged, of another schema, or with values out of
            range.
    """
    header, table, file = _read(path, "requests")
    blocks = None
    if "prefix_blocks" in table.column_names:
        values, lengths = lists(table, "prefix_blocks", file)
        bounds = np.cumsum(np.append(0, lengths)).tolist()
        flat = values.tolist()
        blocks = tuple(tuple(flat[a:b]) for a, b in itertools.pairwise(bounds))
    return RequestTrace(
        arrival_s=numbers(table, "arrival_s", file),
        prompt_tokens=numbers(table, "prompt_tokens", file),
        output_tokens=numbers(table, "output_tokens", file),
        prefix_blocks=blocks,
        priority=numbers(table, "priority", file) if "priority" in table.column_names else None,
        provenance=provenance_of(header, file),
        file=file,
    )


def describe(path: str | Path) -> dict[str, Any]:
    """What a trace file holds, from its footer alone.

    Returns:
        `file`, `bytes`, `kind`, `level` (None unless of kind acceptance), `requests`, `columns`,
        and `metadata`, the whole header.

    Raises:
        InputError: no readable trace.
    """
    with opened_parquet(path) as parquet:
        header = decode_header((parquet.schema_arrow.metadata or {}).get(METADATA_KEY), str(path))
        columns, rows = parquet.schema_arrow.names, parquet.metadata.num_rows
    return {
        "file": str(path),
        "bytes": Path(path).stat().st_size,
        "kind": header["kind"],
        "level": header.get("level"),
        "requests": rows,
        "columns": columns,
        "metadata": header,
    }


def _read(path: str | Path, kind: str) -> tuple[dict[str, Any], pa.Table, str]:
    file = str(path)
    with opened_parquet(path) as parquet:
        header = decode_header((parquet.schema_arrow.metadata or {}).get(METADATA_KEY), file)
        if header["kind"] != kind:
            raise InputError(
                f"must be a trace of kind {kind}", file=file, key="kind", value=header["kind"]
            )
        table = parquet.read()
        table.validate(full=True)
    return header, table, file


def _positions(
    table: pa.Table, header: dict[str, Any], file: str
) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
    """Output length of every request, and the arrays over positions in their shapes."""
    if "emitted" not in table.column_names:
        return np.zeros(table.num_rows, dtype=np.int64), {}
    emitted, lengths = lists(table, "emitted", file)
    arrays = {"emitted": emitted}
    widths: dict[str, Callable[[], int | None]] = {
        "rank": lambda: whole_number(header, "rank_depth", file),
        **dict.fromkeys(_WIDE, lambda: whole_number(header, "probability_width", file)),
    }
    for name in ("drafted", "rank", "emitted_target_prob", "residual_mass", *_WIDE):
        if name not in table.column_names:
            continue
        width = widths[name]() if name in widths else None
        values, actual = lists(table, name, file)
        if not np.array_equal(actual, lengths * (1 if width is None else width)):
            per = "" if width is None else f"{width} times "
            raise InputError(f"every list must be {per}as long as emitted", file=file, key=name)
        arrays[name] = values if width is None else values.reshape(-1, max(width, 1))
    return lengths, arrays


def _extra_columns(table: pa.Table, file: str) -> dict[str, list[Any]]:
    extra: dict[str, list[Any]] = {}
    for name in table.column_names:
        if name in _ACCEPTANCE_COLUMNS:
            continue
        column = table.column(table.column_names.index(name))
        if not any(is_kind(column.type) for is_kind in _EXTRA_KINDS):
            rule = "an extra column must hold numbers, text or truth values"
            raise InputError(rule, file=file, key=name, value=str(column.type))
        extra[name] = column.to_pylist()
    return extra
