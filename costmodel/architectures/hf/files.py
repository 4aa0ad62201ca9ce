"""How is a file with a model's configuration read, when nobody vouches for it?

Regular files of at most 1 MiB, and JSON that holds an object. Leaves out what the keys mean (`config`).
"""

import json
import stat
from collections.abc import Mapping
from pathlib import Path

from hardware_profiles.errors import InputError
from hardware_profiles.units import MIB

_SIZE_LIMIT_BYTES = MIB


def bounded_bytes(path: Path) -> bytes:
    """The content of a regular file of at most 1 MiB.

    Raises:
        InputError: The path leads to no such file, or it cannot be read.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError("must be a regular file", file=path)
        with path.open("rb") as stream:
            data = stream.read(_SIZE_LIMIT_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read ({error})", file=path) from error
    if len(data) > _SIZE_LIMIT_BYTES:
        raise InputError(f"must be at most {_SIZE_LIMIT_BYTES} bytes", file=path)
    return data


def json_object(path: Path) -> Mapping[str, object]:
    """The object that a JSON file holds.

    Raises:
        InputError: No such file, no JSON, or something else than an object.
    """
    try:
        config = json.loads(bounded_bytes(path).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not valid JSON ({error})", file=path) from error
    if not isinstance(config, dict):
        raise InputError("must hold a JSON object", file=path, value=type(config).__name__)
    return config


def name_of(path: Path) -> str:
    """The name by place: a hub cache folder, the folder of a config.json, or the file's own name."""
    for part in reversed(path.absolute().parts):
        if part.startswith("models--"):
            return part.rpartition("--")[2]
    return path.absolute().parent.name if path.name == "config.json" else path.stem
