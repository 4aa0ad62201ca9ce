"""How do predictions look beside what was published? As one HTML file that needs no network.

A chart for each group of rows, errors by group, the systems furthest off with causes, and every row
with its remarks or the reason why nothing is said of it. Leaves out making the comparison
(`app.answers.reproduction`).
"""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from app.answers.reproduction.rows import (
    NoiseRow,
    PublishedNumber,
    Reproduction,
    StatedGroupErrors,
    SystemErrors,
)
from app.render.charts.charts import Figure, digits
from app.render.charts.reproduction_figures import LABELS, reproduction_figure
from app.render.html.page import figure_card, html_page, html_table, write_page
from hardware_profiles.errors import InputError

_MOST_ROWS = 4000


def write_plot(answer: Reproduction, path: Path) -> None:
    """Write the page, whole: to a neighbour first, then renamed.

    Args:
        answer: of `reproduce`.
        path: the HTML file; its folder is made.

    Raises:
        InputError: nothing is predicted, plotly is missing, or the place cannot be written.
    """
    write_page(reproduction_page(answer), path)


def reproduction_page(answer: Reproduction) -> str:
    """The page that `write_plot` writes; the same answer gives the same text.

    Raises:
        InputError: nothing to draw, or plotly is missing.
    """
    figures: dict[str, Figure] = {}
    cards = ""
    for group, label in LABELS.items():
        drawn = reproduction_figure(answer.rows, group)
        if drawn is not None:
            own = answer.groups[group]
            note = (
                f"{own.predicted} of {own.rows} numbers predicted, half of them within"
                f" {own.median_error_ratio:.0%}, nine of ten within"
                f" {own.p90_error_ratio:.0%}. On the line they are equal; the thin lines are 30"
                " % off. Units differ."
            )
            cards += figure_card(figures, group, drawn, label, note)
    if not figures:
        raise InputError("no number is predicted, so there is nothing to draw", key="--html")
    predicted = sum(row.predicted is not None for row in answer.rows)
    names = (
        ", ".join(Path(table).name for table in answer.inputs["rows"]) or "numbers of the catalogue"
    )
    head = (
        f'<header><p class="eyebrow">{escape(names)}</p><h1>Predicted beside published '
        f"<span>{predicted} of {len(answer.rows)} numbers predicted from their own"
        " inputs</span></h1></header>"
    )
    sections = [
        f'<section class="grid">{cards}</section>',
        _section("Errors by group", _groups(answer.groups)),
        _section("By system", _systems(answer.systems)),
        _section("Noise floor", _noise(answer.noise_floor)),
        _section("Every row", _rows(answer.rows)),
    ]
    return html_page("Predicted beside published", head + "".join(sections), figures, key="--html")


def _section(title: str, table: str) -> str:
    return f'<section class="card"><h2>{title}</h2>{table}</section>' if table else ""


def _ratio(value: float | None, sign: str = "") -> str:
    return "" if value is None else f"{value:{sign}.0%}"


def _groups(groups: Mapping[str, StatedGroupErrors]) -> str:
    lines = [
        [
            escape(f"{group}, {name}"),
            str(part.rows),
            str(part.predicted),
            _ratio(part.bias_ratio, "+"),
            _ratio(part.median_error_ratio),
            _ratio(part.p90_error_ratio),
            str(part.over_30_percent),
        ]
        for group, own in groups.items()
        for name, part in own.parts
    ]
    return html_table(["numbers", "rows", "predicted", "bias", "median", "p90", "over 30 %"], lines)


def _systems(systems: Sequence[SystemErrors]) -> str:
    lines = [
        [
            f"{escape(system.system)}<small>{escape(system.cause)}</small>",
            escape(system.source),
            system.group,
            str(system.predicted),
            _ratio(system.bias_ratio, "+"),
            _ratio(system.median_error_ratio),
        ]
        for system in systems
    ]
    return (
        html_table(["system", "source", "stated", "predicted", "bias", "median"], lines)
        if lines
        else ""
    )


def _noise(spreads: Sequence[NoiseRow]) -> str:
    lines = [
        [
            escape(spread.what),
            escape(spread.target),
            escape(spread.device),
            escape(spread.engine),
            str(spread.sources),
            digits(spread.lowest),
            digits(spread.highest),
            _ratio(spread.spread_ratio, "+"),
        ]
        for spread in spreads
    ]
    head = [
        "measured by several sources",
        "model",
        "device",
        "engine",
        "sources",
        "lowest",
        "highest",
        "apart",
    ]
    return html_table(head, lines) if lines else ""


def _rows(rows: Sequence[PublishedNumber]) -> str:
    lines = []
    for row in rows[:_MOST_ROWS]:
        words = "; ".join(part for part in (row.reason, row.cause, *row.remarks) if part)
        lines.append(
            [
                f"{escape(row.system)}<small>{escape(words)}</small>",
                escape(row.target),
                escape(row.hardware),
                escape(row.quantity),
                "" if row.published is None else digits(row.published),
                "" if row.predicted is None else digits(row.predicted),
                _ratio(row.error_ratio, "+"),
            ]
        )
    return html_table(
        ["system", "model", "hardware", "quantity", "published", "predicted", "error"], lines
    )
