"""Which column chunks does a Parquet file have, and where, by what its footer says?

pyarrow's own view of a chunk (`RowGroupMetaData.column`) ends the process on a damaged footer: its
C++ throws through code that catches nothing. Here a damaged one is an error. Leaves out statistics,
and what the values are.

Reference: `parquet.thrift` of apache/parquet-format, structs FileMetaData, RowGroup, ColumnChunk
and ColumnMetaData.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from traces.storage.thrift_compact import Bytes, Fields, struct_at

_DEEPEST = 12
_TAIL_BYTES = 8  # length of the footer, and the mark
_GROUPS = 4  # field of FileMetaData
_COLUMNS = 1  # of RowGroup
_CHUNK = 3  # of ColumnChunk: its ColumnMetaData
# of ColumnMetaData
_KIND, _PATH, _VALUES, _UNPACKED, _PACKED, _PAGE, _DICTIONARY = (1, 3, 5, 6, 7, 9, 11)
_TEXT = 6  # physical type BYTE_ARRAY


@dataclass(frozen=True, slots=True)
class Chunk:
    """One column in one row group.

    Attributes:
        column: name of the outermost field.
        place: of the column among the leaves of the schema.
        values: that the footer states.
        unpacked_bytes: of all pages, as the footer states them.
        bytes: of all pages in the file.
        first_page: where they begin; 0 where a chunk without values has none.
        is_text: values are byte arrays of any length.
    """

    column: str
    place: int
    values: int
    unpacked_bytes: int
    bytes: int
    first_page: int
    is_text: bool


def column_chunks(data: Bytes) -> list[Chunk]:
    """All column chunks, row group after row group.

    Args:
        data: the file's bytes.

    Raises:
        ValueError: no footer stands at the end, or one without what a chunk must have.
        IndexError: it goes beyond the file.
    """
    start = len(data) - _TAIL_BYTES - int.from_bytes(data[-_TAIL_BYTES:-4], "little")
    if start < 0:
        raise ValueError("a footer longer than the file")
    footer, _ = struct_at(data, start, _DEEPEST)
    groups = [_whole(group, _COLUMNS, list) for group in _whole(footer, _GROUPS, list)]
    return [
        _chunk(_whole(column, _CHUNK, dict), place)
        for group in groups
        for place, column in enumerate(group)
    ]


def _chunk(fields: Fields, place: int) -> Chunk:
    path = _whole(fields, _PATH, list)
    if not path or not isinstance(path[0], bytes):
        raise ValueError("a column without a name")
    starts = [fields.get(field) for field in (_DICTIONARY, _PAGE)]
    return Chunk(
        column=path[0].decode("utf-8", "replace"),
        place=place,
        values=_whole(fields, _VALUES, int),
        unpacked_bytes=_whole(fields, _UNPACKED, int),
        bytes=_whole(fields, _PACKED, int),
        first_page=min((at for at in starts if isinstance(at, int) and at), default=0),
        is_text=_whole(fields, _KIND, int) == _TEXT,
    )


def _whole(fields: Any, field: int, kind: type) -> Any:
    value = fields.get(field) if isinstance(fields, dict) else None
    if not isinstance(value, kind):
        raise ValueError("a footer without what a column must have")
    return value
