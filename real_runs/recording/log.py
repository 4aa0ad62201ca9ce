"""Which requests of a recording are finished, even if the machine went down in the middle?

A part file of JSON lines: the first states what is recorded and how, each further one is a finished
request. A line counts once it is whole and on disk; it is read again when it is asked for, so that
a long recording does not fill the memory. One process at a time may work on a part file. Leaves out
what the lines hold.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, overload

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import make_folder

try:
    import fcntl
except ImportError:  # pragma: no cover  (no such locks outside POSIX)
    fcntl = None  # type: ignore[assignment]

_LARGEST_FILE_BYTES = 8 << 30


class RecordingLog:
    """The part file of one recording; closes, and lets go of the file, at the end of a `with`
    block.

    Args:
        path: the part file.
        setup: everything the recording depends on, as JSON values.
        resume: go on with a part file that is there.

    Raises:
        InputError: a part file lies there and `resume` was not asked for, it was begun with another
            setup, another process works on it, or it is not a part file.

    Attributes:
        finished: entries of the finished requests, in the order they were written.
    """

    def __init__(self, path: Path, setup: Mapping[str, Any], *, resume: bool) -> None:
        self.path = path
        setup = json.loads(json.dumps(setup))
        make_folder(path.parent)
        self._stream = _locked(path)
        self.finished = _Entries(self._stream)
        try:
            self._begin(setup, resume=resume)
        except BaseException:
            self.close()
            raise

    def _begin(self, setup: Mapping[str, Any], *, resume: bool) -> None:
        if _size(self._stream) and not resume:
            raise InputError(
                "an unfinished recording lies there: resume it or delete it", file=self.path
            )
        begun = self._read_lines()
        if begun is None:
            self._write(setup)
            _sync_folder(self.path.parent)
        else:
            self._check_setup(begun, setup)

    def __enter__(self) -> RecordingLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add a finished request, as JSON values; it is on disk when this returns.

        Raises:
            OSError: the disk takes not all of it; the file is then as it was before.
        """
        self.finished.places.append(self._write(entry))

    def remove(self) -> None:
        """Delete the part file, once its contents stand elsewhere."""
        self.path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let go of the part file; another process may go on with it."""
        self._stream.close()

    def _write(self, values: Mapping[str, Any]) -> tuple[int, int]:
        """Put a line at the end; where the disk cannot take all of it, none of it stays."""
        line = json.dumps(values, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        start = _size(self._stream)
        try:
            with self.path.open("ab", buffering=0) as end:
                left = memoryview(line)
                while left:
                    left = left[end.write(left) :]
                os.fsync(end.fileno())
        except OSError as error:
            with suppress(OSError):
                os.truncate(self._stream.fileno(), start)
            raise OSError(
                error.errno, f"{error.strerror}; what was finished before is kept", str(self.path)
            ) from None
        return start, len(line)

    def _read_lines(self) -> dict[str, Any] | None:
        """The first line, and where all others stand; what a crash left behind the last whole one
        is cut off.
        """
        if _size(self._stream) > _LARGEST_FILE_BYTES:
            raise InputError(f"must not exceed {_LARGEST_FILE_BYTES} bytes", file=self.path)
        begun, start = None, 0
        self._stream.seek(0)
        for line in self._stream:
            if not line.endswith(b"\n"):
                os.truncate(self._stream.fileno(), start)
                break
            try:
                values = json.loads(line)
            except ValueError as error:
                raise InputError(
                    f"is not a part file of a recording ({error})", file=self.path
                ) from None
            if not isinstance(values, dict):
                raise InputError("is not a part file of a recording", file=self.path)
            if begun is None:
                begun = values
            else:
                self.finished.places.append((start, len(line)))
            start += len(line)
        return begun

    def _check_setup(self, begun: Mapping[str, Any], setup: Mapping[str, Any]) -> None:
        for key in sorted({*begun, *setup}):
            if begun.get(key) != setup.get(key):
                raise InputError(
                    f"the recording was begun with {begun.get(key)!r}",
                    file=self.path,
                    key=key,
                    value=setup.get(key),
                )


class _Entries(Sequence[dict[str, Any]]):
    """Lines of a part file as a sequence; a line is read when it is indexed."""

    def __init__(self, stream: BinaryIO) -> None:
        self.places: list[tuple[int, int]] = []
        self._stream = stream

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(index, slice):
            return [self._read(place) for place in self.places[index]]
        return self._read(self.places[index])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for place in list(self.places):
            yield self._read(place)

    def _read(self, place: tuple[int, int]) -> dict[str, Any]:
        self._stream.seek(place[0])
        values: dict[str, Any] = json.loads(self._stream.read(place[1]))
        return values


def _locked(path: Path) -> BinaryIO:
    """The file, opened and locked until it is closed; a crash lets go of it too.

    Raises:
        InputError: another process holds it, or it cannot be opened.
    """
    while True:
        try:
            stream = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        except OSError as error:
            raise InputError(f"cannot be opened ({error.strerror or error})", file=path) from None
        if fcntl is not None:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                stream.close()
                raise InputError(
                    "another process is recording into it; wait for it or choose another folder",
                    file=path,
                ) from None
        # the holder before may have removed the file between opening and locking: then a new one is
        # due
        if _is_at(stream, path):
            return stream
        stream.close()


def _is_at(stream: BinaryIO, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(stream.fileno()), there)


def _size(stream: BinaryIO) -> int:
    return os.fstat(stream.fileno()).st_size


def _sync_folder(folder: Path) -> None:
    """Make a new file's name durable, where folders can be synced."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
