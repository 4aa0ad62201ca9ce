"""What does the catalogue do for every published system: does it work, is it priced, or why not?"""

from dataclasses import dataclass
from typing import Annotated

from app.answers.answer import Column, Row
from app.answers.reproduction.reproduction import LARGE_RATIO
from costmodel.method import Method
from costmodel.method_library import load_method, method_names
from real_runs.published_numbers.answer import Prediction
from real_runs.published_numbers.predict import predictions
from real_runs.published_numbers.reported import reported_rows


@dataclass(frozen=True, kw_only=True, slots=True)
class CoverageRow(Row):
    """A published system, and what the catalogue does for it."""

    system: Annotated[str, Column("As it was published.")]
    slug: Annotated[str, Column("The entry that stands for it.")]
    group: Annotated[str, Column("What the entry is listed under.")]
    read: Annotated[str, Column("The best source that was read: `code`, `paper` or `abstract`.")]
    status: Annotated[str, Column("`works`, `priced`, `needs` or `out of scope`.")]
    detail: Annotated[str, Column("The test or number that holds, or why nothing does.")]


def coverage() -> list[CoverageRow]:
    """One row for every published system.

    A system works where a test holds one of its numbers, or where one with all its inputs is
    predicted within 30 %.
    """
    numbers = reproduced_numbers()
    rows = []
    for method in map(load_method, method_names()):
        status, detail = _status(method, numbers.get(method.slug))
        rows += [
            CoverageRow(
                system=system,
                slug=method.slug,
                group=method.group,
                read=method.read,
                status=status,
                detail=detail,
            )
            for system in method.systems
        ]
    return sorted(rows, key=lambda row: (row.group, row.system))


def reproduced_numbers() -> dict[str, str]:
    """By slug, in words: which of an entry's numbers with all inputs is predicted best, where that
    is within 30 %.
    """
    questions = [
        (slug, row)
        for slug in method_names()
        for row in reported_rows([slug])
        if row.group == "full"
    ]
    by_slug: dict[str, list[Prediction]] = {}
    for (slug, _), prediction in zip(
        questions, predictions([row for _, row in questions]), strict=True
    ):
        by_slug.setdefault(slug, []).append(prediction)
    best = {}
    for slug, own in by_slug.items():
        errors = [(abs(p.error_ratio), p) for p in own if p.error_ratio is not None]
        near = sorted((pair for pair in errors if pair[0] <= LARGE_RATIO), key=lambda pair: pair[0])
        if near:
            predicted, row = near[0][1].predicted, near[0][1].row
            words = f"{row.quantity}: {predicted:.3g} predicted, {row.published:g} published ({row.source})"
            best[slug] = (
                f"{words}; {len(near)} of {len(own)} numbers with all inputs are within"
                f" {LARGE_RATIO:.0%}"
            )
    return best


def _status(method: Method, number: str | None) -> tuple[str, str]:
    if method.reproduced:
        return "works", method.reproduced[0]
    if method.out_of_scope:
        return "out of scope", method.out_of_scope
    if method.needs:
        return "needs", method.needs
    if number is not None:
        return "works", number
    return "priced", method.asked_as or "no published number is held by a test"
