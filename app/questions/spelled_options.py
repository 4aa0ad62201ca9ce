"""How does the command line spell the fields that a refusal names?

Below the doors errors carry names of fields; here these become options.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from hardware_profiles.errors import InputError


@contextmanager
def as_options(*names: str) -> Iterator[None]:
    """Spell fields in the refusals of the block as the options of the same name.

    Args:
        names: of fields that options state.

    Raises:
        InputError: the block's.
    """
    try:
        yield
    except InputError as error:
        if error.key not in names or error.file is not None:
            raise
        option = f"--{error.key.replace('_', '-')}"
        raise InputError(error.message, key=option, value=error.value) from None


def named_by_option(
    error: InputError, options: Mapping[str, str], stated: Collection[str]
) -> InputError:
    """The same refusal with the option that was given in the place of its key.

    Args:
        error: of a scenario.
        options: option by key.
        stated: keys that options stated.
    """
    message, key = error.message, error.key
    for name, option in options.items():
        if key is None and error.file is None:
            message = message.replace(name, option)
        elif key == "requests" and name in stated:
            message = message.replace(name.removeprefix("requests."), option)
    if key is not None and key in stated:
        key = options.get(key, key)
    if (message, key) == (error.message, error.key):
        return error
    return InputError(message, file=error.file, key=key, value=error.value)
