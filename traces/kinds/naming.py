"""Which file does an error message name?

A context manager that adds the file's name to the errors of checks that do not know it. Leaves out
the checks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hardware_profiles.errors import InputError


@contextmanager
def naming(file: str | None, key: str | None = None) -> Iterator[None]:
    """Add a file's name to any `InputError` of the block that names none.

    Args:
        file: the name; None adds nothing.
        key: key to put in place of the error's own, e.g. the line it stands in.

    Raises:
        InputError: the block's, with the file's name.
    """
    try:
        yield
    except InputError as error:
        if file is None or error.file is not None:
            raise
        raise InputError(
            error.message, file=file, key=key or error.key, value=error.value
        ) from None
