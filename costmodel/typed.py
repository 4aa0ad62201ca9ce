"""Does every field of a record hold what its annotation says, and does a JSON object have its keys?

Frozen records that are read from files are checked here, field by field, with the key that is wrong
named; records within records are read and written as tables within tables. Leaves out which values
make sense together (the record's own checks).
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from hardware_profiles.errors import InputError, UnknownNameError, joined, nearest_names, separate

KIND = "kind"
"""The key that says which record a table is, where a field may hold one of several."""
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
        _require_type(getattr(record, name), hint, _joined(under, name))


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """How records are written in a file, beyond what their annotations say.

    Args:
        kinds: the word under `kind` for each of several records that a field may hold.
        ranges: least and greatest number by field of a record, both of them allowed.
    """

    kinds: Mapping[str, type[Any]]
    ranges: Mapping[type[Any], Mapping[str, tuple[float, float]]]

    def records_of(self, hint: Any) -> list[Any]:
        """The records that a field of this type may hold: its own, or of a base those that derive
        from it.
        """
        if is_dataclass(hint):
            return [hint]
        if not isinstance(hint, type) or hint in (object, Any):
            return []
        return [kind for kind in self.kinds.values() if issubclass(kind, hint)]


def read_record(kind: type[Any], document: object, form: Form, *, under: str = "") -> Any:
    """A record with all records within it, as a table of a file states it.

    Args:
        kind: the dataclass.
        document: what stands in the file.
        form: of the file.
        under: key of the table in the file.

    Raises:
        InputError: a key that is missing or unknown, a value of another type or out of range; all
            that is wrong within known keys is named.
    """
    known: Any = kind  # as what is kept by record takes it
    stated, hints = known_fields(kind, document, under=under), _hints(known)
    values: dict[str, Any] = {}
    mistakes = [
        InputError("is missing", key=_joined(under, field.name))
        for field in fields(kind)
        if field.name not in stated and not _has_default(field)
    ]
    for name, value in stated.items():
        key = _joined(under, name)
        try:
            values[name] = _read_value(value, hints[name], form, key)
            _require_range(value, form.ranges.get(kind, {}).get(name), key)
        except InputError as error:
            mistakes += separate(error)
    if mistakes:
        raise joined(mistakes)
    try:
        return kind(**values)
    except InputError as error:
        # records name a field of theirs as NAME.FIELD, whatever key they stand under
        raise InputError(
            error.message, key=_joined(under, str(error.key).rpartition(".")[2]), value=error.value
        ) from None


def record_document(record: Any, form: Form) -> dict[str, Any]:
    """The table that `read_record` reads a record from: the fields that are not at their defaults.

    Args:
        record: the dataclass.
        form: of the file.
    """
    words = {kind: word for word, kind in form.kinds.items()}
    kind = {KIND: words[type(record)]} if type(record) in words else {}
    stated = {field.name: getattr(record, field.name) for field in fields(record)}
    usual = {field.name: default_of(field) for field in fields(record)}
    return kind | {
        name: _document(value, form) for name, value in stated.items() if value != usual[name]
    }


def default_of(field: Field[Any]) -> Any:
    """The default of a dataclass's field; `MISSING` where it has none."""
    return field.default if field.default_factory is MISSING else field.default_factory()


def _has_default(field: Field[Any]) -> bool:
    return default_of(field) is not MISSING


def _document(value: Any, form: Form) -> Any:
    if is_dataclass(value):
        return record_document(value, form)
    if isinstance(value, tuple):
        return [_document(item, form) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


def _read_value(value: Any, hint: Any, form: Form, key: str) -> Any:
    """A value of a file as its field holds it."""
    origin, inner = _parts(hint)
    kinds = [kind for part in (inner or (hint,)) for kind in form.records_of(part)]
    if origin is tuple and _holds_records(inner[0]):
        if not isinstance(value, tuple):
            raise InputError("must be a list of tables", key=key, value=value)
        return _read_list(value, inner[0], form, key)
    if kinds:
        return _read_kind(kinds, value, form, key)
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise InputError("must be a table of keys and values", key=key, value=value)
        for name, part in value.items():
            _require_type(part, inner[1], _joined(key, name))
        return value
    _require_type(value, hint, key)
    return value


def _read_list(values: tuple[Any, ...], hint: Any, form: Form, key: str) -> tuple[Any, ...]:
    records: list[Any] = []
    mistakes: list[InputError] = []
    for place, value in enumerate(values):
        try:
            records.append(_read_value(value, hint, form, f"{key}[{place}]"))
        except InputError as error:
            mistakes += separate(error)
    if mistakes:
        raise joined(mistakes)
    return tuple(records)


def _read_kind(kinds: list[Any], value: Any, form: Form, key: str) -> Any:
    """One of several records, told by the word under `kind`; a single one needs no word."""
    if len(kinds) == 1:
        return read_record(kinds[0], value, form, under=key)
    if not isinstance(value, Mapping):
        raise InputError("must be a table of keys and values", key=key, value=value)
    named = {word: kind for word, kind in form.kinds.items() if kind in kinds}
    word = value.get(KIND)
    if word is None:
        raise InputError(f"must be one of {', '.join(named)}", key=_joined(key, KIND))
    if not isinstance(word, str) or word not in named:
        raise UnknownNameError(KIND, str(word), named, key=_joined(key, KIND))
    rest = {name: part for name, part in value.items() if name != KIND}
    return read_record(named[word], rest, form, under=key)


def _holds_records(hint: Any) -> bool:
    return any(is_dataclass(part) for part in (get_args(hint) or (hint,)))


def _require_type(value: object, hint: Any, key: str) -> None:
    if not _holds(value, hint):
        raise InputError(f"must be {_described(hint)}", key=key, value=value)


def _require_range(value: Any, span: tuple[float, float] | None, key: str) -> None:
    if span is not None and not span[0] <= value <= span[1]:
        raise InputError(f"must lie in [{span[0]:g}, {span[1]:g}]", key=key, value=value)


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
        return isinstance(value, int | float) and type(value) is not bool and _is_finite(value)
    if hint in (int, str, bool):
        return type(value) is hint
    return isinstance(value, origin or hint)


def _is_finite(value: float) -> bool:
    return abs(value) <= sys.float_info.max  # a whole number of a file may be too large for a float


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
