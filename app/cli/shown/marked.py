"""What do tables of rows without types say of cells that cannot be run?"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.answers.cells import marked_cell, reason_lines
from app.render.text import say


def mark_words(row: Mapping[str, Any]) -> str:
    """What the table says in a cell that cannot be run."""
    return marked_cell(row).mark


def say_marked(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    """Say below a table why cells cannot be run, and what would do.

    Args:
        rows: all of the table.
        names: keys that tell its models, devices and engines apart.
    """
    for line in reason_lines([marked_cell(row) for row in rows if not row["feasible"]], names):
        say(line)
