"""How does a person read a joint search? As one HTML file that needs no network.

What to run and how sure that is, the front, the designs that come next, and what could not run.
Leaves out the figure (`app.render.charts.joint_figures`).
"""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from app.render.charts.charts import Figure, digits, interval_words
from app.render.charts.joint_figures import front_figure
from app.render.charts.joint_words import design_words, headline, marked_words, sure_words
from app.render.html.page import figure_card, html_page, html_table, whole_answer, write_page
from hardware_profiles.units import MILLI

Json = Mapping[str, Any]


def write_joint_page(answer: Json, path: Path) -> None:
    """Write the answer of `optimize --search full` as a page.

    Args:
        answer: its JSON object.
        path: the HTML file; its folder is made.

    Raises:
        InputError: not such an answer, plotly is missing, or the place cannot be written.
    """
    with whole_answer("optimize --search full"):
        page = joint_page(answer)
    write_page(page, path)


def joint_page(answer: Json) -> str:
    """The page that `write_joint_page` writes; the same answer gives the same text."""
    figures: dict[str, Figure] = {}
    title = f"{answer['inputs']['model']}, {answer['objective']['unit']}"
    note = "Predicted, of busy replicas whatever the limits. The star is the design to run."
    card = figure_card(
        figures,
        "front",
        front_figure(answer),
        "Speed for a user against throughput of a device",
        note,
    )
    designs = [_cells(answer, row) for row in (*answer["choices"], *answer["alternatives"])]
    unit = answer["objective"]["unit"]
    parts = [
        f'<header><p class="eyebrow">{escape(title)}</p><h1>{escape(headline(answer))}</h1>'
        f"<p>{escape(sure_words(answer))}.</p></header>",
        f'<section class="grid">{card}</section>',
        "<h2>The best design of each drafter and placement</h2>",
        _limits(answer),
        html_table(
            (
                "design",
                "devices",
                "batch cap",
                "token budget",
                unit,
                "TPOT (ms)",
                "TTFT (ms)",
                "simulated against predicted",
                "loses to the first",
            ),
            designs,
        ),
        "<h2>The front</h2>",
        html_table(
            ("design", "batch cap", "token budget", "tokens/s per user", "tokens/s per device"),
            [_front_cells(row) for row in answer["front"]],
        ),
    ]
    if answer["unmet"]:
        lines = [
            [escape(_unplaced_words(row)), escape(str(row["reason"]))] for row in answer["unmet"]
        ]
        parts += ["<h2>Without an answer</h2>", html_table(("placement", "why"), lines)]
    return html_page(title, "".join(parts), figures)


def _limits(answer: Json) -> str:
    meaning = answer["limits"]["meaning"]
    return f"<p>Limits: {escape(meaning)}.</p>" if meaning else ""


def _cells(answer: Json, row: Json) -> list[str]:
    run, lost = row["simulated"], row["loses_to_winner_probability"]
    seen = run or row
    return [
        escape(marked_words(row)),
        f"{row['devices']:,}",
        f"{row['batch_cap']:,}",
        f"{row['token_budget']:,}",
        f"{digits(row['objective'])} ({interval_words(row['objective_interval'])})",
        digits(seen["tpot_s"] / MILLI),
        digits(seen["ttft_s"] / MILLI),
        "" if run is None else f"{100 * (run['objective_ratio'] - 1):+.1f} %",
        "" if lost is None else f"{100 * lost:.0f} %",
    ]


def _front_cells(row: Json) -> list[str]:
    return [
        escape(design_words(row)),
        f"{row['batch_cap']:,}",
        f"{row['token_budget']:,}",
        digits(row["tokens_per_s_per_user"]),
        digits(row["tokens_per_s_per_device"]),
    ]


def _unplaced_words(row: Json) -> str:
    return " ".join(
        str(row[key]) for key in ("device", "layout", "dtype", "kv_dtype") if row[key] is not None
    )
