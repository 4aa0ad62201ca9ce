"""How is a file opened that nobody vouches for?

Regular files alone: a pipe waits for a writer that may never come, and a device never ends. What is
read has a limit. Leaves out what the bytes mean, and writing (`whole_file`).
"""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from hardware_profiles.errors import InputError

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


def open_regular(path: str | Path) -> BinaryIO:
    """A file opened for reading bytes.

    Raises:
        InputError: absent, unreadable, or no regular file.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a Path with a NUL in it raises ValueError here
            raise InputError("must be a regular file", file=path)
        handle = os.open(path, _FLAGS)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            # it may have become another one; opening did not wait for it
            os.close(handle)
            raise InputError("must be a regular file", file=path)
        return os.fdopen(handle, "rb")
    except FileNotFoundError:
        raise InputError("there is no such file", file=path) from None
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", file=path) from None
    except ValueError as error:
        raise InputError(f"cannot be read ({error})", file=path) from None


def read_bounded(path: str | Path, most_bytes: int) -> bytes:
    """The content of a regular file.

    Args:
        path: file to read.
        most_bytes: limit of its size.

    Raises:
        InputError: absent, unreadable, no regular file, or larger.
    """
    try:
        with open_regular(path) as stream:
            content = stream.read(most_bytes + 1)
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or error})", file=path) from None
    if len(content) > most_bytes:
        raise InputError(f"must be at most {most_bytes} bytes", file=path)
    return content
