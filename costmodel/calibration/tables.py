"""How does a file of kernel timings become measurements, in any of the known layouts?

Parquet or CSV, recognised by its columns; nothing in a file is trusted. What the columns of each
layout mean is in `layouts`. Leaves out our own kernel traces' schema (`traces.storage.kernels`).
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from costmodel.architectures.library import model_names
from costmodel.calibration.layouts import LAYOUTS, Reader
from costmodel.calibration.measurements import MOST_ROWS, Measurements
from costmodel.calibration.own_trace import trace_measurements
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.outside_file import open_regular
from traces.storage.header import METADATA_KEY
from traces.storage.parquet_files import opened_parquet

MAX_CSV_BYTES = 256 << 20


def read_measurements(path: str | Path, *, model: str | None = None) -> list[Measurements]:
    """The measured operations of one file.

    Args:
        path: a kernel trace of ours, or a table in one of `LAYOUTS`.
        model: shipped model whose shapes a table has that names layers only; None looks for a
            model's name in the file's.

    Raises:
        InputError: absent, truncated, foreign, or with values out of range; the message names file,
            column and row.
    """
    file = str(path)
    table = _parquet(path) if str(path).casefold().endswith(".parquet") else _csv(Path(path))
    if METADATA_KEY in (table.schema.metadata or {}):
        return trace_measurements(path)
    layout = next((layout for layout in LAYOUTS if layout.columns <= set(table.column_names)), None)
    if layout is None:
        layouts = "; ".join(
            f"{layout.name}: {', '.join(sorted(layout.columns))}" for layout in LAYOUTS
        )
        columns = ", ".join(table.column_names[:20])
        raise InputError(
            f"has the columns of no known layout ({layouts})", file=file, value=columns
        )
    tables = layout.measurements(Reader(table=table, file=file, model=model))
    return [rows for rows in tables if len(rows)]


def read_all(paths: Sequence[str | Path], *, model: str | None = None) -> list[Measurements]:
    """The measured operations of several files.

    Args:
        paths: of tables or kernel traces.
        model: whose layers a table without sizes was measured on; None: tables say.

    Raises:
        InputError: as `read_measurements`, or there is none.
    """
    tables = [rows for path in paths for rows in read_measurements(path, model=model)]
    if not tables:
        raise InputError("holds no operation that a profile times", file=", ".join(map(str, paths)))
    return tables


def _parquet(path: str | Path) -> Any:
    with opened_parquet(path) as parquet:
        if parquet.metadata.num_rows > MOST_ROWS:
            raise InputError(
                f"must hold at most {MOST_ROWS} rows", file=path, value=parquet.metadata.num_rows
            )
        return parquet.read()


def _csv(path: Path) -> Any:
    try:
        with open_regular(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size > MAX_CSV_BYTES:
                raise InputError(f"must be at most {MAX_CSV_BYTES} bytes", file=path, value=size)
            table = csv.read_csv(stream, parse_options=csv.ParseOptions(invalid_row_handler=None))
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", file=path) from None
    except (pa.ArrowException, UnicodeDecodeError, KeyError, TypeError) as error:
        raise InputError(
            f"is no CSV table ({str(error).splitlines()[0][:200]})", file=path
        ) from None
    if len(set(table.column_names)) != table.num_columns:
        raise InputError("names a column twice", file=path)
    if table.num_rows > MOST_ROWS or table.num_rows == 0:
        raise InputError(f"must hold 1 to {MOST_ROWS} rows", file=path, value=table.num_rows)
    return table


def shipped_model(name: str) -> None:
    """Refuse a model that is not shipped, before any file is read.

    Raises:
        UnknownNameError: there is no such model.
    """
    if name not in model_names():
        raise UnknownNameError("model", name, model_names(), key="model")
