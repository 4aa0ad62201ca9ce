"""How does a person read an explained step or a break-even? As one HTML file that needs no network.

Builds pages from the rows of answers with the style and the guards of `page`: everything in an
answer is untrusted text, and a content security policy lets only the page's own scripts run. Leaves
out the figures (`roofline_chart`).
"""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from app.answers.breakeven.rows import BreakEvenRow, BreakEvens
from app.answers.cells import LISTED
from app.answers.explanations import ExplainedStep
from app.answers.pages import plots_available
from app.answers.predict.rows import PredictionRow, Predictions
from app.render.charts.charts import Figure
from app.render.charts.gain_curve import gain_curve_figure
from app.render.charts.roofline_chart import (
    BreakEvenQuantity,
    break_even_figure,
    roofline_figure,
    step_bar_figure,
)
from app.render.html.page import figure_card, html_page, html_table, write_page


def write_pages(answer: Predictions | BreakEvens, folder: Path) -> None:
    """Write the page of predictions that are explained or of break-evens, where plotly is
    installed.
    """
    if not plots_available():
        return
    if isinstance(answer, BreakEvens):
        write_break_even(answer, folder / "breakeven.html")
    elif answer.inputs["explain"]:
        write_explanations(answer, folder / "explain.html")


def write_explanations(answer: Predictions, path: Path) -> None:
    """Write the explanations of `predict --explain` as a page; cells that cannot be run have none.

    Args:
        answer: with predictions that are explained.
        path: the HTML file; its folder is made.

    Raises:
        InputError: plotly is missing, or the place cannot be written.
    """
    figures: dict[str, Figure] = {}
    parts = []
    for n, row in enumerate(answer.predictions):
        if not isinstance(row, PredictionRow) or row.explain is None:
            continue
        where = f"batch {row.batch:,}, context {row.context:,}, {row.draft_tokens} draft tokens"
        parts.append(
            "<header><p"
            f' class="eyebrow">{escape(where)}</p><h1>{escape(row.explain.sentence)}</h1></header><section'
            ' class="grid">'
            + figure_card(
                figures,
                f"roofline-{n}",
                roofline_figure(row.explain, answer.roofs),
                "Roofline",
                "Every operation of the step; size: its share of the time, colour: what it waits"
                " for.",
            )
            + figure_card(
                figures,
                f"step-{n}",
                step_bar_figure(row.explain),
                "Where the step’s time goes",
                "One device; colour: what the time waits for. Launch: all fixed times of kernels.",
            )
            + "</section>"
            + _levers(row.explain)
        )
    write_page(_page(answer.inputs, "Explained step", "".join(parts), figures), path)


def write_break_even(answer: BreakEvens, path: Path) -> None:
    """Write the answer of `breakeven` as a page of heat maps over batch and context.

    Args:
        answer: with a point for every batch and context.
        path: the HTML file; its folder is made.

    Raises:
        InputError: plotly is missing, or the place cannot be written.
    """
    figures: dict[str, Figure] = {}
    what = "do masked blocks" if answer.is_masked else "does drafting"
    parts = [f'<header><h1>When {what} pay?</h1></header><section class="grid">']
    able = [p for p in answer.points if isinstance(p, BreakEvenRow)]
    names = [name for name in LISTED if len({getattr(p, name) for p in able}) > 1]
    groups: dict[tuple[Any, ...], list[BreakEvenRow]] = {}
    for p in able:
        groups.setdefault((p.draft_tokens, *(getattr(p, name) for name in names)), []).append(p)
    of: BreakEvenQuantity = "least_tokens_per_step" if answer.is_masked else "least_acceptance"
    meaning = (
        "Tokens a pass at which the model is as fast as token by token."
        if answer.is_masked
        else "Constant rate of one token at which the method equals plain decoding."
    )
    title = of.replace("_", " ")
    for (length, *cell), points in groups.items():
        plural = "s" if length != 1 else ""
        draft, key = (
            ", ".join([f"{length} draft token{plural}" if length else "masked blocks", *cell]),
            "-".join(map(str, (length or "masked", *cell))),
        )
        parts.append(
            figure_card(
                figures,
                f"least-{key}",
                break_even_figure(points, of=of, title=title),
                f"{title.capitalize()}, {draft}",
                meaning,
            )
        )
        if any(p.speedup is not None for p in points):
            speedup = break_even_figure(points, of="speedup", title="speedup (×)")
            parts.append(
                figure_card(
                    figures,
                    f"speedup-{key}",
                    speedup,
                    f"Speedup, {draft}",
                    "At the acceptance asked about: blue pays, orange loses.",
                )
            )
    for place, curve in enumerate(answer.curves or ()):
        where = "".join(f", {getattr(curve, name)}" for name in names)
        parts.append(
            figure_card(
                figures,
                f"curve-{place}",
                gain_curve_figure(curve),
                f"Speedup, {curve.where}{where}",
                f"{curve.words[:1].upper()}{curve.words[1:]}.",
            )
        )
    parts.append("</section>")
    write_page(_page(answer.inputs, "Break-even", "".join(parts), figures), path)


def _levers(explained: ExplainedStep) -> str:
    lines = [
        (
            escape(e.lever.replace("_", " ")),
            f"{e.step:+.2f}",
            f"{e.tokens_per_s:+.2f}",
            f"{e.speedup:+.2f}",
        )
        for e in explained.elasticities
    ]
    first = html_table(("1 % more …", "step time, %", "tokens/s, %", "speedup, %"), lines)
    parts = [
        (escape(v.term), f"{100 * v.step_ratio:.0f}", f"{100 * v.speedup_ratio:.0f}")
        for v in explained.variance
    ]
    second = html_table(("interval comes from", "step time, %", "speedup, %"), parts)
    return (
        f'<section class="card"><h2>What would move it</h2>{first}<h2>How'
        f" sure</h2>{second}</section>"
    )


def _page(inputs: Mapping[str, Any], name: str, body: str, figures: Mapping[str, Figure]) -> str:
    question = " · ".join(
        str(inputs[key]) for key in ("model", "device", "method", "engine") if inputs.get(key)
    )
    return html_page(
        f"{name}: {question}", f'<p class="eyebrow">{escape(question)}</p>{body}', figures
    )
