"""`acceptance show`: the published figure that suits a method on a target best, to quote."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from app.answers.acceptance.figures import PublishedFigure, published_method
from app.answers.answer import Answer, Column, Row, Table
from app.answers.numbers import fixed
from app.questions.acceptance import AcceptanceShowQuestion
from app.questions.field import inputs_of
from costmodel.acceptance_library import PublishedAcceptance, best_match
from hardware_profiles.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class ByLength(Row):
    """A number at every draft length."""

    number: Annotated[str, Column("What it is.", "draft tokens K")]
    values: Annotated[Sequence[str], Column("At every length.")]


@dataclass(frozen=True, kw_only=True)
class QuotedFigure(Answer):
    """The answer of `acceptance show`.

    Attributes:
        kinship: `own`, `family` or `borrowed`: whose acceptance it is.
        label: where it comes from, in words.
        entry: the figure.
        published: the same as the library has it.
    """

    name: ClassVar[str] = "acceptance"
    unwritten: ClassVar[tuple[str, ...]] = ("published",)
    kinship: str
    label: str
    entry: PublishedFigure
    published: PublishedAcceptance

    @property
    def own_rows(self) -> Sequence[PublishedFigure]:
        """The figure."""
        return [self.entry]

    def shown(self) -> Iterator[Table | str]:
        """The number, and its source to quote, on one screen."""
        entry = self.entry
        origin = {
            "own": "measured on this target",
            "family": f"borrowed within its family from {entry.published_target}",
            "borrowed": f"borrowed from another model, {entry.published_target}",
        }
        yield f"{self.inputs['model']}: {origin[self.kinship]}"
        if entry.shape == "chain":
            yield _curve(self.published)
        else:
            yield (
                f"{fixed(entry.mean_tokens_per_step, 2)} tokens per step, {entry.draft_tokens}"
                f" draft tokens as a {entry.shape_words}"
            )
        if entry.counted == "proposals":
            yield "counted over steps with a proposal alone; the others emit one token"
        facts = {
            "drafter": entry.drafter or "not stated",
            "data set": entry.data_set,
            "temperature": "not stated" if entry.temperature is None else f"{entry.temperature:g}",
            "engine": entry.engine or "not stated",
            "source": entry.source,
            "place": entry.place,
            "licence": "a fact, quoted" if entry.licence == "fact" else entry.licence,
            "checked": entry.checked or "taken from a list of such figures, not compared again",
            "note": entry.note,
        }
        for name, words in facts.items():
            if words:
                yield f"  {name}: {words}"
        yield (
            f"more of it: rooftree acceptance list --method {entry.method} --model {entry.target}"
        )


def _curve(entry: PublishedAcceptance) -> Table:
    """Tokens per step and acceptance at every length up to the longest that was measured."""
    lengths = range(1, entry.draft_tokens + 1)
    measured = {*entry.tokens_per_step, *range(1, len(entry.rates) + 1)}
    means = [fixed(entry.mean_at(k), 2) + ("" if k in measured else "*") for k in lengths]
    rates = [fixed(rate, 2) for rate in entry.depth_rates(entry.draft_tokens)]
    caption = (
        "the bonus token is counted; accepted at K: share of drafts whose first K tokens are all"
        " kept"
    )
    if len(measured) < len(lengths):
        caption += "; * not measured: spread from the K that were"
    return Table(
        title=f"{entry.method} on {entry.published_target}",
        rows=[
            ByLength(number="tokens per step", values=means),
            ByLength(number="accepted at K", values=rates),
        ],
        columns=["number", "values"],
        caption=caption,
        spread={"values": [str(k) for k in lengths]},
    )


def answer(question: AcceptanceShowQuestion) -> QuotedFigure:
    """The figure that suits best.

    Raises:
        InputError: nothing was published of the method on such data.
    """
    slug = published_method(question.method)
    match = best_match(
        slug, question.model, data_set=question.data_set, temperature=question.temperature
    )
    if match is None:
        raise InputError(
            "nothing was published of this method on such data",
            key="acceptance",
            value=question.method,
        )
    return QuotedFigure(
        inputs=inputs_of(question, method=slug),
        kinship=match.kinship,
        label=match.label,
        entry=PublishedFigure.of(match.entry),
        published=match.entry,
    )
