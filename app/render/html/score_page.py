"""How do predicted times look beside measured ones? As one HTML file that needs no network.

A chart of each quantity, one colour an engine, and tables of errors by slice. Leaves out making the
score (`app.answers.scoring`).
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from app.answers.scoring.rows import ScoredRuns, SliceErrors
from app.render.charts.charts import Figure
from app.render.charts.score_figures import LABELS, times_figure
from app.render.html.page import figure_card, html_page, html_table, write_page
from hardware_profiles.errors import InputError


def write_plot(answer: ScoredRuns, path: Path) -> None:
    """Write the page, whole: to a neighbour first, then renamed.

    Args:
        answer: of `score`.
        path: the HTML file; its folder is made.

    Raises:
        InputError: nothing is answered, plotly is missing, or the place cannot be written.
    """
    write_page(score_page(answer), path)


def score_page(answer: ScoredRuns) -> str:
    """The page that `write_plot` writes; the same answer gives the same text.

    Raises:
        InputError: nothing to draw, or plotly is missing.
    """
    figures: dict[str, Figure] = {}
    cards = ""
    for quantity in LABELS:
        drawn = times_figure(answer.measurements, quantity)
        if drawn is not None:
            note = "On the line they are equal; the thin lines are a quarter above and below."
            cards += figure_card(figures, quantity, drawn, LABELS[quantity], note)
    if not figures:
        raise InputError("no measurement is answered, so there is nothing to draw", key="--plot")
    overall = answer.overall
    names = ", ".join(table.name for table in answer.inputs["tables"])
    head = (
        f'<header><p class="eyebrow">{escape(names)}</p><h1>Predicted beside measured '
        f"<span>{overall.answered} of {overall.measurements} measurements"
        " answered</span></h1></header>"
    )
    tables = "".join(
        f'<section class="card"><h2>{LABELS[q]}</h2>{_table(answer.slices, q)}</section>'
        for q in LABELS
    )
    return html_page(
        "Predicted beside measured",
        f'{head}<section class="grid">{cards}</section>{tables}',
        figures,
        key="--plot",
    )


def _table(rows: Sequence[SliceErrors], quantity: str) -> str:
    errors = [(row, row.tpot if quantity == "tpot" else row.ttft) for row in rows]
    lines = [
        [
            escape(f"{row.slice}: {row.value}"),
            str(own.measurements),
            f"{own.bias_ratio:+.1%}",
            f"{own.median_error_ratio:.1%}",
            f"{own.mean_error_ratio:.1%}",
            f"{own.p90_error_ratio:.1%}",
            "" if own.coverage_ratio is None else f"{own.coverage_ratio:.1%}",
        ]
        for row, own in errors
        if own is not None
    ]
    return html_table(
        ["slice", "compared", "bias", "median", "mean", "p90", "inside 80 % intervals"], lines
    )
