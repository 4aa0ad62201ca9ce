"""What does a struct in Thrift's compact protocol hold, read from bytes that nobody vouches for?

Whole numbers, short texts, lists and structs by the numbers of their fields; what else stands there
is skipped. Leaves out what fields mean (`parquet_pages`, `parquet_footer`).

Reference: Thrift's compact protocol specification.
"""

from __future__ import annotations

from mmap import mmap
from typing import Any, TypeAlias

_STOP = 0
_LONGEST_TEXT = 1000
_SKIPPED_BYTES = {1: 0, 2: 0, 3: 1, 7: 8}  # of what is in the field's own byte, a byte, a double
Fields: TypeAlias = dict[int, Any]
Bytes: TypeAlias = bytes | mmap


def struct_at(data: Bytes, at: int, deepest: int) -> tuple[Fields, int]:
    """A struct's values by field, and the place behind it.

    Args:
        data: the file's bytes.
        at: where it begins.
        deepest: structs and lists within each other, at most.

    Raises:
        ValueError: no struct stands there.
        IndexError: it goes beyond the bytes.
    """
    if not deepest:
        raise ValueError("nested too deeply")
    fields: Fields = {}
    field = 0
    while True:
        byte = data[at]
        at += 1
        if byte == _STOP:
            return fields, at
        step = byte >> 4
        if step:
            field += step
        else:
            field, at = _whole(data, at)
        fields[field], at = _value(data, at, byte & 15, deepest)


def _value(data: Bytes, at: int, kind: int, deepest: int) -> tuple[Any, int]:
    """A value and the place behind it; None stands for what is skipped."""
    match kind:
        case 1 | 2 | 3 | 7:  # true, false, a byte, a double
            return None, at + _SKIPPED_BYTES[kind]
        case 4 | 5 | 6:  # whole numbers of any width
            return _whole(data, at)
        case 8:  # bytes
            size, at = _unsigned(data, at)
            return bytes(data[at : at + size]) if size <= _LONGEST_TEXT else None, at + size
        case 9 | 10:  # a list or a set
            return _list(data, at, deepest - 1)
        case 12:
            return struct_at(data, at, deepest - 1)
        case _:
            raise ValueError(f"no value that a page or a footer has ({kind})")


def _list(data: Bytes, at: int, deepest: int) -> tuple[list[Any], int]:
    """Values of a list and the place behind it; every one takes a byte at least."""
    if not deepest:
        raise ValueError("nested too deeply")
    byte = data[at]
    size, kind, at = byte >> 4, byte & 15, at + 1
    if size == 15:
        size, at = _unsigned(data, at)
    if size > len(data) - at:
        raise IndexError("a list reaches past the end of the file")
    values = []
    for _ in range(size):
        value, at = (None, at + 1) if kind in (1, 2) else _value(data, at, kind, deepest)
        values.append(value)
    return values, at


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
