"""How many values do the pages of a Parquet column hold, by the headers of the pages?

A footer may state fewer values than the pages hold, and a reader decodes what the pages hold. Their
headers, Thrift's compact protocol, are read one after the other; no page is decoded. Leaves out
what the values are.

Reference: `parquet.thrift` of apache/parquet-format, struct PageHeader; Thrift's compact protocol
specification.
"""

from __future__ import annotations

from typing import Any

from traces.storage.thrift_compact import Bytes, struct_at

_MOST_PAGES = 200_000
_DEEPEST = 8
_UNCOMPRESSED, _COMPRESSED, _DATA, _DATA_V2 = 2, 3, 5, 8  # fields of a page's header
_VALUES = 1  # field of both kinds of data pages' own headers


def page_sizes(data: Bytes, start: int, length: int) -> tuple[int, int]:
    """Values of all data pages of a column chunk, and bytes of all its pages once unpacked.

    Args:
        data: the file's bytes.
        start: of the chunk's first page.
        length: bytes of the chunk.

    Raises:
        ValueError: what stands there are no pages, or too many.
        IndexError: they go beyond the file.
    """
    at, values, unpacked = start, 0, 0
    for _ in range(_MOST_PAGES):
        if at >= start + length:
            return values, unpacked
        header, at = struct_at(data, at, _DEEPEST)
        unpacked += _size(header, _UNCOMPRESSED)
        at += _size(header, _COMPRESSED)
        for kind in (_DATA, _DATA_V2):
            if kind in header:
                values += _size(header[kind], _VALUES)
    raise ValueError("too many pages")


def _size(header: Any, field: int) -> int:
    size = header.get(field) if isinstance(header, dict) else None
    if not isinstance(size, int) or size < 0:
        raise ValueError("a page without a size")
    return size
