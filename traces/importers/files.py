"""How is a text file from outside read safely?

Bounded reading of text, JSON and JSON lines, and the checks that turn foreign values into arrays.
Leaves out what any source means by its keys.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from hardware_profiles.outside_file import open_regular

MAX_TEXT_BYTES = 1 << 30
MAX_LINE_CHARACTERS = 1 << 26


def read_text(path: str | Path) -> str:
    """The text of a file, UTF-8, with line feeds between its lines; bytes that are none become
    replacement characters.

    Raises:
        InputError: absent, no regular file, unreadable or too large.
    """
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > MAX_TEXT_BYTES:
            raise InputError(f"must be at most {MAX_TEXT_BYTES} bytes", file=path, value=size)
        # a log may grow meanwhile; a larger number would reserve as much memory
        content = stream.read(size)
    return content.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")


def delimiter_of(header: str) -> str:
    """What separates the columns of a table: the comma, semicolon or tab that its first line holds
    most often.
    """
    return max(",;\t", key=header.count)


def parse_json(text: str, file: str, key: str | None = None) -> Any:
    """A JSON value.

    Args:
        text: of the file, or of a line.
        file: name for messages.
        key: key for messages; None: the whole file.

    Raises:
        InputError: no JSON, or nested too deeply.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "value out of bounds"
        raise InputError(f"must be JSON ({reason})", file=file, key=key) from None


def json_lines(text: str, file: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The object of every line that is not blank, with the name of the line.

    Args:
        text: of the file.
        file: name for messages.

    Raises:
        InputError: a line that is too long or no JSON object.
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name = f"line {number}"
        if len(line) > MAX_LINE_CHARACTERS:
            raise InputError(
                f"must not exceed {MAX_LINE_CHARACTERS} characters", file=file, key=name
            )
        yield name, expect_object(parse_json(line, file, name), file, name)


def expect_object(value: object, file: str, key: str) -> Mapping[str, Any]:
    """The value, if it is a JSON object.

    Args:
        value: what stands in the file.
        file: name for messages.
        key: key for messages.

    Raises:
        InputError: it is something else.
    """
    if not isinstance(value, dict):
        raise InputError("must be an object", file=file, key=key, value=value)
    return value


def expect_list(value: object, file: str, key: str) -> Sequence[Any]:
    """The value, if it is a JSON list.

    Args:
        value: what stands in the file.
        file: name for messages.
        key: key for messages.

    Raises:
        InputError: it is something else.
    """
    if not isinstance(value, list):
        raise InputError("must be a list", file=file, key=key, value=value)
    return value


def expect_whole(value: object, file: str, key: str) -> int:
    """The value, if it is a whole number in 0..2^31-1.

    Args:
        value: what stands in the file.
        file: name for messages.
        key: key for messages.

    Raises:
        InputError: it is something else.
    """
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise InputError("must be a whole number >= 0", file=file, key=key, value=value)
    return value


def expect_name(value: object, file: str, key: str) -> str:
    """The value as a name: text, or a whole number written out.

    Args:
        value: what stands in the file.
        file: name for messages.
        key: key for messages.

    Raises:
        InputError: it is something else.
    """
    if isinstance(value, str):
        return value.encode("utf-8", errors="replace").decode()
    if type(value) is int and abs(value) < 1 << 63:
        return str(value)
    raise InputError("must be text or a whole number", file=file, key=key, value=value)


def lengths_of(value: object, file: str, key: str, lowest: int) -> NDArray[np.int16]:
    """A JSON list of token counts.

    Args:
        value: what stands in the file.
        file: name for messages.
        key: key for messages.
        lowest: least count allowed.

    Raises:
        InputError: no list of whole numbers in lowest..32767.
    """
    values = expect_list(value, file, key)
    most = int(np.iinfo(np.int16).max)
    for index, count in enumerate(values):
        if type(count) is not int or not lowest <= count <= most:
            raise InputError(
                f"must be whole numbers in {lowest}..{most}",
                file=file,
                key=f"{key}[{index}]",
                value=count,
            )
    return np.asarray(values, dtype=np.int16)
