"""How far predictions stand from measurements, as a line for every operation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from app.answers.answer import Column, Row, Table


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorLine(Row):
    """The errors of an operation, of a part of it, or of whole passes."""

    operation: Annotated[str, Column("What was timed.")]
    rows: Annotated[int, Column("Rows of it.")]
    used: Annotated[int | None, Column("Rows that pass the filters.")] = None
    fitted: Annotated[int, Column("Rows that constants were fitted to.")]
    scored: Annotated[int, Column("Rows that the errors are of.")]
    median: Annotated[str, Column("Median of |predicted / measured - 1|.")]
    p90: Annotated[str, Column("Its ninetieth percentile.")]
    covered: Annotated[str, Column("Rows within the 80 % interval.", "in interval")] = ""


def percent(value: float, decimals: int = 1) -> str:
    """A share in percent; a dash where there are no rows."""
    return "–" if math.isnan(value) else f"{value:.{decimals}%}"


def error_table(title: str, lines: Sequence[ErrorLine], caption: str) -> Table:
    """Errors as a person is shown them."""
    return Table(
        title=title,
        rows=lines,
        columns=["operation", "rows", "used", "fitted", "scored", "median", "p90", "covered"],
        caption=caption,
    )
