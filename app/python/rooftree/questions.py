"""How do keyword arguments become a question of the command line?

They pass through the verb's own parser, so that names, ranges, defaults and errors are those of the
command. Leaves out what becomes of the answer (`rooftree.answer`).
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

from hardware_profiles.errors import InputError

if TYPE_CHECKING:
    from app.cli.output import Answered


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
_numbers = count()


def asked(verb: str, arguments: Sequence[Option], options: Mapping[str, Option]) -> Answered:
    """Ask a verb, without any output.

    Args:
        verb: words of the command, as `optimize` or `traces import`.
        arguments: what has no option's name.
        options: by option, underscores for dashes; None where it is not given.

    Raises:
        InputError: an option that the verb does not have, or a value that makes no sense.
        InfeasibleError: nothing fits or meets the limits.
    """
    from app.cli.main import HELP_OPTIONS, Misuse

    command = _command(verb)
    given = {name: value for name, value in options.items() if value is not None}
    spelled = [word for value in arguments for word in _values(value, several=True)]
    words = [word for name, value in given.items() for word in _words(command, verb, name, value)]
    silent = {"json": False, "quiet": True} | ({} if "out" in given else {"out": None})
    try:
        settings = {
            "help_option_names": list(HELP_OPTIONS)
        }  # a parser keeps those that it was first used with
        context = command.make_context(verb, [*words, "--", *spelled], **settings)
        context.params |= {name: value for name, value in silent.items() if name in context.params}
        found: Answered = command.invoke(context)
    except Misuse as error:
        message = error.format_message()  # type: ignore[attr-defined]
        raise InputError(message.removesuffix("."), key=f"rooftree {verb}") from None
    return found


@lru_cache
def _command(verb: str) -> Any:
    """The parser of a verb."""
    from app.cli.main import command

    found = command()
    for word in verb.split():
        found = found.commands[word]
    return found


def option_names(verb: str) -> list[str]:
    """Keyword arguments of a verb: its options with underscores for dashes.

    Example:
        >>> [name for name in option_names("replay") if name.startswith("d")]
        ['dtype', 'draft_dtype', 'device', 'draft_tokens']
    """
    spelled = [
        option for each in _command(verb).params for option in each.opts if option.startswith("--")
    ]
    return [option.removeprefix("--").replace("-", "_") for option in spelled]


def _words(command: Any, verb: str, name: str, value: Option) -> list[str]:
    """An option as the words that spell it."""
    option = "--" + name.replace("_", "-")
    known = next((each for each in command.params if option in each.opts), None)
    if known is None or name in ("json", "quiet"):
        near = get_close_matches(name, option_names(verb), n=3)
        meant = f"; did you mean {' or '.join(near)}?" if near else ""
        raise InputError(f"rooftree.{verb.replace(' ', '_')} has no such option{meant}", key=name)
    if known.is_flag:
        return [option] if value else known.secondary_opts[:1]
    if known.nargs > 1:
        return [option, *_values(value, several=True)]
    return [f"{option}={word}" for word in _values(value, several=known.multiple)]


def _values(value: Option, *, several: bool) -> list[str]:
    """A value as one word, or as many where an option is repeated; an answer as a file that holds
    it.
    """
    if isinstance(value, Mapping):
        return [
            f"{key}={item if isinstance(item, str) else json.dumps(item)}"
            for key, item in value.items()
        ]
    if isinstance(value, str | os.PathLike):
        return [os.fspath(value)]
    if isinstance(value, WrittenAnswer):
        return [str(_file(value))]
    if isinstance(value, Iterable):
        each = [word for item in value for word in _values(item, several=several)]
        return each if several else [",".join(each)]
    return [str(value)]


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
