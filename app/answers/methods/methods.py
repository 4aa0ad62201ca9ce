"""`methods`: methods that are known, listed, explained and cited, and what is priced of them; or a
method of the reader's own, begun and checked.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, ClassVar, get_args

from app.answers.answer import Answer, Column, Row, Table
from app.answers.methods.coverage import CoverageRow, coverage
from app.answers.methods.own import CheckedMethod, NewMethod, checked_method, new_method
from app.answers.methods.words import bibtex, described
from app.questions.field import LIST, inputs_of
from app.questions.methods import MethodsQuestion
from costmodel.answers.settings import stated_method
from costmodel.method import Group, Method
from costmodel.method_library import load_method, method_names
from hardware_profiles.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodRow(Row):
    """A published method in a list."""

    group: Annotated[str, Column("What it is listed under.")]
    slug: Annotated[str, Column("As `--method` takes it.")]
    title: Annotated[str, Column("Its name in the paper.")]
    year: Annotated[str, Column("Of the publication.")]
    read: Annotated[str, Column("The best source that was read.")]
    drafted_by: Annotated[str, Column("Who drafts, stage by stage.")]
    shape: Annotated[str, Column("What is verified together.")]
    verifier: Annotated[str, Column("The rule by which draft tokens stay.")]
    text: Annotated[str, Column("Whether the text is the target's own.")]


@dataclass(frozen=True, kw_only=True)
class Methods(Answer):
    """Published methods.

    Attributes:
        methods: the fields of every entry, and how exact its text is.
        entries: the same as they stand in the catalogue.
    """

    name: ClassVar[str] = "methods"
    unwritten: ClassVar[tuple[str, ...]] = ("entries",)
    methods: Sequence[Mapping[str, object]]
    entries: Sequence[Method]

    @property
    def own_rows(self) -> Sequence[Mapping[str, object]]:
        """The entries with all of their fields."""
        return self.methods

    def shown(self) -> Iterator[Table | str]:
        """The list by group, or all that is said of a single one."""
        if len(self.entries) == 1:
            yield from described(self.entries[0])
            return
        yield Table(
            title="Methods",
            rows=[_row(m) for m in sorted(self.entries, key=lambda m: (m.group, m.slug))],
            columns=list(MethodRow.__dataclass_fields__),
            once=["group"],
        )


@dataclass(frozen=True, kw_only=True)
class Coverage(Answer):
    """What the catalogue does for every published system.

    Attributes:
        counts: systems by status.
        coverage: a row for every system.
    """

    name: ClassVar[str] = "coverage"
    counts: Mapping[str, int]
    coverage: Sequence[CoverageRow]

    @property
    def own_rows(self) -> Sequence[CoverageRow]:
        """The systems."""
        return self.coverage

    def shown(self) -> Iterator[Table | str]:
        """The systems, and how many have each status."""
        yield Table(
            title="Published systems",
            rows=self.coverage,
            columns=list(CoverageRow.__dataclass_fields__),
            kind=CoverageRow,
        )
        counts = Counter(self.counts).most_common()
        yield ", ".join(f"{count} {status}" for status, count in counts)


@dataclass(frozen=True, kw_only=True, slots=True)
class CitationRow(Row):
    """How a method is cited."""

    slug: Annotated[str, Column("Of the method.")]
    bibtex: Annotated[str, Column("Its publication as a BibTeX entry.")]


@dataclass(frozen=True, kw_only=True)
class Citations(Answer):
    """Citations of methods.

    Attributes:
        bibtex: all of them, as the text of a .bib file.
        citations: one by one.
    """

    name: ClassVar[str] = "bibtex"
    unwritten: ClassVar[tuple[str, ...]] = ("citations",)
    bibtex: str
    citations: Sequence[CitationRow]

    @property
    def own_rows(self) -> Sequence[CitationRow]:
        """The citations."""
        return self.citations

    def shown(self) -> Iterator[str]:
        """The text."""
        yield self.bibtex


def answer(
    question: MethodsQuestion,
) -> Methods | Coverage | Citations | NewMethod | CheckedMethod:
    """The catalogue of methods or one of its entries, what it covers, or citations; a file for
    another one, or what a check of one says.

    Raises:
        InputError: there is no such method, or an option that needs one.
    """
    if question.name == LIST:
        question = replace(question, name=None)
    if question.name == "new":
        return new_method(question)
    if question.name == "check":
        return checked_method(question)
    if question.subject is not None:
        raise InputError(
            "a second word follows `new` and `check` alone; `rooftree methods NAME` shows one",
            key="methods",
            value=question.subject,
        )
    inputs = inputs_of(question)
    if question.coverage:
        rows = [row for row in coverage() if question.name in (None, row.slug)]
        return Coverage(inputs=inputs, counts=Counter(row.status for row in rows), coverage=rows)
    entries = _entries(question.name)
    if question.bibtex:
        citations = [CitationRow(slug=m.slug, bibtex=bibtex(m)) for m in entries]
        text = "\n\n".join(citation.bibtex for citation in citations)
        return Citations(inputs=inputs, bibtex=text, citations=citations)
    return Methods(inputs=inputs, methods=[_fields(m) for m in entries], entries=entries)


def _entries(name: str | None) -> list[Method]:
    """All entries, those of a group, or the one of a name.

    Raises:
        UnknownNameError: nothing has the name.
    """
    groups = [group.replace(" ", "-") for group in get_args(Group)]
    if name is not None and name not in groups:
        return [load_method(stated_method(name))]
    entries = map(load_method, method_names())
    return [method for method in entries if name in (None, method.group.replace(" ", "-"))]


def _fields(method: Method) -> dict[str, object]:
    """The fields of an entry, and what follows from them for the text."""
    values = {part.name: getattr(method, part.name) for part in fields(method)}
    return {**values, "exactness": method.exactness}


def _row(method: Method) -> MethodRow:
    return MethodRow(
        group=method.group,
        slug=method.slug,
        title=method.title,
        year=str(method.citation.year or ""),
        read=method.read if method.read != "abstract" else "abstract only",
        drafted_by=", ".join(stage.by for stage in method.stages) or "nobody",
        shape=_shape(method),
        verifier=method.verify.rule,
        text="not priced" if method.refusal else method.exactness,
    )


def _shape(method: Method) -> str:
    if method.refine is not None:
        return f"{method.shape.kind}, {method.refine.commit}"
    return method.shape.kind if method.advance is None else type(method.advance).__name__.lower()
