"""Which parts has the report of `optimize` beside the ranking?

Why each choice and not its neighbours, what an engine's counters say of what runs, and one schedule
for all contexts.
"""

from html import escape

from app.answers.answer import Table
from app.answers.optimize.counted_words import CAPTION as COUNTED
from app.answers.optimize.counted_words import counted_lines, counted_table, flag_lines
from app.answers.optimize.headline import schedule_words
from app.answers.optimize.neighbour_words import CAPTION as BESIDE
from app.answers.optimize.neighbour_words import neighbour_lines, neighbour_table
from app.answers.optimize.rankings import Rankings
from app.render.charts.charts import digits
from app.render.html.page import html_table
from app.render.text import drawn


def counters_section(answer: Rankings) -> str:
    """Whether to change what runs, and what to measure next; empty where no counters were given."""
    if (counters := answer.counters) is None:
        return ""
    lines = "".join(f"<li>{escape(line)}</li>" for line in counted_lines(counters))
    changed = "\n".join(flag_lines(counters))
    flags = f"<pre>{escape(changed)}</pre>" if changed else ""
    return (
        f'<section class="card"><h2>What runs now</h2><ul>{lines}</ul>'
        f"{_drawn(counted_table(counters))}<p>{escape(COUNTED)}.</p>{flags}</section>"
    )


def neighbours_section(answer: Rankings) -> str:
    """What stands beside each choice, and why it loses; empty for an answer that does not say."""
    cells = [cell for cell in answer.cells if cell.neighbours]
    if not cells:
        return ""
    lines = "".join(f"<li>{escape(line)}</li>" for line in neighbour_lines(cells))
    return (
        '<section class="card"><h2>Why not its'
        f" neighbours</h2><p>{escape(BESIDE)}.</p>{_drawn(neighbour_table(cells))}<details>"
        f"<summary>In words</summary><ul>{lines}</ul></details></section>"
    )


def _drawn(table: Table) -> str:
    words = drawn(table)
    return html_table(words.heads, [[escape(cell) for cell in row] for row in words.cells])


def shared_schedules(answer: Rankings) -> str:
    """One schedule for all contexts, and what that costs at each; empty where one context was asked
    about.
    """
    rows = [
        [
            f"{escape(str(shared.drafter))}: {escape(schedule_words(shared.schedule))}",
            f"{at.context:,}",
            f"{digits(100 * at.loss_ratio)} %",
            f"{digits(100 * at.own_schedule_loss_ratio)} %",
        ]
        for shared in answer.context_schedules
        for at in shared.contexts
    ]
    if not rows:
        return ""
    head = (
        "one schedule for all contexts",
        "context (tokens)",
        "lost against the best K",
        "lost by that context's own schedule",
    )
    note = (
        "Engines choose K by batch alone, whatever the contexts, so one schedule has to do for all"
        " of them."
    )
    return f"<h3>Contexts together</h3><p>{note}</p>{html_table(head, rows)}"
