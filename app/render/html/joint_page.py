"""How does a person read a joint search? As one HTML file that needs no network.

What to run and how sure that is, the front, the designs that come next, and what could not run.
Leaves out the figure (`app.render.charts.joint_figures`).
"""

from html import escape

from app.answers.numbers import digits
from app.answers.optimize.designs import Designs
from app.answers.optimize.recommended import Recommended
from app.answers.optimize.rows import DesignRow, FinalistRow
from app.answers.placements import MarkedPlacement
from app.render.charts.charts import Figure, interval_words
from app.render.charts.joint_figures import front_figure
from app.render.html.page import figure_card, html_page, html_table
from hardware_profiles.units import MILLI


def joint_page(answer: Recommended) -> str:
    """The page of an answer to a load; the same answer gives the same text.

    Args:
        answer: with designs.
    """
    figures: dict[str, Figure] = {}
    designs = answer.designs
    unit = designs.objective.unit
    title = f"{answer.inputs['model']}, {unit}"
    card = figure_card(
        figures,
        "front",
        front_figure(designs),
        "Speed for a user against throughput of a device",
        "Predicted, of busy replicas whatever the limits. The star is the design to run.",
    )
    parts = [
        f'<header><p class="eyebrow">{escape(title)}</p><h1>{escape(designs.headline)}</h1>'
        f"<p>{escape(f'{designs.tied_words} {designs.sure_words}.'.strip())}</p></header>",
        f'<section class="grid">{card}</section>',
        "<h2>The best design of each drafter and placement</h2>",
        _limits(designs),
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
            [_design_cells(row) for row in (*designs.choices, *designs.alternatives)],
        ),
        "<h2>The front</h2>",
        html_table(
            ("design", "batch cap", "token budget", "tokens/s per user", "tokens/s per device"),
            [_front_cells(row) for row in designs.front],
        ),
    ]
    if designs.quality is not None:
        parts.append(f"<p>Agreement: {escape(designs.quality.words)}.</p>")
    lines = [
        [escape(_placement_words(row)), escape(row.reason)]
        for row in answer.unmet
        if isinstance(row, MarkedPlacement)
    ]
    if lines:
        parts += ["<h2>Without an answer</h2>", html_table(("placement", "why"), lines)]
    if unplayed := answer.unplayed_lines:
        listed = "".join(f"<li>{escape(line)}</li>" for line in unplayed)
        parts.append(f"<ul>{listed}</ul>")
    return html_page(title, "".join(parts), figures)


def _limits(designs: Designs) -> str:
    meaning = designs.limits.meaning
    return f"<p>Limits: {escape(meaning)}.</p>" if meaning else ""


def _design_cells(row: FinalistRow) -> list[str]:
    run = row.simulated
    return [
        escape(row.marked_design),
        f"{row.devices:,}",
        f"{row.batch_cap:,}",
        f"{row.token_budget:,}",
        f"{digits(row.objective)} ({interval_words(row.objective_interval)})",
        digits(row.seen_tpot_s / MILLI),
        digits(row.seen_ttft_s / MILLI),
        "" if run is None else f"{100 * (run.objective_ratio - 1):+.1f} %",
        row.loses or "",
    ]


def _front_cells(row: DesignRow) -> list[str]:
    return [
        escape(row.design),
        f"{row.batch_cap:,}",
        f"{row.token_budget:,}",
        digits(row.tokens_per_s_per_user),
        digits(row.tokens_per_s_per_device),
    ]


def _placement_words(row: MarkedPlacement) -> str:
    return " ".join(filter(None, (row.device, row.layout, row.dtype, row.kv_dtype)))
