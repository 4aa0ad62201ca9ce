"""How does a file come to be whole or not at all?

A neighbour is written and then renamed. Leaves out what is written, and Parquet files, which are checked first
(`traces.parquet_files`).
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hardware_profiles.errors import InputError


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, where they are not there.

    Raises:
        InputError: it cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror or error})", file=folder) from None


@contextmanager
def whole_file(path: Path, *, synced: bool = False) -> Iterator[Path]:
    """A neighbour to write to, which takes the place of `path` if nothing fails, and is removed if anything does.

    Args:
        path: the file to be; its folder must exist.
        synced: on the disk before it takes the place, so that a power cut leaves the old or the new file.

    Raises:
        InputError: the place cannot be written.
    """
    part = path.with_name(path.name + ".part")
    try:
        yield part
        if synced:
            with part.open("rb") as stream:
                os.fsync(stream.fileno())
        part.replace(path)
    except OSError as error:
        raise InputError(f"cannot be written ({error.strerror or error})", file=path) from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
