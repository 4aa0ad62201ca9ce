"""How does a Parquet file get written whole, and read without trusting it?

One move into place when writing; bounded sizes, checked types and verified page checksums when
reading. A few kilobytes may decode to gigabytes: what is bounded is the size of the decoded values,
by the footer, before any is read. Leaves out which columns a trace has
(`traces.storage.acceptance_file`).
"""

from __future__ import annotations

import mmap
import os
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
from hardware_profiles.outside_file import open_regular
from hardware_profiles.whole_file import whole_file
from traces.storage.parquet_footer import column_chunks
from traces.storage.parquet_pages import page_sizes

MAX_FILE_BYTES = 2 << 30
MAX_ROWS = 10_000_000
MAX_VALUE_BYTES = 256 << 20
LIMIT_VARIABLE = "ROOFTREE_MOST_DECODED_MIB"
"""Environment variable that puts another number of MiB in the place of `MAX_VALUE_BYTES`."""
_WIDTH_BYTES = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
ROW_GROUP_ROWS = 8192
_ZSTD_LEVEL = 15


def write_parquet(table: pa.Table, path: str | Path) -> None:
    """Write a table so that the file is either the old one or the whole new one.

    Fractions hardly repeat: their bytes are stored apart, the first of all, then the second, which
    takes a third less room than a dictionary of them.

    Args:
        table: rows and metadata.
        path: file to write; its folder must exist.

    Raises:
        InputError: the place cannot be written, or something that is no plain file stands there.
    """
    with whole_file(Path(path), synced=True) as part, part.open("wb") as stream:
        fractions, others = _leaves(table.schema)
        pq.write_table(
            table,
            stream,
            compression="zstd",
            compression_level=_ZSTD_LEVEL,
            row_group_size=ROW_GROUP_ROWS,
            write_page_checksum=True,
            use_dictionary=others,
            use_byte_stream_split=fractions,
        )


def _leaves(schema: pa.Schema) -> tuple[list[str], list[str]]:
    """Parquet's paths of the columns of fractions, and of all others."""
    paths: tuple[list[str], list[str]] = ([], [])
    for field in schema:
        path, kind = field.name, field.type
        while pa.types.is_list(kind) or pa.types.is_large_list(kind):
            path, kind = f"{path}.list.element", kind.value_type
        paths[not pa.types.is_floating(kind)].append(path)
    return paths


@contextmanager
def opened_parquet(path: str | Path) -> Iterator[pq.ParquetFile]:
    """Open a file and check the sizes that its footer states.

    Args:
        path: file to read.

    Raises:
        InputError: absent, no regular file, truncated, not Parquet, too large, or damaged (also
            while the block reads rows).
    """
    try:
        with open_regular(path) as stream:
            size = os.fstat(stream.fileno()).st_size
        if size > MAX_FILE_BYTES:
            raise InputError(f"must be at most {MAX_FILE_BYTES} bytes", file=path, value=size)
        with pq.ParquetFile(path, page_checksum_verification=True) as parquet:
            rows = parquet.metadata.num_rows
            if not 0 <= rows <= MAX_ROWS:
                raise InputError(
                    f"must hold at most {MAX_ROWS} rows", file=path, key="rows", value=rows
                )
            _check_names(parquet, path)
            _check_decoded(parquet, path)
            yield parquet
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        reason = (
            str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
        )
        raise InputError(f"is no whole Parquet file ({reason})", file=path) from None


def decoded_values(path: str | Path) -> dict[str, int]:
    """Values of every column of an opened file, those of its lists counted one by one, as the
    footer states them.
    """
    counts: dict[str, int] = {}
    with _mapped(path) as data:
        for chunk in column_chunks(data):
            counts[chunk.column] = counts.get(chunk.column, 0) + chunk.values
    return counts


@contextmanager
def _mapped(path: str | Path) -> Iterator[mmap.mmap]:
    """The file's bytes; what they are not becomes an error that names the file."""
    with (
        open_regular(path) as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        try:
            yield data
        except (IndexError, ValueError) as error:
            raise InputError(f"is no whole Parquet file ({error})", file=path) from None


def _check_names(parquet: pq.ParquetFile, path: str | Path) -> None:
    names = parquet.schema_arrow.names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError("the file must have this column once", file=path, key=twice[:100])


def _check_decoded(parquet: pq.ParquetFile, path: str | Path) -> None:
    """Refuse a file whose values take more memory than allowed; texts that may be are measured,
    still encoded.
    """
    limit = _decoded_limit()
    widths = [_WIDTH_BYTES.get(column.physical_type, column.length) for column in parquet.schema]
    # values of lists of a fixed size, which take room even where a row is null
    total, texts_at_most = (
        8 * parquet.metadata.num_rows * sum(_entries(kind) for kind in parquet.schema_arrow.types),
        0,
    )
    with _mapped(path) as data:
        for chunk in column_chunks(data):
            if min(chunk.values, chunk.unpacked_bytes) < 0 or chunk.place >= len(widths):
                raise ValueError("a column chunk that cannot be")
            # a footer may claim less than its pages hold: the larger of both counts
            stated, unpacked = page_sizes(data, chunk.first_page, chunk.bytes)
            total += max(chunk.values, stated) * max(widths[chunk.place], 1)
            texts_at_most += max(chunk.values, stated) * unpacked * chunk.is_text
    # measuring texts reads the file: only where they decide
    if total <= limit < total + texts_at_most:
        total += _text_bytes(path)
    if total > limit:
        rule = f"must decode to at most {limit >> 20} MiB of values ({LIMIT_VARIABLE} allows more)"
        raise InputError(rule, file=path, key="bytes of values", value=total)


def _entries(kind: pa.DataType) -> int:
    """Values per row that a type has whatever the file holds: a list of a fixed size is full even
    where it is null.
    """
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * max(_entries(kind.value_type), 1)
    return sum(_entries(kind.field(at).type) for at in range(kind.num_fields))


def _decoded_limit() -> int:
    setting = os.environ.get(LIMIT_VARIABLE, "")
    if not setting:
        return MAX_VALUE_BYTES
    if not setting.isdecimal() or not 1 <= int(setting[:8]) <= 1 << 20 or len(setting) > 7:
        raise InputError(
            f"must be a whole number of MiB in 1..{1 << 20}", key=LIMIT_VARIABLE, value=setting
        )
    return int(setting) << 20


def _text_bytes(path: str | Path) -> int:
    """Bytes of all texts once decoded, from dictionaries and places in them alone."""
    with pq.ParquetFile(path) as plain:
        names = [field.name for field in plain.schema_arrow if pa.types.is_string(field.type)]
    total = 0
    with pq.ParquetFile(path, read_dictionary=names) as parquet:
        for batch in parquet.iter_batches(columns=names, batch_size=ROW_GROUP_ROWS):
            for column in batch.columns:
                lengths = pc.fill_null(pc.binary_length(column.dictionary), 0)
                places = column.indices.drop_null()
                total += pc.sum(lengths.take(places)).as_py() or 0
    return total


def numbers(table: pa.Table, name: str, file: str) -> NDArray[Any]:
    """A column of numbers without gaps.

    Args:
        table: as it was read.
        name: of the column.
        file: name for messages.

    Raises:
        InputError: absent, of another type, or with nulls.
    """
    column = _column(table, name, file)
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise InputError("must be a column of numbers", file=file, key=name, value=str(column.type))
    return _values(column)


def texts(table: pa.Table, name: str, file: str) -> tuple[str, ...]:
    """A column of text without gaps.

    Args:
        table: as it was read.
        name: of the column.
        file: name for messages.

    Raises:
        InputError: absent, of another type, or with nulls.
    """
    column = _column(table, name, file)
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        raise InputError("must be a column of text", file=file, key=name, value=str(column.type))
    return tuple(column.to_pylist())


def lists(table: pa.Table, name: str, file: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """A column of lists of numbers without gaps.

    Args:
        table: as it was read.
        name: of the column.
        file: name for messages.

    Returns:
        All values in a row, and the length of every list, int64[rows].

    Raises:
        InputError: absent, of another type, or with nulls.
    """
    column = _column(table, name, file)
    kind = column.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not is_list or not (
        pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)
    ):
        raise InputError(
            "must be a column of lists of numbers", file=file, key=name, value=str(kind)
        )
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
    """Numbers without gaps as an array; `to_numpy` would import pandas wherever it is installed,
    for half a second.
    """
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
