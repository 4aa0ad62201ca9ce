"""How does a page ask? By a verb's question, which its command line states in words.

Page, command line and Python ask through the same door, so that a page cannot say another number
than the command that it hands out. Leaves out what a state asks (`question`) and what a page shows of
an answer (`answers`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.answers.answer import Answer
from app.cli.door import answer_of, question_of
from app.dashboard.held import as_shown
from app.dashboard.state import asked_line
from app.questions.field import Question, fields_of
from costmodel.method_library import spelled

Value = str | int | float | bool | tuple[str, ...] | tuple[int, ...] | None
Values = Mapping[str, Value]  # by field, in the order of the command line


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A question of a verb as a page asks it.

    Args:
        verb: that answers.
        values: of its fields, in the order of the command line; None and empty stand for what is
            not stated, as 0 does where it is a number.
    """

    verb: type[Question]
    values: Values

    @property
    def line(self) -> str:
        """The command line that asks the same, without the server's folders."""
        named = {name: _with_files(name, value) for name, value in self._stated.items()}
        return as_shown(asked_line(self.verb, named))

    def question(self) -> Question:
        """The question, whose values are of the types of its fields.

        Raises:
            InputError: a value that makes no sense.
        """
        verb: Callable[..., Question] = self.verb
        fields = {field.name: field for field in fields_of(verb)}
        read: dict[str, Any] = {
            name: fields[name].read(value, key=fields[name].keyword)
            for name, value in self._stated.items()
        }
        return question_of(verb, read, silent=True)

    def answer(self) -> Answer:
        """What the verb answers; rows that cannot be run are marked.

        Raises:
            RooftreeError: the verb's own.
        """
        return answer_of(self.question())

    def changed(self, **values: Value) -> "Asked":
        """The same question with other values of some fields."""
        return Asked(verb=self.verb, values={**self.values, **values})

    @property
    def _stated(self) -> Values:
        return {name: value for name, value in self.values.items() if value}


def _with_files(name: str, value: Value) -> Value:
    """A value of a field as a command line states it: a method of the reader's own by its file."""
    if name not in ("method", "drafter"):
        return value
    if isinstance(value, tuple):
        return tuple(_with_file(str(word)) for word in value)
    return _with_file(value) if isinstance(value, str) else value


def _with_file(text: str) -> str:
    slug, separator, source = text.partition(":")
    file = spelled(slug)
    return f"{slug if file == slug else Path(file).name}{separator}{source}"
