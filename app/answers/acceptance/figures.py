"""Published figures as rows, and those that filters leave."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Annotated, Self

from app.answers.answer import Column, Row
from app.questions.acceptance import PublishedFilters
from app.questions.groups import values_in
from costmodel.acceptance_library import PublishedAcceptance, published
from costmodel.answers.settings import stated_method
from hardware_profiles.errors import InputError, UnknownNameError

SHOWN_LENGTHS = (1, 2, 3, 5, 8)
TYPICAL_LENGTH = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedFigure(Row):
    """What somebody measured of a drafter on a target, with where it stands."""

    method: Annotated[str, Column("Method slug.")]
    target: Annotated[str, Column("Shipped model, or the published name in that form.")]
    published_target: Annotated[str, Column("Target as the source names it.")]
    drafter: Annotated[str, Column("Drafter as the source names it; empty: it does not.")]
    data_set: Annotated[str, Column("Prompts, as the source names them.")]
    temperature: Annotated[float | None, Column("Of sampling; None where it is not stated.")]
    tokens_per_step: Annotated[
        Mapping[int, float], Column("Mean per step by draft tokens K, the bonus token included.")
    ]
    rates: Annotated[Sequence[float], Column("Share of steps that keep the first d draft tokens.")]
    counted: Annotated[str, Column("`steps`, or `proposals`: steps with a proposal alone.")]
    shape: Annotated[str, Column("What a step verifies.")]
    engine: Annotated[str, Column("What ran it; empty: not stated.")]
    source: Annotated[str, Column("Repository, paper, model card or thread.")]
    place: Annotated[str, Column("Table, file or comment within the source.")]
    licence: Annotated[str, Column("Of the table; `fact`: a single number is quoted.")]
    checked: Annotated[str, Column("Day on which it was compared with its source.")]
    note: Annotated[str, Column("What a reader of the number should know.")]
    draft_tokens: Annotated[int, Column("Most draft tokens that were measured.", "K")]
    bonus_token_included: Annotated[bool, Column("The bonus token is counted.")] = True
    by_draft_tokens: Annotated[
        Mapping[int, float] | None, Column("Tokens per step of a chain, at every K up to that.")
    ] = None

    @classmethod
    def of(cls, entry: PublishedAcceptance, *, has_curve: bool = False) -> Self:
        """The row of an entry of the library.

        Args:
            entry: the entry.
            has_curve: with tokens per step at every length; chains alone have them.
        """
        values = {field.name: getattr(entry, field.name) for field in fields(entry)}
        lengths = range(1, entry.draft_tokens + 1)
        return cls(
            **values | {"tokens_per_step": dict(sorted(entry.tokens_per_step.items()))},
            draft_tokens=entry.draft_tokens,
            by_draft_tokens={k: entry.mean_at(k) for k in lengths} if has_curve else None,
        )

    @property
    def mean_tokens_per_step(
        self,
    ) -> Annotated[float, Column("At that K.", "tokens/step", decimals=2)]:
        """Tokens per step at the most draft tokens measured."""
        return self.tokens_per_step.get(self.draft_tokens, 1.0 + sum(self.rates))

    @property
    def temperature_words(self) -> Annotated[str, Column("Temperature.", "T", of=("temperature",))]:
        """The temperature, or that it is not stated."""
        return "?" if self.temperature is None else f"{self.temperature:g}"

    @property
    def shape_words(self) -> Annotated[str, Column("Shape.", "shape", of=("shape",))]:
        """The shape in words."""
        return self.shape.replace("_", " ")

    @property
    def page(self) -> Annotated[str, Column("Source.", "source", of=("source",))]:
        """The source without the site that hosts it."""
        return self.source.removeprefix("github.com/").removeprefix("huggingface.co/")

    @property
    def drafter_name(self) -> Annotated[str, Column("Drafter.", "drafter", of=("drafter",))]:
        """The drafter without its owner."""
        return self.drafter.rsplit("/", 1)[-1]

    @property
    def shown_means(self) -> Annotated[list[float | None], Column("By K.", decimals=2)]:
        """Tokens per step at the lengths that tables show."""
        return [(self.by_draft_tokens or {}).get(k) for k in SHOWN_LENGTHS]


def published_entries(question: PublishedFilters) -> tuple[PublishedAcceptance, ...]:
    """The figures that filters leave.

    Raises:
        InputError: none is left.
        UnknownNameError: a method without published acceptance.
    """
    slug = None if question.method is None else published_method(question.method)
    entries = published(slug, question.model, question.data_set, question.temperature)
    if not entries:
        filters = ", ".join(
            f"{name.replace('_', '-')} {getattr(question, name)}"
            for name in ("method", "model", "data_set", "temperature")
            if getattr(question, name) is not None
        )
        raise InputError(
            "nothing was published of that; see `rooftree acceptance list`", key=filters
        )
    return entries


def has_filter(question: PublishedFilters) -> bool:
    """Whether anything narrows the figures down."""
    return any(value is not None for value in values_in(PublishedFilters, question).values())


def published_method(name: str) -> str:
    """The slug of a method with published acceptance.

    Raises:
        UnknownNameError: there is none of that name.
    """
    slug = name.casefold().replace("_", "-")
    methods = dict.fromkeys(entry.method for entry in published())
    if slug not in methods:
        with suppress(UnknownNameError):
            slug = stated_method(name)
    if slug not in methods:
        raise UnknownNameError(
            "method with published acceptance", name, list(methods), key="--method"
        )
    return slug
