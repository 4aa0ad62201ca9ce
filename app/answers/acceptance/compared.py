"""`acceptance compare`: published figures of chains beside rates or a trace of one's own."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from app.answers.acceptance.figures import (
    SHOWN_LENGTHS,
    TYPICAL_LENGTH,
    PublishedFigure,
    published_entries,
)
from app.answers.answer import Answer, Column, Row, Table
from app.questions.acceptance import AcceptanceCompareQuestion
from app.questions.field import inputs_of
from app.questions.resolve.configurations import law_of
from costmodel.acceptance_library import target_slug
from costmodel.laws.acceptance import replay_by
from costmodel.optimizers.drafters.named_drafters import drafter_source
from costmodel.optimizers.drafters.sources import Source


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnDrafterRow(Row):
    """A drafter whose acceptance the question states."""

    drafter: Annotated[str, Column("As the question names it.")]
    method: Annotated[str, Column("Method slug.")]
    target: Annotated[str, Column("Target; empty: not named.")]
    kind: Annotated[str, Column("Kind of source.")]
    by_draft_tokens: Annotated[Mapping[int, float], Column("Tokens per step by draft tokens K.")]

    @property
    def data_set(self) -> str:
        """What stands in place of a data set."""
        return f"yours, {self.kind}"

    @property
    def shown_means(self) -> list[float | None]:
        """Tokens per step at the lengths that tables show."""
        return [self.by_draft_tokens.get(k) for k in SHOWN_LENGTHS]


@dataclass(frozen=True, kw_only=True)
class ComparedFigures(Answer):
    """The answer of `acceptance compare`.

    Attributes:
        entries: published figures of chains.
        yours: the drafters of the question.
    """

    name: ClassVar[str] = "acceptance"
    entries: Sequence[PublishedFigure]
    yours: Sequence[OwnDrafterRow]

    @property
    def own_rows(self) -> Sequence[OwnDrafterRow | PublishedFigure]:
        """Yours, and the published figures."""
        return [*self.yours, *self.entries]

    def shown(self) -> Iterator[Table]:
        """Tokens per step by draft length: yours, then what was published, the best first."""
        yield Table(
            title="Tokens per step by draft tokens K",
            rows=[*self.yours, *sorted(self.entries, key=_typical_mean, reverse=True)],
            columns=[
                "method",
                "target",
                "drafter_name",
                "data_set",
                "temperature_words",
                "shown_means",
            ],
            caption=(
                "the bonus token is counted; lengths between those measured are spread from them"
            ),
            once=["method", "target", "drafter_name"],
            kind=PublishedFigure,
            spread={"shown_means": [f"K={k}" for k in SHOWN_LENGTHS]},
        )


def _typical_mean(figure: PublishedFigure) -> float:
    """Tokens per step at the typical length, or at the longest below it."""
    return (figure.by_draft_tokens or {})[min(TYPICAL_LENGTH, figure.draft_tokens)]


def answer(question: AcceptanceCompareQuestion) -> ComparedFigures:
    """Published figures of chains, and what the question knows of its own drafters.

    Raises:
        InputError: nothing was published of that, or a drafter that makes no sense.
    """
    named = list(question.drafter or ())
    sources = [drafter_source(text, model=question.model or "") for text in named]
    chains = [entry for entry in published_entries(question) if entry.shape == "chain"]
    if sources and question.method is None:
        methods = {source.method for source in sources}
        chains = [entry for entry in chains if entry.method in methods]
    return ComparedFigures(
        inputs=inputs_of(question, drafter=named),
        entries=[PublishedFigure.of(entry, has_curve=True) for entry in chains],
        yours=[
            OwnDrafterRow(
                drafter=text,
                method=source.method,
                target=target_slug(question.model) if question.model else "",
                kind=source.kind,
                by_draft_tokens=_own_curve(source),
            )
            for text, source in zip(named, sources, strict=True)
        ],
    )


def _own_curve(source: Source) -> dict[int, float]:
    """Tokens per step by draft tokens of a source that a question names, as far as it holds them."""
    trace = source.positions
    if trace is not None:
        lengths = [k for k in SHOWN_LENGTHS if trace.depth is None or k <= trace.depth]
        law = law_of(trace, source.method, lengths)
        return {k: float(replay_by(trace, law, k).tokens_per_step) for k in lengths}
    if source.rates is None:
        return {}
    measured = source.rates.measured
    return {
        k: source.rates.chain(k).tokens_per_step
        for k in SHOWN_LENGTHS
        if measured is None or k <= measured
    }
