"""How many values do the pages of a Parquet column hold, by what every page says of itself?

A footer may state fewer values than the pages hold, and a reader decodes what the pages hold. Their headers, Thrift's
compact protocol, are read one after the other; no page is decoded. Leaves out what the values are.

Reference: `parquet.thrift` of apache/parquet-format, struct PageHeader; Thrift's compact protocol specification.
"""

from __future__ import annotations

from mmap import mmap
from typing import Any, TypeAlias

_MOST_PAGES = 200_000
_DEEPEST = 8
_STOP = 0
_UNCOMPRESSED, _COMPRESSED, _DATA, _DATA_V2 = 2, 3, 5, 8  # fields of a page's header
_VALUES = 1  # field of both kinds of data pages' own headers
Header: TypeAlias = dict[int, Any]
Bytes: TypeAlias = bytes | mmap


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
        header, at = _struct(data, at, _DEEPEST)
        unpacked += _size(header, _UNCOMPRESSED)
        at += _size(header, _COMPRESSED)
        for kind in (_DATA, _DATA_V2):
            if kind in header:
                values += _size(header[kind], _VALUES)
    raise ValueError("too many pages")


def _size(header: Any, field: int) -> int:
    found = header.get(field) if isinstance(header, dict) else None
    if not isinstance(found, int) or found < 0:
        raise ValueError("a page without a size")
    return found


def _struct(data: Bytes, at: int, deepest: int) -> tuple[Header, int]:
    """A struct's whole numbers and structs by field, and the place behind it."""
    if not deepest:
        raise ValueError("nested too deeply")
    found: Header = {}
    field = 0
    while True:
        byte = data[at]
        at += 1
        if byte == _STOP:
            return found, at
        step = byte >> 4
        if step:
            field += step
        else:
            field, at = _whole(data, at)
        found[field], at = _value(data, at, byte & 15, deepest)


def _value(data: Bytes, at: int, kind: int, deepest: int) -> tuple[Any, int]:
    """A value and the place behind it; None stands for what no page's size depends on."""
    match kind:
        case 1 | 2:  # true, false
            return None, at
        case 3:  # a byte
            return None, at + 1
        case 4 | 5 | 6:  # whole numbers of any width
            return _whole(data, at)
        case 7:  # a double
            return None, at + 8
        case 8:  # bytes
            size, at = _unsigned(data, at)
            return None, at + size
        case 12:
            return _struct(data, at, deepest - 1)
        case _:
            raise ValueError(f"no part of a page's header ({kind})")


def _unsigned(data: Bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise ValueError("a number without an end")


def _whole(data: Bytes, at: int) -> tuple[int, int]:
    value, at = _unsigned(data, at)
    return (value >> 1) ^ -(value & 1), at
