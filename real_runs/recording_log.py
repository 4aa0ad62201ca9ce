"""Which requests of a recording are finished, even if the machine went down in the middle?

A part file of JSON lines: the first states what is recorded and how, each further one is a finished
request. A line counts once it is whole and on disk. Leaves out what the lines hold.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardware_profiles.errors import InputError

_LARGEST_FILE_BYTES = 1 << 30


class RecordingLog:
    """The part file of one recording.

    Args:
        path: the part file.
        setup: everything the recording depends on, as JSON values.
        resume: go on with a part file that is there.

    Raises:
        InputError: a part file lies there and `resume` was not asked for, it was begun with another setup,
            or it is not a part file.

    Attributes:
        finished: entries of the finished requests, in the order they were written.
    """

    def __init__(self, path: Path, setup: Mapping[str, Any], *, resume: bool) -> None:
        self.path = path
        self.finished: list[dict[str, Any]] = []
        setup = json.loads(json.dumps(setup))
        if path.exists() and not resume:
            raise InputError("an unfinished recording lies there: resume it or delete it", file=path)
        if path.exists() and (whole := self._whole_lines()):
            self._check_setup(whole[0], setup)
            self.finished = whole[1:]
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
            self._write(setup)
            _sync_folder(path.parent)

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add a finished request; it is on disk when this returns."""
        self._write(entry)
        self.finished.append(dict(entry))

    def remove(self) -> None:
        """Delete the part file, once its contents stand elsewhere."""
        self.path.unlink(missing_ok=True)

    def _write(self, values: Mapping[str, Any]) -> None:
        line = json.dumps(values, separators=(",", ":"), allow_nan=False) + "\n"
        with self.path.open("ab") as stream:
            stream.write(line.encode())
            stream.flush()
            os.fsync(stream.fileno())

    def _whole_lines(self) -> list[dict[str, Any]]:
        """Every whole line; what a crash left behind the last one is cut off."""
        if self.path.stat().st_size > _LARGEST_FILE_BYTES:
            raise InputError(f"must not exceed {_LARGEST_FILE_BYTES} bytes", file=self.path)
        raw = self.path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        try:
            lines = [json.loads(line) for line in whole.splitlines()]
        except ValueError as error:
            raise InputError(f"is not a part file of a recording ({error})", file=self.path) from None
        if not all(isinstance(line, dict) for line in lines):
            raise InputError("is not a part file of a recording", file=self.path)
        if len(whole) < len(raw):
            os.truncate(self.path, len(whole))
        return lines

    def _check_setup(self, begun: Mapping[str, Any], setup: Mapping[str, Any]) -> None:
        for key in sorted({*begun, *setup}):
            if begun.get(key) != setup.get(key):
                raise InputError(
                    f"the recording was begun with {begun.get(key)!r}",
                    file=self.path,
                    key=key,
                    value=setup.get(key),
                )


def _sync_folder(folder: Path) -> None:
    """Make a new file's name durable, where folders can be synced."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
