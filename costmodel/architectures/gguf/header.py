"""What does the header of a GGUF file say: scalar metadata, and the shape and type of every tensor?

The file is read up to its tensors' data and nothing is trusted: counts and lengths are bounded,
arrays (vocabularies) are passed over. Leaves out the weights, which `real_runs.models.loading`
reads, and what the keys mean (`model`).

Reference: the specification of the format in ggml's repository, `docs/gguf.md`, versions 2 and 3,
little-endian.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from hardware_profiles.errors import InputError
from hardware_profiles.outside_file import open_regular
from hardware_profiles.units import MIB

_MAGIC, _VERSIONS = b"GGUF", (2, 3)
_MOST_KEYS, _MOST_TENSORS, _MOST_DIMENSIONS = 10_000, 100_000, 4
_MOST_ENTRIES, _LONGEST_KEY, _LONGEST_TEXT = 10_000_000, 65_535, 8 * MIB
_LARGEST_HEADER = 256 * MIB
_CHUNK_BYTES, _LENGTH = MIB, struct.Struct("<Q")
_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_TEXT, _ARRAY = 8, 9
Scalar = int | float | bool | str

# `ggml_type` by number (ggml.h), as number formats are called here
TYPES: Mapping[int, str] = {
    0: "fp32",
    1: "fp16",
    2: "q4_0",
    3: "q4_1",
    6: "q5_0",
    7: "q5_1",
    8: "q8_0",
    10: "q2_k",
    11: "q3_k",
    12: "q4_k",
    13: "q5_k",
    14: "q6_k",
    30: "bf16",
    39: "fp4-g32",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class TensorInfo:
    """One tensor as the header lists it.

    Attributes:
        name: in the file.
        sizes: of every axis, the innermost first.
        kind: its `ggml_type`.
        offset_bytes: from the end of the header.
    """

    name: str
    sizes: tuple[int, ...]
    kind: int
    offset_bytes: int

    @property
    def values(self) -> int:
        """Number of values."""
        return math.prod(self.sizes)


@dataclass(frozen=True, kw_only=True, slots=True)
class Header:
    """Scalar metadata and tensors of a GGUF file.

    Attributes:
        metadata: by key; arrays are left out.
        tensors: in the order of the file.
        data_at: byte of the file at which tensors begin.
    """

    metadata: Mapping[str, Scalar]
    tensors: tuple[TensorInfo, ...]
    data_at: int


_READ: dict[
    Path, tuple[int, bytes, Header]
] = {}  # what was read last: its length, its digest, what it says
_MOST_READ = 8


def read_header(path: Path) -> Header:
    """The header of a GGUF file; one whose bytes are those of the last time is not taken apart
    again.

    Args:
        path: regular file; at most 256 MiB of it are read.

    Raises:
        InputError: no such file, another format or version, or a header that is truncated or out of
            bounds.
    """
    try:
        with open_regular(path) as stream:
            length, digest, header = _READ.get(path, (0, b"", None))
            if header is not None and sha256(stream.read(length)).digest() == digest:
                return header
            stream.seek(0)
            data = _Bytes(stream, path)
            header = _header(data)
            stream.seek(0)
            while len(_READ) >= _MOST_READ:
                _READ.pop(next(iter(_READ)), None)
            _READ[path] = data.read_bytes, sha256(stream.read(data.read_bytes)).digest(), header
            return header
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", file=path) from None


class _Bytes:
    """The beginning of a file, read piece by piece and never beyond a limit."""

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream, self._path = stream, path
        self._held, self._at, self._passed = b"", 0, 0

    @property
    def read_bytes(self) -> int:
        """How much was taken or passed over."""
        return self._passed + self._at

    def wrong(self, rule: str, key: str | None = None, value: object = None) -> InputError:
        return InputError(rule, file=self._path, key=key, value=value)

    def take(self, count: int) -> bytes:
        self._hold(count)
        self._at += count
        return self._held[self._at - count : self._at]

    def _hold(self, count: int) -> None:
        """Read on where fewer bytes than that are at hand."""
        if self.read_bytes + count > _LARGEST_HEADER:
            raise self.wrong(f"must have a header of at most {_LARGEST_HEADER // MIB} MiB")
        if self._at + count > len(self._held):
            self._passed, left = self.read_bytes, self._held[self._at :]
            self._held, self._at = left + self._stream.read(max(count - len(left), _CHUNK_BYTES)), 0
            if len(self._held) < count:
                raise self.wrong("is truncated within its header")

    def number(self, code: str) -> int | float | bool:
        value: int | float | bool = struct.unpack(
            "<" + code, self.take(struct.calcsize("<" + code))
        )[0]
        return value

    def count(self, code: str, most: int, key: str) -> int:
        value = int(self.number(code))
        if value > most:
            raise self.wrong(f"must be at most {most}", key=key, value=value)
        return value

    def text(self, longest: int, key: str) -> str:
        return self.take(self.count("Q", longest, f"length of {key}")).decode("utf-8", "replace")

    def pass_texts(self, count: int, key: str) -> None:
        """Leave texts unread: vocabularies have a hundred thousand."""
        for _ in range(count):
            if self._at + 8 > len(self._held):
                self._hold(8)
            size = _LENGTH.unpack_from(self._held, self._at)[0]
            if size > _LONGEST_TEXT:
                raise self.wrong(
                    f"must be at most {_LONGEST_TEXT}", key=f"length of {key}", value=size
                )
            if self._at + 8 + size > len(self._held):
                self._hold(8 + size)
            self._at += 8 + size


def _header(data: _Bytes) -> Header:
    if data.take(4) != _MAGIC:
        raise data.wrong("is no GGUF file")
    version = data.number("I")
    if version not in _VERSIONS:
        raise data.wrong("must be GGUF version 2 or 3, little-endian", key="version", value=version)
    tensors = data.count("Q", _MOST_TENSORS, "tensor_count")
    metadata: dict[str, Scalar] = {}
    for _ in range(data.count("Q", _MOST_KEYS, "metadata_kv_count")):
        key = data.text(_LONGEST_KEY, "a key")
        value = _value(data, key, data.count("I", 12, f"type of {key[:80]}"))
        if value is not None:
            metadata[key] = value
    infos = tuple(_tensor(data) for _ in range(tensors))
    step = metadata.get("general.alignment", 32)
    if isinstance(step, bool) or not isinstance(step, int) or not 1 <= step <= MIB:
        raise data.wrong(
            "must be a whole number from 1 to 2^20", key="general.alignment", value=step
        )
    return Header(metadata=metadata, tensors=infos, data_at=-(-data.read_bytes // step) * step)


def _value(data: _Bytes, key: str, kind: int) -> Scalar | None:
    """A scalar; None for an array, whose entries are passed over."""
    if kind == _TEXT:
        return data.text(_LONGEST_TEXT, key[:80])
    if kind != _ARRAY:
        return data.number(_SCALARS[kind])
    entries = data.count("I", 12, f"type of {key[:80]}")
    if entries == _ARRAY:
        raise data.wrong("must not hold arrays of arrays", key=key[:80])
    count = data.count("Q", _MOST_ENTRIES, f"entries of {key[:80]}")
    if entries == _TEXT:
        data.pass_texts(count, key[:80])
    else:
        data.take(count * struct.calcsize("<" + _SCALARS[entries]))
    return None


def _tensor(data: _Bytes) -> TensorInfo:
    name = data.text(_LONGEST_KEY, "a tensor's name")
    dimensions = data.count("I", _MOST_DIMENSIONS, f"dimensions of {name[:80]}")
    sizes = tuple(data.count("Q", 1 << 40, f"size of {name[:80]}") for _ in range(dimensions))
    kind = int(data.number("I"))
    return TensorInfo(name=name, sizes=sizes, kind=kind, offset_bytes=int(data.number("Q")))
