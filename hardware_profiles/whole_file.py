"""How is a file written so that readers see the old content or all of the new?

A temporary file beside it is written and then renamed. Leaves out what is written.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hardware_profiles.errors import InputError

_MOST_NAME = 200  # characters that are left of a long name


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
    """A temporary file beside `path` that replaces it if nothing fails, and is removed otherwise.

    Args:
        path: the file to be; its folder must exist.
        synced: on the disk before it takes the place, so that a power cut leaves the old or the new file.

    Raises:
        InputError: the place cannot be written, or something that is no plain file stands there.
    """
    if not path.name or (os.path.lexists(path) and not path.is_file()):
        raise InputError("must be a plain file, or a name that is free", file=path)
    part = path.with_name(f".{path.name[:_MOST_NAME]}.{uuid.uuid4().hex}.part")  # each writer's own
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
