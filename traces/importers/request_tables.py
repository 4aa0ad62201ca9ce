"""Which requests does a table from outside list: when, how long, sharing which prompt blocks?

Reads columns by any of their names out of Parquet, CSV or JSON lines and makes a request trace of
them. Leaves out what each source calls its columns.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.importers.files import json_lines, read_text
from traces.kinds.acceptance import Provenance, RequestTrace
from traces.kinds.provenance import BLOCK_TOKENS_KEY
from traces.storage.parquet_files import MAX_ROWS, lists, numbers, opened_parquet

_MOST_TOKENS = (1 << 31) - 1
_BLOCK_COLUMN = re.compile("prefix_block([0-9]{1,6})_ids")

Columns = Mapping[str, Sequence[str]]


def read_columns(
    path: str | Path, columns: Columns, *, optional: Sequence[str] = ()
) -> dict[str, Any]:
    """Columns of a table.

    Args:
        path: `.parquet`, `.csv`, or JSON lines under any other ending.
        columns: quantities to read, with the column names of each in order of preference.
        optional: which of it may be absent.

    Returns:
        By wanted name: an array of numbers, or a list of texts or of lists; absent ones are left
            out.

    Raises:
        InputError: absent, no such table, empty, or without a column that is not optional.
    """
    file, ending = str(path), Path(path).suffix.casefold()
    if ending == ".parquet":
        return _parquet(path, columns, optional, file)
    rows = (
        _csv_rows(path, file)
        if ending == ".csv"
        else [row for _, row in json_lines(read_text(path), file)]
    )
    if not rows:
        raise InputError("must list at least one request", file=file, key="rows", value=0)
    if len(rows) > MAX_ROWS:
        raise InputError(
            f"must list at most {MAX_ROWS} requests", file=file, key="rows", value=len(rows)
        )
    columns_read: dict[str, Any] = {}
    for column, names in columns.items():
        name = _present(column, names, rows[0], optional, file)
        if name is None:
            continue
        if any(row.get(name) is None for row in rows):
            line = next(i for i, row in enumerate(rows) if row.get(name) is None)
            raise InputError("must stand in every row", file=file, key=f"row {line + 1}, {name}")
        columns_read[column] = [row[name] for row in rows]
    return columns_read


def whole_column(values: Any, file: str, key: str) -> NDArray[np.int64]:
    """Values as token counts.

    Raises:
        InputError: no whole numbers in 0..2^31-1.
    """
    try:
        counts = np.asarray(
            [float(v) for v in values] if isinstance(values, list) else values, dtype=np.float64
        )
    except (TypeError, ValueError):
        raise InputError("must be whole numbers", file=file, key=key) from None
    wrong = ~((counts >= 0) & (counts <= _MOST_TOKENS) & (counts == np.floor(counts)))
    if wrong.any():
        row = int(np.argmax(wrong))
        rule = f"must be whole numbers in 0..{_MOST_TOKENS}"
        raise InputError(rule, file=file, key=f"row {row + 1}, {key}", value=float(counts[row]))
    return counts.astype(np.int64)


def priority_column(values: Any, file: str) -> NDArray[np.int32] | None:
    """Values as priorities, of which lower ones are served first; None where there is no such
    column.

    Raises:
        InputError: something else than whole numbers, or beyond 2^31-1.
    """
    if values is None:
        return None
    try:
        ranks = np.asarray(
            [float(v) for v in values] if isinstance(values, list) else values, dtype=np.float64
        )
    except (TypeError, ValueError):
        raise InputError("must be whole numbers", file=file, key="priority") from None
    wrong = ~((np.abs(ranks) <= _MOST_TOKENS) & (ranks == np.floor(ranks)))
    if wrong.any():
        row = int(np.argmax(wrong))
        rule = f"must be whole numbers in -{_MOST_TOKENS}..{_MOST_TOKENS}"
        raise InputError(rule, file=file, key=f"row {row + 1}, priority", value=float(ranks[row]))
    return ranks.astype(np.int32)


def second_column(values: Any, file: str, key: str) -> NDArray[np.float64]:
    """Values as seconds, as they stand.

    Raises:
        InputError: not finite, negative, or earlier than the one before.
    """
    times = time_column(values, file, key)
    if times[0] < 0.0:
        raise InputError("must be >= 0", file=file, key=f"row 1, {key}", value=float(times[0]))
    return times


def time_column(values: Any, file: str, key: str) -> NDArray[np.float64]:
    """Values as times of any unit and beginning.

    Raises:
        InputError: not finite, or earlier than the one before.
    """
    try:
        times = np.asarray(
            [float(v) for v in values] if isinstance(values, list) else values, dtype=np.float64
        )
    except (TypeError, ValueError):
        raise InputError("must be numbers", file=file, key=key) from None
    if not times.size or not np.all(np.isfinite(times)):
        raise InputError("must be there and finite", file=file, key=key)
    back = np.nonzero(np.diff(times) < 0)[0]
    if back.size:
        raise InputError("arrivals must be sorted", file=file, key=f"row {int(back[0]) + 2}, {key}")
    return times


def request_trace(
    file: str,
    *,
    arrival_s: NDArray[np.float64] | None,
    prompt_tokens: NDArray[np.int64],
    output_tokens: NDArray[np.int64],
    prefix_blocks: Sequence[Sequence[int]] | None = None,
    block_tokens: int = 16,
    priority: NDArray[np.int32] | None = None,
    source: str,
) -> RequestTrace:
    """A request trace; requests without a prompt or an output are left out, and its notes say how
    many.

    Args:
        file: name for messages.
        arrival_s: None: not recorded, all at 0.
        prompt_tokens: of every request.
        output_tokens: of every request, in the same order.
        prefix_blocks: ids of each prompt's blocks.
        block_tokens: tokens of one of them.
        priority: of every request, lower first.
        source: what the file is, for the notes.

    Raises:
        InputError: no request is left.
    """
    usable = (prompt_tokens > 0) & (output_tokens > 0)
    if not usable.any():
        raise InputError("must list a request with a prompt and an output", file=file, key="rows")
    arrival = np.zeros(usable.size) if arrival_s is None else arrival_s
    notes = [f"Requests from {source}."]
    if arrival_s is None:
        notes.append("No arrivals were recorded: all stand at 0, to be drawn anew.")
    if not usable.all():
        notes.append(
            f"{int((~usable).sum())} requests without a prompt or an output were left out."
        )
    blocks = None
    if prefix_blocks is not None:
        blocks = tuple(tuple(ids) for ids in itertools.compress(prefix_blocks, usable.tolist()))
        notes.append(f"Prompts share blocks of {block_tokens} tokens.")
    return RequestTrace(
        arrival_s=arrival[usable],
        prompt_tokens=prompt_tokens[usable].astype(np.int32),
        output_tokens=output_tokens[usable].astype(np.int32),
        prefix_blocks=blocks,
        priority=None if priority is None else priority[usable],
        provenance=Provenance(
            notes=" ".join(notes),
            extra={BLOCK_TOKENS_KEY: block_tokens} if blocks is not None else {},
        ),
        file=file,
    )


def block_column(path: str | Path) -> tuple[str, int] | None:
    """The column `prefix_blockN_ids` of a Parquet file and its N, where there is one."""
    with opened_parquet(path) as parquet:
        names = parquet.schema_arrow.names
    block_columns = [
        (name, int(match[1]))
        for name in names
        if (match := _BLOCK_COLUMN.fullmatch(name)) and int(match[1])
    ]
    return block_columns[0] if block_columns else None


def block_ids(values: Any, file: str, key: str) -> list[list[int]]:
    """Lists of block ids.

    Raises:
        InputError: something else.
    """
    for row, ids in enumerate(values):
        if not isinstance(ids, list) or not all(type(i) is int and abs(i) < 1 << 63 for i in ids):
            raise InputError(
                "must be a list of whole numbers", file=file, key=f"row {row + 1}, {key}"
            )
    return list(values)


def _present(
    column: str, names: Sequence[str], row: Mapping[str, Any], optional: Sequence[str], file: str
) -> str | None:
    name = next((name for name in names if name in row), None)
    if name is None and column not in optional:
        raise InputError(f"must have a column {' or '.join(names)}", file=file, key=column)
    return name


def _csv_rows(path: str | Path, file: str) -> list[dict[str, str]]:
    try:
        return list(csv.DictReader(read_text(path).splitlines()))
    except csv.Error as error:
        raise InputError(f"must be CSV ({error})", file=file) from None


def _parquet(
    path: str | Path, columns: Columns, optional: Sequence[str], file: str
) -> dict[str, Any]:
    with opened_parquet(path) as parquet:
        present = dict.fromkeys(parquet.schema_arrow.names)
        names = {
            column: _present(column, spellings, present, optional, file)
            for column, spellings in columns.items()
        }
        table = parquet.read(columns=[name for name in names.values() if name is not None])
        table.validate(full=True)
    if not table.num_rows:
        raise InputError("must list at least one request", file=file, key="rows", value=0)
    columns_read: dict[str, Any] = {}
    for column, name in names.items():
        if name is None:
            continue
        if hasattr(table.schema.field(name).type, "value_type"):
            values, lengths = lists(table, name, file)
            bounds = np.cumsum(np.append(0, lengths)).tolist()
            flat = values.tolist()
            columns_read[column] = [flat[a:b] for a, b in itertools.pairwise(bounds)]
        else:
            columns_read[column] = numbers(table, name, file)
    return columns_read
