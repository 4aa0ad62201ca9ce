"""How does a person read an explained step or a break-even? As one HTML file that needs no network.

Builds pages from JSON answers with the style and the guards of `report`: everything in an answer is
untrusted text, and a content security policy lets only the page's own scripts run. Leaves out the
figures (`roofline_chart`).
"""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from app.answers.breakeven.rows import BreakEvens
from app.answers.pages import plots_available
from app.answers.predict.rows import Predictions
from app.render.charts.charts import Figure
from app.render.charts.roofline_chart import break_even_figure, roofline_figure, step_bar_figure
from app.render.html.page import figure_card, html_page, html_table, write_page
from app.render.json import jsonable

Json = Mapping[str, Any]


def write_pages(answer: Predictions | BreakEvens, folder: Path) -> None:
    """Write the page of predictions that are explained or of break-evens, where plotly is
    installed.
    """
    if not plots_available():
        return
    if isinstance(answer, BreakEvens):
        write_break_even(jsonable(answer), folder / "breakeven.html")
    elif answer.inputs["explain"]:
        write_explanations(jsonable(answer), answer.roofs, folder / "explain.html")


def write_explanations(answer: Json, roofs: Json, path: Path) -> None:
    """Write the explanations of `predict --explain` as a page.

    Args:
        answer: its JSON object; every prediction has an `explain`.
        roofs: bandwidth and peak of the device.
        path: the HTML file; its folder is made.

    Raises:
        InputError: plotly is missing, or the place cannot be written.
    """
    figures: dict[str, Figure] = {}
    parts = []
    for n, row in enumerate(answer["predictions"]):
        explained = row["explain"]
        where = (
            f"batch {row['batch']:,}, context {row['context']:,}, {row['draft_tokens']} draft"
            " tokens"
        )
        parts.append(
            "<header><p"
            f' class="eyebrow">{escape(where)}</p><h1>{escape(explained["sentence"])}</h1></header><section'
            ' class="grid">'
            + figure_card(
                figures,
                f"roofline-{n}",
                roofline_figure(explained, roofs),
                "Roofline",
                "Every operation of the step; size: its share of the time, colour: what it waits"
                " for.",
            )
            + figure_card(
                figures,
                f"step-{n}",
                step_bar_figure(explained),
                "Where the step’s time goes",
                "One device; colour: what the time waits for. Launch: all fixed times of kernels.",
            )
            + "</section>"
            + _levers(explained)
        )
    write_page(_page(answer, "Explained step", "".join(parts), figures), path)


def write_break_even(answer: Json, path: Path) -> None:
    """Write the answer of `breakeven` as a page of heat maps over batch and context.

    Args:
        answer: its JSON object.
        path: the HTML file; its folder is made.

    Raises:
        InputError: plotly is missing, or the place cannot be written.
    """
    figures: dict[str, Figure] = {}
    parts = ['<header><h1>When does drafting pay?</h1></header><section class="grid">']
    able = [p for p in answer["points"] if p.get("feasible", True)]
    names = [name for name in ("model", "device", "engine") if len({p.get(name) for p in able}) > 1]
    groups: dict[tuple[Any, ...], list[Json]] = {}
    for p in able:
        groups.setdefault((p["draft_tokens"], *(p[name] for name in names)), []).append(p)
    for (length, *cell), points in groups.items():
        plural = "s" if length != 1 else ""
        draft, key = (
            ", ".join([f"{length} draft token{plural}", *cell]),
            "-".join(map(str, (length, *cell))),
        )
        least = break_even_figure(points, of="least_acceptance", title="least acceptance")
        parts.append(
            figure_card(
                figures,
                f"least-{key}",
                least,
                f"Least acceptance, {draft}",
                "Constant rate of one token at which the method equals plain decoding.",
            )
        )
        if any("speedup" in p for p in points):
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
    parts.append("</section>")
    write_page(_page(answer, "Break-even", "".join(parts), figures), path)


def _levers(explained: Json) -> str:
    lines = [
        (
            escape(e["lever"].replace("_", " ")),
            f"{e['step']:+.2f}",
            f"{e['tokens_per_s']:+.2f}",
            f"{e['speedup']:+.2f}",
        )
        for e in explained["elasticities"]
    ]
    first = html_table(("1 % more …", "step time, %", "tokens/s, %", "speedup, %"), lines)
    parts = [
        (escape(v["term"]), f"{100 * v['step_ratio']:.0f}", f"{100 * v['speedup_ratio']:.0f}")
        for v in explained["variance"]
    ]
    second = html_table(("interval comes from", "step time, %", "speedup, %"), parts)
    return (
        f'<section class="card"><h2>What would move it</h2>{first}<h2>How'
        f" sure</h2>{second}</section>"
    )


def _page(answer: Json, name: str, body: str, figures: Mapping[str, Figure]) -> str:
    inputs = answer.get("inputs") or {}
    question = " · ".join(
        str(inputs[key]) for key in ("model", "device", "method", "engine") if inputs.get(key)
    )
    return html_page(
        f"{name}: {question}", f'<p class="eyebrow">{escape(question)}</p>{body}', figures
    )
