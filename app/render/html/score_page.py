"""How do predicted times look beside measured ones? As one HTML file that needs no network.

A chart of each quantity, one colour an engine, and tables of errors by slice. Leaves out making the
score (`app.answers.scoring`).
"""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from app.render.charts.charts import Figure
from app.render.charts.score_figures import LABELS, times_figure
from app.render.html.page import figure_card, html_page, html_table, write_page
from hardware_profiles.errors import InputError

Json = Mapping[str, Any]


def write_score_page(body: Json, path: Path) -> None:
    """Write the page, whole: to a neighbour first, then renamed.

    Args:
        body: the answer of `score`.
        path: the HTML file; its folder is made.

    Raises:
        InputError: nothing is answered, plotly is missing, or the place cannot be written.
    """
    write_page(score_page(body), path)


def score_page(body: Json) -> str:
    """The page that `write_score_page` writes; the same answer gives the same text."""
    figures: dict[str, Figure] = {}
    cards = ""
    for quantity in LABELS:
        drawn = times_figure(body, quantity)
        if drawn is not None:
            note = "On the line they are equal; the thin lines are a quarter above and below."
            cards += figure_card(figures, quantity, drawn, LABELS[quantity], note)
    if not figures:
        raise InputError("no measurement is answered, so there is nothing to draw", key="--plot")
    overall, names = (
        body["overall"],
        ", ".join(Path(table).name for table in body["inputs"]["tables"]),
    )
    head = (
        f'<header><p class="eyebrow">{escape(names)}</p><h1>Predicted beside measured '
        f"<span>{overall['answered']} of {overall['measurements']} measurements"
        " answered</span></h1></header>"
    )
    tables = "".join(
        f'<section class="card"><h2>{LABELS[q]}</h2>{_table(body["slices"], q)}</section>'
        for q in LABELS
    )
    return html_page(
        "Predicted beside measured",
        f'{head}<section class="grid">{cards}</section>{tables}',
        figures,
        key="--plot",
    )


def _table(rows: Sequence[Json], quantity: str) -> str:
    keys = (
        "bias_ratio",
        "median_error_ratio",
        "mean_error_ratio",
        "p90_error_ratio",
        "coverage_ratio",
    )
    lines = [
        [
            escape(f"{row['slice']}: {row['value']}"),
            str(row[quantity]["measurements"]),
            *(
                (
                    ""
                    if row[quantity][key] is None
                    else f"{row[quantity][key]:{'+' if key == 'bias_ratio' else ''}.1%}"
                )
                for key in keys
            ),
        ]
        for row in rows
        if row[quantity]
    ]
    return html_table(
        ["slice", "compared", "bias", "median", "mean", "p90", "inside 80 % intervals"], lines
    )
