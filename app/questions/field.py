"""What is a field of a question, and how is its value read?

A field stands once, as the annotation of what a verb takes:

    Users = Annotated[int | None, Field("Closed loop: users, each with one request.", Group.WORKLOAD)]

The command line makes an option of it, Python a keyword argument, `--help` a line in the panel of
its group. Leaves out which fields a verb takes (its signature) and asking it (`app.cli.door`).
"""

import inspect
import json
import math
import os
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from dataclasses import Field as DataclassField
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from app.questions.values import Reader
from hardware_profiles.errors import InputError


class Group(StrEnum):
    """The panel of `--help` in which a person looks for a field, in the order of the panels."""

    WORKLOAD = "Model and workload"
    HARDWARE = "Hardware and engine"
    FORMATS = "Number formats"
    DRAFTING = "Drafting"
    MASKED = "Masked blocks"
    LIMITS = "Limits"
    SEARCH = "What is compared"
    RUN = "How it is run"
    OUTPUT = "Output"


@dataclass(frozen=True, slots=True)
class Control:
    """What a page of the dashboard says of a field beside its meaning; it asks for one value, where
    an option may take several.

    Args:
        label: what stands beside the control.
        help: what a person reads who looks for more; Markdown.
        least: smallest number.
        most: largest number.
        step: of a slider; None: whole numbers in a short range have a slider, others are typed.
        ticks: numbers that are offered, of those within the range.
        empty: what stands for no value.
    """

    label: str
    help: str
    least: float = 0
    most: float = math.inf
    step: float | None = None
    ticks: tuple[float, ...] = ()
    empty: str = "default"


@dataclass(frozen=True, slots=True)
class Field:
    """One row of the table of fields; name, type and default are those of what it annotates.

    Args:
        meaning: what a person reads in help and documents.
        group: where a person looks for it.
        spelled: the option, where it is not the name with dashes, such as `--set`; the keyword of
            Python is the same word with underscores.
        also: a second spelling of the option.
        reads: how its text becomes the value, such as `LatencyLimit()`; None: as its type says.
        least: smallest number that makes sense, of a plain number; None: any.
        most: largest one.
        names: what is offered for completion: `models`, `devices`, `engines`, `methods`, `shapes`.
        placeholder: what stands for the value in help; empty: that of its reader, or its type.
        place: a folder or file to write, which is refused before any work where it cannot be.
        argument: stands on the command line without its name.
        control: of the dashboard, which makes no other field of it; None: no page asks for it.
    """

    meaning: str
    group: Group
    spelled: str = ""
    also: str = ""
    reads: Reader | None = None
    least: float | None = None
    most: float | None = None
    names: Literal["", "models", "devices", "engines", "methods", "shapes"] = ""
    placeholder: str = ""
    place: Literal["", "folder", "file"] = ""
    argument: bool = False
    control: Control | None = field(default=None, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedField:
    """A field of a verb.

    Attributes:
        name: of the parameter that takes it.
        hint: its type, with None where it may be.
        default: where nothing is stated; `inspect.Parameter.empty` where something must be.
        row: of the table.
    """

    name: str
    hint: Any
    default: Any
    row: Field

    @property
    def option(self) -> str:
        """The option of the command line, such as `--draft-tokens`."""
        return self.row.spelled.partition("/")[0] or f"--{self.name.replace('_', '-')}"

    @property
    def keyword(self) -> str:
        """The keyword argument of Python, such as `draft_tokens`."""
        return self.option.removeprefix("--").replace("-", "_")

    @property
    def type(self) -> Any:
        """Its type without None."""
        united = get_origin(self.hint) in (Union, types.UnionType)
        return next(
            kind
            for kind in (get_args(self.hint) if united else (self.hint,))
            if kind is not type(None)
        )

    @property
    def is_list(self) -> bool:
        """Whether it holds a list, so that the command line repeats its option."""
        return get_origin(self.type) is list

    def read(self, value: Any, *, key: str) -> Any:
        """A value that a door was told, as the field's own.

        Args:
            value: text of the command line; from Python also a number, a list where the command
                line takes commas, and a mapping where it takes KEY=VALUE.
            key: the field as the door spells it, for refusals.

        Raises:
            InputError: of another kind, or out of range.
        """
        try:
            return self._read(value)
        except InputError as error:
            if error.file is None or error.key is None:  # a key of a file says more
                error.key = key
            raise

    def _read(self, value: Any) -> Any:
        if self.type is bool:
            return bool(value)
        words = stated_words(value)
        if self.row.reads is not None:
            return self.row.reads.read(",".join(words))
        if get_origin(self.type) is tuple:
            kinds = get_args(self.type)
            if len(words) != len(kinds):
                raise InputError(f"must be {len(kinds)} values", value=value)
            return tuple(self._one(kind, word) for kind, word in zip(kinds, words, strict=True))
        if self.is_list:
            (kind,) = get_args(self.type)
            return [self._one(kind, word) for word in words]
        return self._one(self.type, ",".join(words))

    def _one(self, kind: Any, word: str) -> Any:
        """A word as a text, a path, or a number within its range."""
        if kind in (str, Path):
            return kind(word)
        try:
            number = kind(word)
        except ValueError:
            rule = "must be a whole number" if kind is int else "must be a number"
            raise InputError(rule, value=word) from None
        least = -math.inf if self.row.least is None else self.row.least
        most = math.inf if self.row.most is None else self.row.most
        if not least <= number <= most:
            rule = f"at least {least}" if math.isinf(most) else f"in {least}..{most}"
            raise InputError(f"must be {rule}", value=number)
        return number

    def written(self, value: Any) -> Any:
        """A value of the field as answers repeat it: what the command line takes, or a number."""
        if self.row.reads is None or value is None:
            return value
        return self.row.reads.written(value)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of one verb: a record whose attributes are fields.

    A subclass inherits the groups of fields that it shares with other verbs
    (`app.questions.groups`) and adds its own; its docstring is the first line of `--help`.

    Attributes:
        answered_by: module with `answer(question)`, which is loaded when the question is asked.
        begins: the fields that `--help` shows, by name; `--help-all` shows the others too. Empty:
            all, where they are few.
        stated: names of the fields that a person stated, as opposed to defaults.
    """

    answered_by: ClassVar[str]
    begins: ClassVar[tuple[str, ...]] = ()
    stated: frozenset[str] = frozenset()

    @property
    def values(self) -> dict[str, Any]:
        """The value of every field, by name."""
        return {field.name: getattr(self, field.name) for field in _own_fields(self)}

    @property
    def stated_values(self) -> dict[str, Any]:
        """The values that a person stated, by name."""
        return {name: value for name, value in self.values.items() if name in self.stated}


LIST = "list"
"""What may stand for no name where a verb lists what it shows by name."""
_OUTPUT_FIELDS = ("out", "csv", "json", "plot", "quiet", "resume")


def inputs_of(question: Question, **resolved: Any) -> dict[str, Any]:
    """What was asked, as an answer repeats it: the value of every field by its keyword.

    Args:
        question: whose fields on where the answer goes are left out.
        resolved: values by keyword that say more than what was stated, such as the device that a
            configuration file names.
    """
    inputs = {
        field.keyword: field.written(getattr(question, field.name))
        for field in _own_fields(question)
        if field.name not in _OUTPUT_FIELDS
    }
    return {name: None if value == "" else value for name, value in inputs.items()} | resolved


def refuse(question: Question, rules: Mapping[str, str]) -> None:
    """Refuse fields that have no meaning in what is asked.

    Args:
        question: what is asked.
        rules: why, by the name of a field.

    Raises:
        InputError: one of them is stated.
    """
    for named in _own_fields(question):
        if named.name in rules and named.name in question.stated:
            value = named.written(getattr(question, named.name))
            shown = value if isinstance(value, str | float | int) else ",".join(stated_words(value))
            raise InputError(rules[named.name], key=named.option, value=shown)


def begins_of(verb: Callable[..., Question]) -> tuple[str, ...]:
    """The fields that a verb's help begins with; empty where it shows all."""
    names: tuple[str, ...] = getattr(verb, "begins", ())
    return names


@lru_cache
def fields_of(record: Callable[..., Any]) -> tuple[NamedField, ...]:
    """The fields of a question or another record, those of the groups that it inherits in their place.

    Args:
        record: a dataclass whose attributes are annotated with rows of the table.

    Raises:
        TypeError: an attribute without one.
    """
    assert isinstance(record, type)  # what is kept by a class must be typed as something hashable
    hints = get_type_hints(record, include_extras=True)
    return tuple(
        _named(part.name, hints[part.name], _default(part))
        for part in fields(record)
        if part.name != "stated"
    )


def _own_fields(question: Question) -> tuple[NamedField, ...]:
    kind: Callable[..., Any] = type(question)
    return fields_of(kind)


def _default(part: "DataclassField[Any]") -> Any:
    return inspect.Parameter.empty if part.default is MISSING else part.default


def row_of(hint: Any, name: str = "the type") -> Field:
    """The row of the table with which a type is annotated.

    Args:
        hint: the annotated type.
        name: of what has that type, for the error.

    Raises:
        TypeError: there is none.
    """
    row = next((part for part in get_args(hint)[1:] if isinstance(part, Field)), None)
    if get_origin(hint) is not Annotated or row is None:
        raise TypeError(f"{name} has no Field")
    return row


def _named(name: str, hint: Any, default: Any) -> NamedField:
    row = row_of(hint, name)
    return NamedField(name=name, hint=get_args(hint)[0], default=default, row=row)


def stated_words(value: Any) -> list[str]:
    """A value of Python as words: one, one for each entry of a list, or `KEY=VALUE` of a mapping."""
    if isinstance(value, str | os.PathLike):
        return [os.fspath(value)]
    if isinstance(value, Mapping):
        return [
            f"{key}={entry if isinstance(entry, str) else json.dumps(entry)}"
            for key, entry in value.items()
        ]
    if isinstance(value, Iterable):
        return [word for entry in value for word in stated_words(entry)]
    return [str(value)]
