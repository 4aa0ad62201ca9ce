"""What stands in a table of serving runs that a user hands over? Parquet, CSV or JSON Lines, read
as untrusted.

Leaves out what the values mean (`simulator.closed_loop.columns`).
"""

import csv
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError
from hardware_profiles.outside_file import open_regular
from simulator.closed_loop.columns import COUNTS, RAW, REQUIRED, TEXTS, usual_columns
from traces.importers.files import json_lines, read_text
from traces.storage.parquet_files import opened_parquet

_MOST_BYTES = 64 << 20
_MOST_ROWS = 100_000
Records = list[dict[str, Any]]


def read_records(table: Path, *, more: Sequence[str] = ()) -> Records:
    """Rows of a file by column; columns that nothing asks for are left out.

    Args:
        table: Parquet file, CSV file, or a file of one JSON object a line.
        more: columns beside those of `simulator.closed_loop.columns`, taken where the file has
            them.

    Raises:
        InputError: not such a file, too large, or without a needed column.
    """
    columns, rows = read_table(table, (*COUNTS, *TEXTS, *RAW, *more))
    rows = [usual_columns(row) for row in rows]
    for name in REQUIRED:
        if name not in columns and not any(name in row for row in rows):
            raise InputError(
                f"lacks the column; needed are {', '.join(REQUIRED)} (or engine, model, device,"
                " prompt_tokens, output_tokens)",
                file=table,
                key=name,
            )
    return rows


def read_table(table: Path, wanted: Sequence[str]) -> tuple[list[str], Records]:
    """All columns that a file has, and its rows by the wanted ones among them.

    Raises:
        InputError: not a file of rows, or too large.
    """
    with open_regular(table) as file:
        size, start = os.fstat(file.fileno()).st_size, file.read(4)
    if size > _MOST_BYTES:
        raise InputError(f"must be at most {_MOST_BYTES} bytes", file=table, value=size)
    if start == b"PAR1":
        return _parquet(table, wanted)
    return _lines(table, wanted) if start.lstrip()[:1] == b"{" else _csv(table, wanted)


def _parquet(table: Path, wanted: Sequence[str]) -> tuple[list[str], Records]:

    with opened_parquet(table) as file:
        columns = list(file.schema_arrow.names)
        if file.metadata.num_rows > _MOST_ROWS:
            raise InputError(
                f"must have at most {_MOST_ROWS} rows", file=table, value=file.metadata.num_rows
            )
        return columns, file.read([name for name in wanted if name in columns]).to_pylist()


def _csv(table: Path, wanted: Sequence[str]) -> tuple[list[str], Records]:

    rows: Records = []
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file, strict=True)
            columns = list(reader.fieldnames or [])
            for record in _counted(reader, table):
                if None in record:
                    raise InputError(
                        "has more values than columns", file=table, key=f"row {len(rows)}"
                    )
                rows.append({name: record[name] for name in wanted if name in record})
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"is neither Parquet nor CSV ({error})", file=table) from None
    return columns, rows


def _lines(table: Path, wanted: Sequence[str]) -> tuple[list[str], Records]:

    rows: Records = []
    columns: dict[str, None] = {}
    for _, record in _counted(json_lines(read_text(table), str(table)), table):
        columns |= dict.fromkeys(record)
        rows.append({name: record[name] for name in wanted if name in record})
    return list(columns), rows


def _counted(records: Iterable[Any], table: Path) -> Iterator[Any]:
    for index, record in enumerate(records):
        if index >= _MOST_ROWS:
            raise InputError(f"must have at most {_MOST_ROWS} rows", file=table)
        yield record
