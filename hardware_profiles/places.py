"""Does a name from outside name a file or folder that exists?

Text that no file can bear, because it is too long or holds a NUL, names none: asking the system
about it would raise.
"""

import os
from pathlib import Path


def is_place(name: str | Path) -> bool:
    """Whether a file or folder of that name exists.

    Example:
        >>> is_place("."), is_place("x" * 5000), is_place("a" + chr(0))
        (True, False, False)
    """
    return os.path.exists(name)  # noqa: PTH110 - Path.exists raises for such names


def is_folder(name: str | Path) -> bool:
    """Whether a folder of that name exists."""
    return os.path.isdir(name)  # noqa: PTH112 - Path.is_dir raises for such names


def is_file(name: str | Path) -> bool:
    """Whether a file of that name exists, which is no folder."""
    return os.path.isfile(name)  # noqa: PTH113 - Path.is_file raises for such names
