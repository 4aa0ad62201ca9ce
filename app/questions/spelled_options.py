"""How are the keys of a scenario spelled in a refusal? As the options that stated them.

The fields of a question are spelled by the doors (`app.cli.door`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hardware_profiles.errors import InputError


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
