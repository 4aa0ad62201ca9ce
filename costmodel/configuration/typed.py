"""Does every field of a record hold what its annotation says, and does a JSON object have its keys?

Frozen records that are read from files are checked here, field by field, with the key that is wrong
named. Leaves out which values make sense together (the record's own checks).
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hardware_profiles.errors import InputError, nearest_names

_WORDS = {int: "a whole number", float: "a finite number", str: "a text", bool: "true or false"}


def require_types(record: Any, *, under: str = "") -> None:
    """Check every field of a dataclass against its annotation.

    Args:
        record: a dataclass of numbers, texts, tuples of them and other records.
        under: key of the record in the one that holds it.

    Raises:
        InputError: a field that holds another type, or a number that is not finite.
    """
    kind: Any = type(record)
    for name, hint in _hints(kind).items():
        value = getattr(record, name)
        if not _holds(value, hint):
            raise InputError(f"must be {_described(hint)}", key=_joined(under, name), value=value)


def known_fields(kind: type[Any], document: object, *, under: str = "") -> dict[str, Any]:
    """The fields of a record that a JSON object states, lists as tuples; absent ones keep their
    defaults.

    Args:
        kind: the dataclass.
        document: what stands in the file.
        under: key of the object in the file.

    Raises:
        InputError: no object, or a key that the record does not have; the nearest ones are offered.
    """
    names = [field.name for field in fields(kind)]
    if not isinstance(document, Mapping):
        raise InputError("must be an object of keys and values", key=under or None, value=document)
    for key in document:
        if key not in names:
            offered = ", ".join(nearest_names(str(key), names))
            raise InputError(f"is no key of it; nearest: {offered}", key=_joined(under, str(key)))
    return {str(key): _as_tuples(value) for key, value in document.items()}


def _as_tuples(value: object) -> object:
    return tuple(_as_tuples(item) for item in value) if isinstance(value, list) else value


def _joined(under: str, name: str) -> str:
    return f"{under}.{name}" if under else name


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _parts(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    return get_origin(hint), get_args(hint)


def _holds(value: object, hint: Any) -> bool:
    origin, inner = _parts(hint)
    if origin in (Union, types.UnionType):
        return any(_holds(value, alternative) for alternative in inner)
    if origin is Literal:
        return isinstance(value, str) and value in inner
    if origin is tuple:
        return isinstance(value, tuple) and _all_hold(value, inner)
    if hint is float:
        return type(value) in (int, float) and math.isfinite(float(value))  # type: ignore[arg-type]
    if hint in (int, str, bool):
        return type(value) is hint
    return isinstance(value, origin or hint)


def _all_hold(values: tuple[object, ...], inner: tuple[Any, ...]) -> bool:
    hints = (inner[0],) * len(values) if inner[-1] is Ellipsis else inner
    return len(hints) == len(values) and all(map(_holds, values, hints))


def _described(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_described(part) for part in inner)
    if origin is Literal:
        return f"one of {', '.join(inner)}"
    if origin is tuple:
        if inner[-1] is Ellipsis:
            return f"a list, each entry {_described(inner[0])}"
        return f"a list of {len(inner)}: {', '.join(_described(part) for part in inner)}"
    if hint is type(None):
        return "nothing"
    return _WORDS.get(hint, getattr(hint, "__name__", str(hint)))
