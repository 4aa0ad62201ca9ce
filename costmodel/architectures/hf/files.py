"""How is a file with a model's configuration read, when nobody vouches for it?

Regular files of at most 1 MiB, and JSON that holds an object. Leaves out what the keys mean
(`config`).
"""

import json
from collections.abc import Mapping
from pathlib import Path

from hardware_profiles.errors import InputError
from hardware_profiles.outside_file import read_bounded
from hardware_profiles.units import MIB


def json_object(path: Path) -> Mapping[str, object]:
    """The object that a JSON file holds.

    Raises:
        InputError: No such file, no JSON, or something else than an object.
    """
    try:
        config = json.loads(read_bounded(path, MIB).decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"is not valid JSON ({error})", file=path) from error
    if not isinstance(config, dict):
        raise InputError("must hold a JSON object", file=path, value=type(config).__name__)
    return config


def name_of(path: Path) -> str:
    """The name by place: a hub cache folder, the folder of a config.json, or the file's own
    name.
    """
    for part in reversed(path.absolute().parts):
        if part.startswith("models--"):
            return part.rpartition("--")[2]
    return path.absolute().parent.name if path.name == "config.json" else path.stem
