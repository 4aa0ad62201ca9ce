"""How does a person compare recordings? Acceptance over depth, by drafter and prompt kind, as one
HTML file.

Leaves out the numbers themselves (`app.answers.recordings.compare`).
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path

from app.answers.recordings.compare import ComparedRecording, ComparedRecordings
from app.render.charts.charts import DASHES, HEIGHT_PIXELS, PALETTE, Figure, digits, framed
from app.render.html.page import figure_card, html_page, html_table, write_page
from hardware_profiles.errors import InputError


def write_plot(answer: ComparedRecordings, path: Path) -> None:
    """Write a figure per prompt kind, one line per recording, and a table of tokens per step.

    Args:
        answer: the recordings.
        path: the HTML file; its folder is made.

    Raises:
        InputError: no row has a step, plotly is missing, or the place cannot be written.
    """
    drawn = [row for row in answer.rows if row.acceptance_by_depth is not None]
    if not drawn:
        raise InputError("hold no step to draw", key="--plot")
    figures: dict[str, Figure] = {}
    names = list(dict.fromkeys(name(row) for row in drawn))
    cards = []
    for index, kind in enumerate(dict.fromkeys(row.kind for row in reversed(drawn))):
        own = [row for row in drawn if row.kind == kind]
        note = f"{own[0].requests} prompts, {own[0].tokens:,} tokens."
        cards.append(
            figure_card(figures, f"plot-{index}", acceptance_figure(own, names), kind, note)
        )
    head = "<header><h1>Acceptance by depth</h1></header>"
    body = (
        f'{head}<section class="grid">{"".join(cards)}</section><section'
        f' class="card">{_table(drawn)}</section>'
    )
    write_page(html_page("acceptance by depth", body, figures, key="--plot"), path)


def name(row: ComparedRecording) -> str:
    """What a recording is called, in words: drafter and temperature."""
    heat = (
        ""
        if row.temperature is None
        else "greedy"
        if row.temperature == 0
        else f"T = {row.temperature:g}"
    )
    return f"{row.drafter}, {heat}" if heat else row.drafter


def acceptance_figure(rows: Sequence[ComparedRecording], names: Sequence[str]) -> Figure:
    """Share of steps whose first d draft tokens are all kept, over d; colours go by the place in
    `names`.
    """
    lines: list[Figure] = []
    deepest = 1
    for row in rows:
        shares = row.acceptance_by_depth
        if shares is None:
            continue
        place = names.index(name(row))
        color, dash = PALETTE[place % len(PALETTE)], DASHES[place // len(PALETTE) % len(DASHES)]
        depths, deepest = list(range(1, len(shares) + 1)), max(deepest, len(shares))
        lines.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": escape(name(row)),
                "x": depths,
                "y": list(shares),
                "line": {"color": color, "dash": dash, "width": 2},
                "marker": {"color": color, "size": 7},
                "hoverinfo": "text",
                "hovertext": [
                    f"<b>{escape(name(row))}</b><br>depth {depth}: {digits(100 * share)} %"
                    for depth, share in zip(depths, shares, strict=True)
                ],
            }
        )
    bottom = {"title": {"text": "depth (draft tokens)"}, "dtick": 1 if deepest <= 12 else None}
    side = {
        "title": {"text": "steps that keep so many"},
        "tickformat": ".0%",
        "rangemode": "tozero",
    }
    return framed(lines, bottom, side, height=HEIGHT_PIXELS + 60)


def _table(rows: Sequence[ComparedRecording]) -> str:
    lines = []
    for row in rows:
        assert row.tokens_per_step is not None and row.tokens_per_step_interval is not None
        low, high = row.tokens_per_step_interval
        cells = (
            row.kind,
            str(row.draft_tokens),
            digits(row.tokens_per_step),
            f"{digits(low)}–{digits(high)}",
        )
        lines.append((escape(name(row)), *map(escape, cells)))
    return html_table(("recording", "prompts", "K", "tokens per step", "80 %"), lines)
