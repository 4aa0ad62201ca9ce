"""How does an answer become JSON? One object with a schema number, all of whose numbers are finite."""

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from app.answers.answer import Answer, Row
from hardware_profiles.whole_file import make_folder, whole_file

SCHEMA = 4


def print_json(answer: Mapping[str, Any]) -> None:
    """Print `answer` as one JSON object on standard output; numbers that are not finite become
    null.
    """
    sys.stdout.write(json.dumps(jsonable({"schema": SCHEMA, **answer}), allow_nan=False) + "\n")


def write_json(answer: Mapping[str, Any], path: Path) -> None:
    """Write `answer` to a file whole: to a neighbour first, then renamed.

    Raises:
        InputError: the place cannot be written.
    """
    text = json.dumps(jsonable({"schema": SCHEMA, **answer}), allow_nan=False, indent=1) + "\n"
    make_folder(path.parent)
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")


def jsonable(value: Any) -> Any:
    """Records as objects, numpy scalars and arrays as Python values, numbers that JSON cannot hold
    as None; what a row or an answer does not have is left out (`app.answers.answer.Row`), as is
    the last underscore of a name that Python would not allow without it (`class_`).
    """
    if is_dataclass(value):
        optional = isinstance(value, Row | Answer)
        unwritten = value.unwritten if isinstance(value, Answer) else ()
        spread = value.spread if isinstance(value, Answer) else ()
        written: dict[str, Any] = {}
        for field in fields(value):
            entry = getattr(value, field.name)
            if field.name in spread:
                written |= jsonable(entry)
            elif field.name not in unwritten and not (
                entry is None and optional and field.default is None
            ):
                written[field.name.removesuffix("_")] = entry
        value = written
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    return value
