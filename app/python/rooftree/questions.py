"""How do keyword arguments become a question?

Names, types, ranges and defaults are those of the verb's fields, from which the command line is made
too. Leaves out what becomes of the answer (`rooftree.answer`).
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from app.cli.door import ask
from app.cli.main import VERBS
from app.questions.field import NamedField, fields_of, stated_words
from hardware_profiles.errors import InputError, RooftreeError

if TYPE_CHECKING:
    from app.answers.answer import Answer


@runtime_checkable
class WrittenAnswer(Protocol):
    """An answer, which stands where a question takes a file."""

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints."""


Option = (
    str
    | float
    | bool
    | os.PathLike[str]
    | WrittenAnswer
    | Iterable[str | float | os.PathLike[str]]
    | Mapping[str, Any]
    | None
)
_SCREEN_OPTIONS = ("json", "quiet")  # options that say what is printed
_numbers = count()


def ask_verb(verb: str, arguments: Sequence[Option], options: Mapping[str, Option]) -> Answer:
    """Ask a verb, without any output.

    Args:
        verb: its words, as `optimize` or `traces import`.
        arguments: what has no option's name.
        options: by option, underscores for dashes; None where it is not given.

    Raises:
        InputError: an option that the verb does not have, or a value that makes no sense.
        InfeasibleError: nothing fits or meets the limits.
    """
    table = {f.keyword: f for f in fields_of(VERBS[verb])}
    table |= {f.row.also.removeprefix("--"): f for f in table.values() if f.row.also}
    values: dict[str, Any] = {}
    for name, value in options.items():
        if value is not None:
            field = _named_field(verb, name, table)
            values[field.name] = field.read(_readable(value), key=name)
    unnamed = [word for value in arguments for word in stated_words(_readable(value))]
    for field in fields_of(VERBS[verb]):
        if field.row.argument and unnamed:
            here, unnamed = (unnamed, []) if field.is_list else (unnamed[:1], unnamed[1:])
            values[field.name] = field.read(here, key=field.keyword)
    if unnamed:
        raise InputError("takes no further argument", key=f"rooftree {verb}", value=unnamed[0])
    try:
        answer: Answer = ask(VERBS[verb], values, silent=True)
    except RooftreeError as error:
        error.key = _as_keyword(error.key, table)
        raise
    return answer


def _as_keyword(key: str | None, table: Mapping[str, NamedField]) -> str | None:
    """What a refusal is about, an option of the command line as the keyword that Python has."""
    keyword = (key or "").removeprefix("--").replace("-", "_")
    return keyword if key != keyword and keyword in table else key


def _named_field(verb: str, name: str, table: Mapping[str, NamedField]) -> NamedField:
    """The field that a keyword names.

    Raises:
        InputError: there is none, with those that are spelled nearly so.
    """
    if name in table and name not in _SCREEN_OPTIONS:
        return table[name]
    near = get_close_matches(name, option_names(verb), n=3)
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    raise InputError(f"rooftree.{verb.replace(' ', '_')} has no such option{meant}", key=name)


def option_names(verb: str) -> list[str]:
    """Keyword arguments of a verb: its options with underscores for dashes.

    Example:
        >>> [name for name in option_names("replay") if name.startswith("d")]
        ['dtype', 'draft_dtype', 'device', 'draft_tokens']
    """
    return [f.keyword for f in fields_of(VERBS[verb]) if not f.row.argument]


def _readable(value: Option) -> Any:
    """A value as fields read it: an answer as a file that holds it, also within a list."""
    if isinstance(value, str | os.PathLike | Mapping):
        return value
    if isinstance(value, WrittenAnswer):
        return _file(value)
    if isinstance(value, Iterable):
        return [_readable(entry) for entry in value]
    return value


def listed(lists: Option) -> Option:
    """Lists by key as a file that holds them; a file stays."""
    if not isinstance(lists, Mapping):
        return lists
    return _written(lists)


def _file(answer: WrittenAnswer) -> Path:
    return _written(answer.to_json())


def _written(content: Mapping[str, Any]) -> Path:
    path = Path(scratch().name) / f"answer-{next(_numbers)}.json"
    path.write_text(json.dumps(content, default=_plain), encoding="utf-8")
    return path


def _plain(value: Any) -> Any:
    """A path as text, any other sequence as a list."""
    return os.fspath(value) if isinstance(value, os.PathLike) else list(value)


@lru_cache
def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder for what has no place of its own; it goes when Python ends."""
    return tempfile.TemporaryDirectory(prefix="rooftree-")
