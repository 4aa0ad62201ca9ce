"""How do predictions look beside what was measured? As one HTML file that needs no network.

Predicted against measured tokens per second with intervals, the distribution of errors, the error
of every configuration, where steps spend their time, and tables of errors and regrets. Names in a
report are untrusted. Leaves out making it (`app.answers.validation`).
"""

import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from app.answers.validation.rows import Errors, StepErrorsRow, ValidationReport
from app.render.charts.charts import (
    HEIGHT_PIXELS,
    NEUTRAL,
    PALETTE,
    SYMBOLS,
    Figure,
    digits,
    framed,
)
from app.render.charts.log_ticks import labelled
from app.render.html.page import html_page, plots_available, write_page
from hardware_profiles.errors import InputError
from hardware_profiles.units import MILLI

if TYPE_CHECKING:
    from real_runs.validation.score import Point

Card = tuple[str, str, Figure]
MOST_POINTS = 5000
_SUMMARY_COLUMNS = ("configurations", "median", "p90", "bias", "covered")
_STEP_COLUMNS = (
    "configuration",
    "prompts",
    "batch",
    "context",
    "steps",
    "ms measured",
    "ms predicted",
    "off",
    "drafting off",
    "verifying off",
    "agreeing",
)
_PHASES = (
    ("draft_s", "draft", PALETTE[4]),
    ("verify_s", "verify", PALETTE[0]),
    ("rest_s", "rest", "#949494"),
)


def write_pages(answer: ValidationReport, folder: Path) -> None:
    """Write the page of a report, where plotly is installed."""
    if plots_available():
        write_validation_page(answer, folder / "validation.html")


def write_validation_page(report: ValidationReport, path: Path) -> None:
    """Write the page, whole: to a neighbour first, then renamed.

    Args:
        report: with points to draw.
        path: the HTML file; its folder is made.

    Raises:
        InputError: no points to draw, plotly is missing, or the place cannot be written.
    """
    write_page(validation_page(report), path)


def validation_page(report: ValidationReport) -> str:
    """The page that `write_validation_page` writes; the same report gives the same text.

    Raises:
        InputError: no points to draw, too many of them, or plotly is missing.
    """
    points = report.points
    if not points or len(points) > MOST_POINTS:
        raise InputError(
            f"must hold 1 to {MOST_POINTS} points to draw", key="points", value=len(points)
        )
    cards = [_against(points), _distribution(points), _by_configuration(points), _phases(points)]
    figures = {f"plot-{index}": figure for index, (_, _, figure) in enumerate(cards)}
    body = "".join(
        _card(f"plot-{index}", title, note, figure)
        for index, (title, note, figure) in enumerate(cards)
    )
    about = report.about
    line = " · ".join(
        escape(str(text))
        for text in (
            about.get("model", ""),
            about.get("device", ""),
            f"{about.get('threads', '?')} thread(s)",
            f"{about.get('fidelity', '')} by {about.get('profile', '')}",
            about.get("finished", ""),
        )
        if text
    )
    head = (
        f'<header><p class="eyebrow">{line}</p><h1>Predicted beside measured</h1>'
        f'<p class="deck">{escape(report.summary.sentence)}</p></header>'
    )
    return html_page(
        "Predicted beside measured",
        f'{head}<section class="grid">{body}</section>{_tables(report)}',
        figures,
        key="--page",
    )


def _against(points: Sequence["Point"]) -> Card:
    """Predicted over measured, one colour per batch, one symbol per topology."""
    data: list[Figure] = []
    rates = [rate for p in points for rate in (p.measured["tokens_per_s"], *p.interval)]
    ends = [min(rates) / 1.1, max(rates) * 1.1]
    data.append(
        {
            "type": "scatter",
            "mode": "lines",
            "name": "equal",
            "x": ends,
            "y": ends,
            "hoverinfo": "skip",
            "line": {"color": NEUTRAL, "dash": "dot", "width": 1.5},
        }
    )
    for place, batch in enumerate(sorted({p.batch for p in points})):
        own = [p for p in points if p.batch == batch]
        predicted = [p.predicted["tokens_per_s"] for p in own]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": f"batch {batch}",
                "x": [p.measured["tokens_per_s"] for p in own],
                "y": predicted,
                "hoverinfo": "text",
                "hovertext": [_hover_text(p) for p in own],
                "marker": {
                    "color": PALETTE[place % len(PALETTE)],
                    "size": [11 if p.chosen else 8 for p in own],
                    "symbol": [SYMBOLS.get(p.topology, "circle") for p in own],
                },
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "width": 0,
                    "thickness": 1,
                    "array": [p.interval[1] - y for p, y in zip(own, predicted, strict=True)],
                    "arrayminus": [y - p.interval[0] for p, y in zip(own, predicted, strict=True)],
                },
            }
        )
    layout = _layout("measured tokens per second", "predicted tokens per second", 160)
    for axis in ("xaxis", "yaxis"):
        layout[axis] = labelled(
            layout[axis] | {"type": "log", "range": [math.log10(end) for end in ends]}, ends
        )
    note = (
        "Bars are 80 % intervals; larger marks are what was chosen; open circles decode plainly,"
        " diamonds are trees."
    )
    return "Tokens per second", note, {"data": data, "layout": layout}


def _distribution(points: Sequence["Point"]) -> Card:
    errors = [100.0 * p.error_ratio for p in points]
    data = [
        {
            "type": "histogram",
            "x": errors,
            "name": "configurations",
            "xbins": {"size": 1.0},
            "marker": {"color": PALETTE[0]},
        }
    ]
    layout = _layout("predicted / measured - 1 (%)", "configurations", 160) | {
        "bargap": 0.05,
        "showlegend": False,
    }
    return (
        "Errors",
        "Of tokens per second, one count per configuration and cell.",
        {"data": data, "layout": layout},
    )


def _by_configuration(points: Sequence["Point"]) -> Card:
    names = sorted({p.configuration for p in points})
    data = []
    for place, kind in enumerate(sorted({p.kind for p in points})):
        own = [p for p in points if p.kind == kind]
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": escape(kind),
                "y": [escape(p.configuration) for p in own],
                "x": [100.0 * p.error_ratio for p in own],
                "hoverinfo": "text",
                "hovertext": [_hover_text(p) for p in own],
                "marker": {
                    "color": PALETTE[place % len(PALETTE)],
                    "size": 8,
                    "symbol": ["circle", "square"][place % 2],
                },
            }
        )
    layout = _layout("predicted / measured - 1 (%)", "", 40 + 18 * len(names))
    layout["yaxis"] |= {"type": "category", "categoryarray": [escape(n) for n in reversed(names)]}
    layout["xaxis"] |= {"zeroline": True}
    return (
        "Error of every configuration",
        "All cells of a configuration in one row.",
        {"data": data, "layout": layout},
    )


def _phases(points: Sequence["Point"]) -> Card:
    """Where a step's time goes, measured beside predicted, median over cells of one request."""
    own = [p for p in points if p.batch == 1] or list(points)
    names = sorted({p.configuration for p in own})
    data = []
    for side, pattern in (("measured", ""), ("predicted", "/")):
        for key, label, color in _PHASES:
            values = [
                _median([getattr(p, side)[key] for p in own if p.configuration == name]) / MILLI
                for name in names
            ]
            data.append(
                {
                    "type": "bar",
                    "name": f"{label}, {side}",
                    "x": [escape(name) for name in names],
                    "y": values,
                    "offsetgroup": side,
                    "marker": {"color": color, "pattern": {"shape": pattern}},
                }
            )
    layout = _layout("", "milliseconds per step", 200) | {"barmode": "stack"}
    layout["xaxis"] |= {"type": "category", "tickangle": -60}
    return "Phases of a step", "Hatched bars are predicted.", {"data": data, "layout": layout}


def _summary_rows(groups: Mapping[str, Errors]) -> list[list[str]]:
    """A line for every group of configurations of a report: its name, and `_SUMMARY_COLUMNS`."""
    return [
        [
            name,
            str(s.configurations),
            f"{s.median_error_ratio:.1%}",
            f"{s.p90_error_ratio:.1%}",
            f"{s.bias_ratio:+.1%}",
            f"{s.coverage_ratio:.0%}",
        ]
        for name, s in groups.items()
    ]


def _tables(report: ValidationReport) -> str:
    parts = []
    for title, groups in report.by.items():
        parts.append(_table(f"By {title}", [title, *_SUMMARY_COLUMNS], _summary_rows(groups)))
    if report.steps:
        title = "Step by step: medians of single steps"
        parts.append(_table(title, _STEP_COLUMNS, _step_rows(report.steps)))
    lost = [
        [
            f"{r.kind}, {r.context or 'as they are'}, batch {r.batch}",
            r.chosen,
            r.best,
            digits(r.chosen_tokens_per_s),
            digits(r.best_tokens_per_s),
            digits(r.plain_tokens_per_s),
            f"{r.regret_ratio:.1%}",
        ]
        for r in report.regrets
    ]
    columns = ["cell", "chosen", "best measured", "tokens/s chosen", "best", "plain", "regret"]
    parts.append(_table("What the choice cost", columns, lost))
    if report.doctor:
        rows = [[probe.probe, probe.state, probe.detail, probe.advice] for probe in report.doctor]
        parts.append(_table("The card", ["probe", "state", "detail", "what to do"], rows))
    return "".join(parts)


def _step_rows(steps: Sequence[StepErrorsRow]) -> list[list[str]]:
    return [
        [
            row.configuration,
            row.kind,
            str(row.batch),
            str(row.context),
            str(row.steps),
            digits(row.measured_s / MILLI),
            digits(row.predicted_s / MILLI),
            f"{row.step_error_ratio:.1%}",
            "" if row.draft_error_ratio is None else f"{row.draft_error_ratio:.1%}",
            f"{row.verify_error_ratio:.1%}",
            f"{row.agreeing_ratio:.0%}",
        ]
        for row in steps
    ]


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<section><h2>{escape(title)}</h2>{table}</section>"


def _card(name: str, title: str, note: str, figure: Figure) -> str:
    style = f"height:{figure['layout']['height']}px"
    place = (
        f'<div class="plot" id="{name}" style="{style}" role="img"'
        f' aria-label="{escape(title)}"></div>'
    )
    return (
        f'<figure class="wide"><h2>{escape(title)}</h2><p>{escape(note)}</p><div'
        f' class="scroll">{place}</div></figure>'
    )


def _layout(x: str, y: str, more_pixels: int) -> Figure:
    height = HEIGHT_PIXELS + more_pixels
    layout: Figure = framed([], {"title": {"text": x}}, {"title": {"text": y}}, height=height)[
        "layout"
    ]
    return layout


def _hover_text(point: "Point") -> str:
    """Hover text of one point."""
    m, p = point.measured, point.predicted
    cell = f"{point.kind}, {point.context or 'as they are'}, batch {point.batch}"
    return (
        f"<b>{escape(point.configuration)}</b><br>{escape(cell)}<br>{digits(m['tokens_per_s'])}"
        f" measured, {digits(p['tokens_per_s'])} predicted tokens/s<br>{m['tokens_per_step']:.2f}"
        f" and {p['tokens_per_step']:.2f} tokens per step<br>{m['step_s'] / MILLI:.1f} and"
        f" {p['step_s'] / MILLI:.1f} ms per step"
    )


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
