"""How do predictions look beside what was published? As one HTML file that needs no network.

A chart for each group of rows, errors by group, the systems furthest off with causes, and every row
with its remarks or the reason why nothing is said of it. Leaves out making the comparison
(`app.answers.reproduction`).
"""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from app.render.charts.charts import Figure, digits
from app.render.charts.reproduction_figures import LABELS, parts, reproduction_figure
from app.render.html.page import figure_card, html_page, html_table, write_page
from hardware_profiles.errors import InputError

Json = Mapping[str, Any]
_MOST_ROWS = 4000


def write_reproduction_page(body: Json, path: Path) -> None:
    """Write the page, whole: to a neighbour first, then renamed.

    Args:
        body: the answer of `reproduce`.
        path: the HTML file; its folder is made.

    Raises:
        InputError: nothing is predicted, plotly is missing, or the place cannot be written.
    """
    write_page(reproduction_page(body), path)


def reproduction_page(body: Json) -> str:
    """The page that `write_reproduction_page` writes; the same answer gives the same text."""
    figures: dict[str, Figure] = {}
    cards = ""
    for group, label in LABELS.items():
        drawn = reproduction_figure(body["rows"], group)
        if drawn is not None:
            own = body["groups"][group]
            note = (
                f"{own['predicted']} of {own['rows']} numbers predicted, half of them within"
                f" {own['median_error_ratio']:.0%}, nine of ten within"
                f" {own['p90_error_ratio']:.0%}. On the line they are equal; the thin lines are 30"
                " % off. Units differ."
            )
            cards += figure_card(figures, group, drawn, label, note)
    if not figures:
        raise InputError("no number is predicted, so there is nothing to draw", key="--html")
    predicted = sum(row["predicted"] is not None for row in body["rows"])
    names = (
        ", ".join(Path(table).name for table in body["inputs"]["rows"])
        or "numbers of the catalogue"
    )
    head = (
        f'<header><p class="eyebrow">{escape(names)}</p><h1>Predicted beside published '
        f"<span>{predicted} of {len(body['rows'])} numbers predicted from their own"
        " inputs</span></h1></header>"
    )
    sections = [
        f'<section class="grid">{cards}</section>',
        _section("Errors by group", _groups(body["groups"])),
        _section("By system", _systems(body["systems"])),
        _section("Noise floor", _noise(body["noise_floor"])),
        _section("Every row", _rows(body["rows"])),
    ]
    return html_page("Predicted beside published", head + "".join(sections), figures, key="--html")


def _section(title: str, table: str) -> str:
    return f'<section class="card"><h2>{title}</h2>{table}</section>' if table else ""


def _ratio(value: float | None, sign: str = "") -> str:
    return "" if value is None else f"{value:{sign}.0%}"


def _groups(groups: Json) -> str:
    lines = [
        [
            escape(f"{group}, {name}"),
            str(part["rows"]),
            str(part["predicted"]),
            _ratio(part["bias_ratio"], "+"),
            _ratio(part["median_error_ratio"]),
            _ratio(part["p90_error_ratio"]),
            str(part["over_30_percent"]),
        ]
        for group, own in groups.items()
        for name, part in parts(own)
    ]
    return html_table(["numbers", "rows", "predicted", "bias", "median", "p90", "over 30 %"], lines)


def _systems(systems: Sequence[Json]) -> str:
    lines = [
        [
            f"{escape(each['system'])}<small>{escape(each['cause'])}</small>",
            escape(each["source"]),
            each["group"],
            str(each["predicted"]),
            _ratio(each["bias_ratio"], "+"),
            _ratio(each["median_error_ratio"]),
        ]
        for each in systems
    ]
    return (
        html_table(["system", "source", "stated", "predicted", "bias", "median"], lines)
        if lines
        else ""
    )


def _noise(spreads: Sequence[Json]) -> str:
    lines = [
        [
            escape(each["what"]),
            escape(each["target"]),
            escape(each["device"]),
            escape(each["engine"]),
            str(each["sources"]),
            digits(each["lowest"]),
            digits(each["highest"]),
            _ratio(each["spread_ratio"], "+"),
        ]
        for each in spreads
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


def _rows(rows: Sequence[Json]) -> str:
    lines = []
    for row in rows[:_MOST_ROWS]:
        said = "; ".join(part for part in (row["reason"], row["cause"], *row["remarks"]) if part)
        lines.append(
            [
                f"{escape(row['system'])}<small>{escape(said)}</small>",
                escape(row["target"]),
                escape(row["hardware"]),
                escape(row["quantity"]),
                "" if row["published"] is None else digits(row["published"]),
                "" if row["predicted"] is None else digits(row["predicted"]),
                _ratio(row["error_ratio"], "+"),
            ]
        )
    return html_table(
        ["system", "model", "hardware", "quantity", "published", "predicted", "error"], lines
    )
