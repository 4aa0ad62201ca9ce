"""`methods new` and `methods check`: a method of the reader's own, begun from a relative, and whether
all that it states is priced.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from app.answers.answer import Answer, Column, Row, Table
from app.answers.methods.conformance import moved_fields, price_checks
from app.answers.methods.words import explained
from app.questions.field import inputs_of
from app.questions.methods import MethodsQuestion
from costmodel.answers.settings import require_known_engines
from costmodel.method import Method
from costmodel.method_library import load_method, require_priced
from costmodel.method_rules import contradictions
from costmodel.method_template import method_template
from hardware_profiles.errors import InputError, joined
from hardware_profiles.whole_file import whole_file


@dataclass(frozen=True, kw_only=True)
class NewMethod(Answer):
    """A method's file to edit.

    Attributes:
        template: its text.
        file: where it was written; None: nowhere.
    """

    name: ClassVar[str] = ""
    is_written: ClassVar[bool] = True
    template: str
    file: Path | None

    @property
    def own_rows(self) -> Sequence[Row]:
        """None: it is a text."""
        return ()

    def shown(self) -> Iterator[str]:
        """The text, or where it was written and what to do with it."""
        if self.file is None:
            yield self.template.rstrip()
        else:
            yield (
                f"wrote {self.file}; edit it, then rooftree methods check {self.file}, and ask about"
                f" it as --method {self.file} or --drafter {self.file}:0.8,0.6"
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckRow(Row):
    """One thing that was checked of a method."""

    checked: Annotated[str, Column("A field that was changed, or what must be true of a price.")]
    holds: Annotated[bool, Column("Whether something moved, or whether it is true.")]
    moved: Annotated[str, Column("What moved, or the predicted speedup.")]

    @property
    def verdict(self) -> Annotated[str, Column("In a word.", of=("holds",))]:
        """`holds` or `fails`."""
        return "holds" if self.holds else "fails"


@dataclass(frozen=True, kw_only=True)
class CheckedMethod(Answer):
    """What a check of a method says.

    Attributes:
        method: its fields.
        checks: a row for each thing that was checked.
    """

    name: ClassVar[str] = "check"
    unwritten: ClassVar[tuple[str, ...]] = ("method",)
    method: Method
    checks: Sequence[CheckRow]

    @property
    def own_rows(self) -> Sequence[CheckRow]:
        """The checks."""
        return self.checks

    def shown(self) -> Iterator[Table | str]:
        """What the method does in words, and the checks."""
        yield from explained(self.method)
        yield Table(
            title=f"Checks of {self.method.slug}",
            rows=self.checks,
            columns=["checked", "verdict", "moved"],
        )
        failed = [row.checked for row in self.checks if not row.holds]
        if not failed:
            yield f"all {len(self.checks)} checks hold"

    def require(self) -> None:
        """End where something that was checked does not hold.

        Raises:
            InputError: naming it.
        """
        if failed := [row.checked for row in self.checks if not row.holds]:
            rule = f"does not hold of {len(failed)} of {len(self.checks)}: {', '.join(failed)}"
            raise InputError(rule, key="check", value=self.inputs["subject"])


def new_method(question: MethodsQuestion) -> NewMethod:
    """A method's file to edit, on the screen or where it is to stand; a file that is there is never
    replaced.

    Raises:
        InputError: no name, one that no method can have, or a file that exists already.
    """
    if question.subject is None:
        raise InputError("the new method needs a name: rooftree methods new NAME")
    template, file = method_template(question.subject, question.like), question.out
    if file is not None:
        if file.exists():
            raise InputError("exists already; name another file", file=file, key="--out")
        with whole_file(file) as part:
            part.write_text(template, encoding="utf-8")
    return NewMethod(inputs=inputs_of(question), template=template, file=file)


def checked_method(question: MethodsQuestion) -> CheckedMethod:
    """What a check of a method says: its fields go together, its prices are those of a way of
    decoding, and every field that it sets moves something.

    Raises:
        InputError: no method, or one that is not priced.
    """
    if question.subject is None:
        raise InputError("the check needs a method: rooftree methods check FILE.toml")
    method = load_method(question.subject)
    require_priced(method)
    require_known_engines(method, question.subject)
    if wrong := contradictions(method):
        raise joined(wrong)
    checks = [
        CheckRow(checked=check.rule, holds=check.holds, moved=f"{check.speedup:.3g} times as fast")
        for check in price_checks(method)
    ]
    checks += [
        CheckRow(checked=field, holds=question is not None, moved=question or "nothing")
        for field, question in moved_fields(method).items()
    ]
    return CheckedMethod(inputs=inputs_of(question), method=method, checks=checks)
