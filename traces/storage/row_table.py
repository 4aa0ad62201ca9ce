"""How do dataclasses of plain values become the rows of a Parquet file, and come back?

A column for every field, by its annotation: text, whole numbers, real numbers, or flags (0 and 1);
a JSON header of one kind in the footer. Leaves out what the values mean, which the dataclass checks
when it is made.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import SCHEMA_VERSION
from traces.kinds.naming import naming
from traces.storage.header import METADATA_KEY, decode_header
from traces.storage.parquet_files import numbers, opened_parquet, texts

MAX_ROWS = 1_000_000
_TYPES = {"str": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.int8()}

Row = TypeVar("Row")


def columns_of(row: type, *kinds: str) -> tuple[str, ...]:
    """Fields of a row whose annotation is one of `kinds`: `str`, `int`, `float` or `bool`.

    Args:
        row: a dataclass whose module has `from __future__ import annotations`, so that annotations
            are text.
        kinds: in which order they come.
    """
    return tuple(item.name for kind in kinds for item in fields(row) if item.type == kind)


def row_table(rows: Sequence[Any], row: type, *, kind: str, **header: Any) -> pa.Table:
    """Rows and header as one table.

    Args:
        rows: instances of `row`.
        row: their dataclass.
        kind: of the file.
        header: what else stands in the header, as JSON values.

    Raises:
        InputError: a header that JSON cannot hold.
    """
    about = {"schema": SCHEMA_VERSION, "kind": kind, "rows": len(rows), **header}
    try:
        encoded = json.dumps(about, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"must hold JSON values only ({error})", key="provenance") from None
    columns = {name: _stored(rows, name, kind) for kind in _TYPES for name in columns_of(row, kind)}
    return pa.table(columns).replace_schema_metadata({METADATA_KEY: encoded})


def read_rows(
    path: str | Path, row: type[Row], *, kind: str, optional: Collection[str] = ()
) -> tuple[tuple[Row, ...], Mapping[str, Any]]:
    """Rows and header of a file, trusting nothing.

    Args:
        path: file as `write_parquet` writes a `row_table`.
        row: the dataclass of its rows.
        kind: that the file must be of.
        optional: columns that older files do not have; the fields keep their defaults.

    Raises:
        InputError: absent, truncated, foreign or damaged, of another kind or schema, or with values
            out of range.
    """
    file = str(path)
    with opened_parquet(path) as parquet:
        header = decode_header(
            (parquet.schema_arrow.metadata or {}).get(METADATA_KEY), file, kinds=(kind,)
        )
        if parquet.metadata.num_rows > MAX_ROWS:
            raise InputError(
                f"must hold at most {MAX_ROWS} rows", file=file, value=parquet.metadata.num_rows
            )
        table = parquet.read()
        table.validate(full=True)
    columns = {
        name: _read(table, name, kind, file)
        for kind in _TYPES
        for name in columns_of(row, kind)
        if name not in optional or name in table.column_names
    }
    with naming(file):
        rows = tuple(
            row(**dict(zip(columns, values, strict=True)))
            for values in zip(*columns.values(), strict=True)
        )
    if header.get("rows") != len(rows):
        rule = f"the header contradicts the {len(rows)} rows"
        raise InputError(rule, file=file, key="rows", value=header.get("rows"))
    return rows, header


def _stored(rows: Sequence[Any], name: str, kind: str) -> pa.Array:
    values = [getattr(entry, name) for entry in rows]
    return pa.array([int(value) for value in values] if kind == "bool" else values, _TYPES[kind])


def _read(table: pa.Table, name: str, kind: str, file: str) -> Sequence[Any]:
    if kind == "str":
        return texts(table, name, file)
    values = numbers(table, name, file)
    if kind == "float":
        return values.astype(np.float64).tolist()  # type: ignore[no-any-return]
    if values.dtype.kind not in "iu" or (kind == "bool" and not np.isin(values, (0, 1)).all()):
        raise InputError("must hold whole numbers, and flags 0 or 1", file=file, key=name)
    return (values.astype(bool) if kind == "bool" else values).tolist()  # type: ignore[no-any-return]
