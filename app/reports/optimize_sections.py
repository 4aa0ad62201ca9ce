"""Which parts has the report of `optimize` beside the ranking?

Why each choice and not its neighbours, and what an engine's counters say of what runs.
"""

from collections.abc import Mapping
from html import escape
from typing import Any

from app.reports.counted_words import CAPTION, HEADS, counted_lines, counted_rows
from app.reports.neighbour_words import CAPTION as BESIDE
from app.reports.neighbour_words import HEADS as COLUMNS
from app.reports.neighbour_words import neighbour_lines, neighbour_rows
from app.reports.page import html_table

Json = Mapping[str, Any]


def counters_section(answer: Json) -> str:
    """Whether to change what runs, and what to measure next; empty where no counters were given."""
    counters = answer.get("counters")
    if not counters:
        return ""
    lines = "".join(f"<li>{escape(line)}</li>" for line in counted_lines(counters))
    rows = [[escape(cell) for cell in row] for row in counted_rows(counters)]
    return (
        f'<section class="card"><h2>What runs now</h2><ul>{lines}</ul>{html_table(HEADS, rows)}'
        f"<p>{escape(CAPTION)}.</p></section>"
    )


def neighbours_section(answer: Json) -> str:
    """What stands beside each choice, and why it loses; empty for an answer that does not say."""
    cells = answer.get("cells") or ()
    rows = [[escape(cell) for cell in row] for row in neighbour_rows(cells)]
    if not rows:
        return ""
    lines = "".join(f"<li>{escape(line)}</li>" for line in neighbour_lines(cells))
    return (
        f'<section class="card"><h2>Why not its neighbours</h2><p>{escape(BESIDE)}.</p>{html_table(COLUMNS, rows)}'
        f"<details><summary>In words</summary><ul>{lines}</ul></details></section>"
    )
