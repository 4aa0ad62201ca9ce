"""Copies of a record that differ from it in one field, and whether any question notices.

What an entry states is executed, or it would be a comment: change a field, and some answer moves.
"""

from collections import Counter, defaultdict
from dataclasses import MISSING, fields, is_dataclass, replace
from itertools import chain
from typing import Literal, get_args, get_origin, get_type_hints

from hardware_profiles.errors import InputError


def changed_fields(record, *, prose=frozenset(), words=None, path=""):
    """(path, changed records) of every field that a record sets, those of its parts included.

    Values that the record refuses are left out.

    Args:
        record: whose fields are changed.
        prose: names of fields, of parts too, that are for readers.
        words: values that text may have, by name of its field; other text is changed as it is.
        path: of the record in another.
    """
    words = words or {}
    hints = get_type_hints(type(record))
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name in prose or value == default_of(field):
            continue
        if field.name in words:
            options = [word for word in words[field.name] if word != value]
            changes = [(f"{path}{field.name}", options)]
        else:
            changes = changed_values(
                value, hints[field.name], f"{path}{field.name}", prose=prose, words=words
            )
        for place, values in changes:
            copies = [copy_with(record, field.name, changed) for changed in values]
            yield place, [copy for copy in copies if copy is not None]


def default_of(field):
    return field.default_factory() if field.default_factory is not MISSING else field.default


def changed_values(value, hint, path, *, prose, words):
    """(path, values) that a field could have instead; of a record, tuple or mapping by its
    parts."""
    if is_dataclass(value):
        yield from changed_fields(value, prose=prose, words=words, path=f"{path}.")
    elif isinstance(value, tuple) and value and is_dataclass(value[0]):
        for index, part in enumerate(value):
            for place, parts in changed_fields(
                part, prose=prose, words=words, path=f"{path}[{index}]."
            ):
                yield place, [(*value[:index], new, *value[index + 1 :]) for new in parts]
        yield path, [value[:-1]]
    elif isinstance(value, tuple):
        yield path, [value[:-1], (*value, value[-1]), ()]
    elif isinstance(value, frozenset):
        yield path, [frozenset()]
    elif isinstance(value, dict):
        for key, part in value.items():
            for place, parts in changed_values(
                part, type(part), f"{path}[{key}]", prose=prose, words=words
            ):
                yield place, [{**value, key: new} for new in parts]
    else:
        options = [
            other
            for part in (get_args(hint) or (hint,))
            if part is not type(None)
            for other in other_values(value, part)
        ]
        yield path, other_values(value, hint) or options


def other_values(value, hint):
    """Values that a plain field could have instead."""
    if get_origin(hint) is Literal:
        return [other for other in get_args(hint) if other != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [other for other in (value + 1, value - 1, value // 2, 1, 0) if other != value]
    if isinstance(value, float):
        others = (value * 0.5, value * 2.0, value + 1.0, 0.0, 1.0)
        return [other for other in others if other != value]
    if isinstance(value, str):
        return [value + "x", ""]
    return []


def copy_with(record, name, value):
    """The record with another value of a field; None where it is refused."""
    try:
        return replace(record, **{name: value})
    except InputError:
        return None


def no_answer():
    """The answer to a question that does not arise for a record."""


TELLING = defaultdict(Counter)
"""By field: how often the answer to a question moved with it, in records before; that question
comes first in others."""


def fields_that_move_nothing(record, questions_of, answer, *, prose=frozenset(), words=None):
    """Paths of fields that a record sets and whose other values leave every answer as it was.

    Args:
        record: whose fields are changed.
        questions_of: maps a record to questions by name, cheap ones first.
        answer: of a record and one of its questions.
        prose: as in `changed_fields`.
        words: the same.
    """
    before = {}

    def moves(name, copy, questions):
        if name not in before:
            before[name] = answer(record, questions_of(record).get(name, no_answer))
        return before[name] != answer(copy, questions.get(name, no_answer))

    still = []
    for path, copies in changed_fields(record, prose=prose, words=words):
        if not copies:
            continue  # every other value is refused when the record is made
        questions = [questions_of(copy) for copy in copies]
        names = dict.fromkeys(chain(questions_of(record), *questions))
        for name in sorted(names, key=lambda name: -TELLING[path][name]):
            if any(moves(name, *pair) for pair in zip(copies, questions, strict=True)):
                TELLING[path][name] += 1
                break
        else:
            still.append(path)
    return still
