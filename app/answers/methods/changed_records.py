"""Does an answer notice when one field of a record changes?

What an entry states is executed, or it would be a comment: change a field, and some answer moves.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from itertools import chain
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from costmodel.typed import default_of
from hardware_profiles.errors import InputError

Record = TypeVar("Record")
Ask = Callable[[], Any]
_NO_WORDS: Mapping[str, Sequence[str]] = {}


def changed_fields(
    record: Any,
    *,
    prose: Collection[str] = frozenset(),
    words: Mapping[str, Sequence[str]] = _NO_WORDS,
    path: str = "",
) -> Iterator[tuple[str, list[Any]]]:
    """(path, changed records) of every field that a record sets, those of its parts included.

    Values that the record refuses are left out.

    Args:
        record: whose fields are changed.
        prose: names of fields, of parts too, that are for readers.
        words: values that text may have, by name of its field; other text is changed as it is.
        path: of the record in another.
    """
    hints = get_type_hints(type(record))
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name in prose or value == default_of(field):
            continue
        place = f"{path}{field.name}"
        if field.name in words:
            changes = [(place, [word for word in words[field.name] if word != value])]
        else:
            changes = list(changed_values(value, hints[field.name], place, prose, words))
        for changed_place, values in changes:
            copies = [copy_with(record, field.name, changed) for changed in values]
            yield changed_place, [copy for copy in copies if copy is not None]


def changed_values(
    value: Any,
    hint: Any,
    path: str,
    prose: Collection[str] = frozenset(),
    words: Mapping[str, Sequence[str]] = _NO_WORDS,
) -> Iterator[tuple[str, list[Any]]]:
    """(path, values) that a field could have instead; of a record, tuple or mapping by its
    parts.
    """
    if is_dataclass(value):
        yield from changed_fields(value, prose=prose, words=words, path=f"{path}.")
    elif isinstance(value, tuple) and (kinds := _kinds_of_parts(value, hint)):
        for index, (part, kind) in enumerate(zip(value, kinds, strict=True)):
            for place, parts in changed_values(part, kind, f"{path}[{index}]", prose, words):
                yield place, [(*value[:index], new, *value[index + 1 :]) for new in parts]
        if is_dataclass(value[0]):
            yield path, [value[:-1]]
    elif isinstance(value, tuple):
        yield path, [value[:-1], (*value, value[-1]), ()]
    elif isinstance(value, frozenset):
        yield path, [frozenset()]
    elif isinstance(value, dict):
        for key, part in value.items():
            for place, parts in changed_values(part, type(part), f"{path}[{key}]", prose, words):
                yield place, [{**value, key: new} for new in parts]
    else:
        yield path, other_values(value, hint) or _values_of_parts(value, hint)


def _values_of_parts(value: Any, hint: Any) -> list[Any]:
    """Values that a plain field of one of several types could have instead."""
    parts = [part for part in (get_args(hint) or (hint,)) if part is not type(None)]
    return [other for part in parts for other in other_values(value, part)]


def _kinds_of_parts(value: tuple[Any, ...], hint: Any) -> tuple[Any, ...]:
    """Types of a tuple's parts, where it holds records or is of a fixed length; else empty."""
    if value and is_dataclass(value[0]):
        return tuple(map(type, value))
    fixed = get_origin(hint) is tuple and ... not in get_args(hint)
    return get_args(hint) if fixed else ()


def other_values(value: Any, hint: Any) -> list[Any]:
    """Values that a plain field could have instead."""
    if get_origin(hint) is Literal:
        return [other for other in get_args(hint) if other != value]
    others: tuple[Any, ...] = ()
    if isinstance(value, bool):
        others = (not value,)
    elif isinstance(value, int):
        others = (value + 1, value - 1, value // 2, 1, 0)
    elif isinstance(value, float):
        others = (value * 0.5, value * 2.0, value + 1.0, 0.0, 1.0)
    elif isinstance(value, str):
        others = (value + "x", "")
    return [other for other in others if other != value]


def copy_with(record: Record, name: str, value: Any) -> Record | None:
    """The record with another value of a field; None where it is refused."""
    copied: Any = record
    try:
        changed: Record = replace(copied, **{name: value})
    except InputError:
        return None
    return changed


def no_answer() -> None:
    """The answer to a question that does not arise for a record."""


_TELLING: Mapping[str, Counter[str]] = defaultdict(Counter)
"""By field: how often the answer to a question moved with it, in records before; that question
comes first in others."""


def moving_questions(
    record: Record,
    questions_of: Callable[[Record], Mapping[str, Ask]],
    answer: Callable[[Record, Ask], Any],
    *,
    prose: Collection[str] = frozenset(),
    words: Mapping[str, Sequence[str]] = _NO_WORDS,
) -> dict[str, str | None]:
    """By field that a record sets: a question whose answer another value moves; None where every
    answer stays.

    Args:
        record: whose fields are changed; those of which every other value is refused are left out.
        questions_of: maps a record to questions by name, cheap ones first.
        answer: of a record and one of its questions.
        prose: as in `changed_fields`.
        words: the same.
    """
    before: dict[str, Any] = {}

    def moves(name: str, copy: Record, questions: Mapping[str, Ask]) -> bool:
        if name not in before:
            before[name] = answer(record, questions_of(record).get(name, no_answer))
        return bool(before[name] != answer(copy, questions.get(name, no_answer)))

    moved: dict[str, str | None] = {}
    for path, copies in changed_fields(record, prose=prose, words=words):
        if not copies:
            continue  # every other value is refused when the record is made
        questions = [questions_of(copy) for copy in copies]
        names = dict.fromkeys(chain(questions_of(record), *questions))
        moved[path] = None
        for name in sorted(names, key=lambda name: -_TELLING[path][name]):
            if any(moves(name, *pair) for pair in zip(copies, questions, strict=True)):
                _TELLING[path][name] += 1
                moved[path] = name
                break
    return moved
