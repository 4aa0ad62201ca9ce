"""`acceptance list`: published figures, or how many there are of each method and target."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from app.answers.acceptance.figures import (
    TYPICAL_LENGTH,
    PublishedFigure,
    has_filter,
    published_entries,
)
from app.answers.answer import Answer, Column, Row, Table
from app.answers.numbers import fixed
from app.questions.acceptance import AcceptanceListQuestion
from app.questions.field import inputs_of
from costmodel.acceptance_library import PublishedAcceptance


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodOnTarget(Row):
    """What was published of a method on a target."""

    method: Annotated[str, Column("Method slug.")]
    target: Annotated[str, Column("Target.")]
    figures: Annotated[int, Column("How many figures there are.")]
    longest_draft: Annotated[int, Column("Most draft tokens that were measured.")]
    span: Annotated[str, Column("Of chains of that length.", f"tokens/step at K={TYPICAL_LENGTH}")]


@dataclass(frozen=True, kw_only=True)
class PublishedFigures(Answer):
    """The answer of `acceptance list`.

    Attributes:
        entries: the figures.
        pairs: of method and target, which are shown in place of the figures; empty: the figures
            are shown.
    """

    name: ClassVar[str] = "acceptance"
    unwritten: ClassVar[tuple[str, ...]] = ("pairs",)
    frame_columns: ClassVar[tuple[str, ...]] = (
        "method",
        "target",
        "data_set",
        "temperature",
        "shape",
        "draft_tokens",
        "mean_tokens_per_step",
        "source",
        "place",
    )
    entries: Sequence[PublishedFigure]
    pairs: Sequence[MethodOnTarget]

    @property
    def own_rows(self) -> Sequence[PublishedFigure]:
        """The figures."""
        return self.entries

    def shown(self) -> Iterator[Table]:
        """The figures, or a line for each method and target."""
        title = f"{len(self.entries)} published figures"
        if self.pairs:
            yield Table(
                title=title,
                rows=self.pairs,
                columns=["method", "target", "figures", "longest_draft", "span"],
                caption=(
                    "the bonus token is counted; narrow with --method, --model, --data-set,"
                    " --temperature; `acceptance show METHOD MODEL` quotes one"
                ),
            )
            return
        yield Table(
            title=title,
            rows=self.entries,
            columns=[
                "method",
                "target",
                "data_set",
                "temperature_words",
                "shape_words",
                "draft_tokens",
                "mean_tokens_per_step",
                "page",
            ],
            caption=(
                "tokens/step at K draft tokens, the bonus token counted; T: temperature, ? where"
                " not stated"
            ),
            once=["method", "target", "shape_words"],
        )


def answer(question: AcceptanceListQuestion) -> PublishedFigures:
    """The figures that filters leave.

    Raises:
        InputError: none is left.
    """
    entries = published_entries(question)
    return PublishedFigures(
        inputs=inputs_of(question),
        entries=[PublishedFigure.of(entry) for entry in entries],
        pairs=[] if has_filter(question) else _pairs(entries),
    )


def _pairs(entries: Sequence[PublishedAcceptance]) -> list[MethodOnTarget]:
    """A row for each method and target."""
    rows = []
    for method, target in sorted({(entry.method, entry.target) for entry in entries}):
        own = [entry for entry in entries if (entry.method, entry.target) == (method, target)]
        means = [
            entry.mean_at(TYPICAL_LENGTH)
            for entry in own
            if entry.shape == "chain" and entry.draft_tokens >= TYPICAL_LENGTH
        ]
        rows.append(
            MethodOnTarget(
                method=method,
                target=target,
                figures=len(own),
                longest_draft=max(entry.draft_tokens for entry in own),
                span=f"{fixed(min(means), 2)} to {fixed(max(means), 2)}" if means else "",
            )
        )
    return rows
