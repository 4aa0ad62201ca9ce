"""How is it said why a choice is the best and not its neighbours? The same words on the screen and
in a report.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from app.answers.answer import Column, Row, Table, columns_of
from app.answers.numbers import fixed
from app.answers.optimize.rows import CellRow, NeighbourRow
from costmodel.optimizers.neighbours import TERMS

CAPTION = (
    "loses: tokens/s of the neighbour against the choice; of it by fewer tokens per step and by"
    " longer draft passes, verify passes and engine's work; below 0: there the neighbour is better"
)
_NAMES = {"draft": "draft passes", "verify": "the verify pass", "overhead": "the engine's work"}
_BARRED = {"memory": "does not fit the memory", "limits": "misses the latency limits"}
_ENOUGH = 5e-4  # shares below it are not named


@dataclass(frozen=True, kw_only=True, slots=True)
class NeighbourWords(Row):
    """A neighbour as a table shows it."""

    batch: Annotated[str, Column("Requests that decode together.")]
    context: Annotated[str, Column("Cached tokens per request.")]
    run: Annotated[str, Column("The choice.")]
    instead: Annotated[str, Column("The neighbour.")]
    tokens_per_step: Annotated[str, Column("Tokens that it emits per step.", "tokens/step")]
    loses: Annotated[str, Column("Tokens/s that it loses, or why it cannot be.", "loses %")]
    tokens: Annotated[str, Column("Of that, by fewer tokens per step.")]
    draft: Annotated[str, Column("By longer draft passes.")]
    verify: Annotated[str, Column("By longer verify passes.")]
    overhead: Annotated[str, Column("By more work of the engine.", "engine")]


def neighbour_table(cells: Sequence[CellRow], name: str = "") -> Table:
    """A row a neighbour of every choice.

    Args:
        cells: with their neighbours.
        name: of the answer among several; empty for the only one.
    """
    return Table(
        title=f"why not its neighbours, {name}" if name else "why not its neighbours",
        rows=[_row(cell, beside) for cell in cells for beside in cell.neighbours],
        columns=list(columns_of(NeighbourWords)),
        caption=CAPTION,
        once=("batch", "context", "run"),
        kind=NeighbourWords,
    )


def _row(cell: CellRow, beside: NeighbourRow) -> NeighbourWords:
    lost_by = {term: _signed(beside.lost_by[term]) if beside.lost_by else "" for term in TERMS}
    return NeighbourWords(
        batch=f"{cell.batch:,}",
        context=f"{cell.context:,}",
        run=cell.winner.words,
        instead=beside.words,
        tokens_per_step=fixed(beside.tokens_per_step, 2),
        loses=_BARRED[beside.barred] if beside.barred else _signed(beside.lost_ratio or 0.0),
        **lost_by,
    )


def neighbour_lines(cells: Sequence[CellRow]) -> list[str]:
    """One sentence a batch and context: what the nearest neighbours lose, and why; and how far the
    choice carries.
    """
    return [_line(cell) for cell in cells if cell.neighbours]


def _line(cell: CellRow) -> str:
    allowed = [neighbour for neighbour in cell.neighbours if not neighbour.barred]
    parts = [_why(neighbour) for neighbour in allowed[:3]]
    if cell.winner.topology == "chain" and cell.longest_compared:
        parts.append("nothing longer was compared")
    for there in cell.carried:
        lost = there.lost_ratio
        words = (
            "cannot run"
            if lost is None
            else f"loses {100 * lost:.1f} %"
            if lost > _ENOUGH
            else "is the best, too"
        )
        parts.append(f"at batch {there.batch:,} it {words}")
    return (
        f"batch {cell.batch:,}, context {cell.context:,}, {cell.winner.words}: {'; '.join(parts)}"
    )


def _why(beside: NeighbourRow) -> str:
    """A neighbour's loss, what it loses by, and what it wins back."""
    by = beside.lost_by
    names = {"tokens": f"{'fewer' if by['tokens'] > 0 else 'more'} tokens per step"} | _NAMES
    lost, won = ([(name, sign * by[term]) for term, name in names.items()] for sign in (1, -1))
    lost_by, won_by = (
        ", ".join(f"{100 * share:.1f} by {name}" for name, share in shares if share > _ENOUGH)
        for shares in (lost, won)
    )
    words = f"{beside.words} loses {100 * (beside.lost_ratio or 0.0):.1f} %"
    return words + (f": {lost_by}" if lost_by else "") + (f", less {won_by}" if won_by else "")


def _signed(ratio: float) -> str:
    return f"{100 * ratio:.1f}"
