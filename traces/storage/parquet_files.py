"""How does a Parquet file get written whole, and read without trusting it?

One move into place when writing; bounded sizes, checked types and verified page checksums when reading.
Leaves out which columns a trace has (`traces.storage.acceptance_file`).
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import whole_file

MAX_FILE_BYTES = 2 << 30
MAX_ROWS = 10_000_000
MAX_VALUE_BYTES = 8 << 30
ROW_GROUP_ROWS = 8192


def write_parquet(table: pa.Table, path: str | Path) -> None:
    """Write a table so that the file is either the old one or the whole new one.

    Args:
        table: rows and metadata.
        path: file to write; its folder must exist.

    Raises:
        InputError: the place cannot be written, or something that is no plain file stands there.
    """
    with whole_file(Path(path), synced=True) as part, part.open("xb") as stream:
        pq.write_table(table, stream, compression="zstd", row_group_size=ROW_GROUP_ROWS, write_page_checksum=True)


@contextmanager
def opened_parquet(path: str | Path) -> Iterator[pq.ParquetFile]:
    """Open a file and check the sizes that its footer states.

    Args:
        path: file to read.

    Raises:
        InputError: absent, no regular file, truncated, not Parquet, too large, or damaged (also while the block reads
            rows).
    """
    try:
        state = Path(path).stat()
        if not stat.S_ISREG(state.st_mode):  # a pipe may never end
            raise InputError("must be a regular file", file=path)
        if state.st_size > MAX_FILE_BYTES:
            raise InputError(f"must not exceed {MAX_FILE_BYTES} bytes", file=path, value=state.st_size)
        with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
            footer = parquet.metadata
            groups = [footer.row_group(g) for g in range(footer.num_row_groups)]
            # The column chunks' own statistics stay unread: pyarrow aborts the process on damaged ones.
            decoded = sum(group.total_byte_size for group in groups)
            for key, count, limit in (
                ("rows", footer.num_rows, MAX_ROWS),
                ("bytes of values", decoded, MAX_VALUE_BYTES),
            ):
                if not 0 <= count <= limit:
                    raise InputError(f"must hold at most {limit} {key}", file=path, key=key, value=count)
            yield parquet
    except FileNotFoundError:
        raise InputError("there is no such file", file=path) from None
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        reason = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        raise InputError(f"is no whole Parquet file ({reason})", file=path) from None


def numbers(table: pa.Table, name: str, file: str) -> NDArray[Any]:
    """A column of numbers without gaps.

    Raises:
        InputError: absent, of another type, or with nulls.
    """
    column = _column(table, name, file)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InputError("must be a column of numbers", file=file, key=name, value=str(column.type))
    return _values(column)


def texts(table: pa.Table, name: str, file: str) -> tuple[str, ...]:
    """A column of text without gaps.

    Raises:
        InputError: absent, of another type, or with nulls.
    """
    column = _column(table, name, file)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise InputError("must be a column of text", file=file, key=name, value=str(column.type))
    return tuple(column.to_pylist())


def lists(table: pa.Table, name: str, file: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """A column of lists of numbers without gaps.

    Returns:
        All values in a row, and the length of every list, int64[rows].

    Raises:
        InputError: absent, of another type, or with nulls.
    """
    column = _column(table, name, file)
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not is_list or not (pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)):
        raise InputError("must be a column of lists of numbers", file=file, key=name, value=str(kind))
    values = pc.list_flatten(column)
    if values.null_count:
        raise InputError("lists must not hold nulls", file=file, key=name)
    return _values(values), _values(pc.list_value_length(column)).astype(np.int64)


def list_column(values: NDArray[Any], lengths: NDArray[np.int64]) -> pa.Array:
    """Values in a row as one list per row.

    Args:
        values: one-dimensional.
        lengths: int64[rows], adding up to the number of values.
    """
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), pa.array(values))


def _values(column: pa.ChunkedArray | pa.Array) -> NDArray[Any]:
    """Numbers without gaps as an array; `to_numpy` would import pandas wherever it is installed, for half a second."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = [np.from_dlpack(chunk) for chunk in chunks if len(chunk)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=column.type.to_pandas_dtype())


def _column(table: pa.Table, name: str, file: str) -> pa.ChunkedArray:
    if table.column_names.count(name) != 1:
        raise InputError("the file must have this column once", file=file, key=name)
    column = table.column(name)
    if column.null_count:
        raise InputError("must not hold nulls", file=file, key=name)
    return column
