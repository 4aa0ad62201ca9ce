"""How does a person read a search over policies of masked decoding? As one HTML file that needs no
network.

What to run at the smallest batch, the Pareto chart of every batch and context, the policies on its
front, and when the autoregressive twin is beaten. Leaves out the figure
(`app.render.charts.refining_figures`).
"""

from html import escape

from app.answers.deployment_words import deployment_words
from app.answers.optimize.headline import headline
from app.answers.optimize.recommended import Recommended
from app.answers.optimize.rows import PolicyRow
from app.render.charts.charts import Figure, digits, interval_words
from app.render.charts.refining_figures import refining_figure
from app.render.html.page import figure_card, html_page, html_table


def refining_page(answer: Recommended) -> str:
    """The page of an answer about masked blocks; the same answer gives the same text.

    Args:
        answer: with choices, and what quality means.
    """
    assert answer.quality is not None
    inputs = answer.inputs
    figures: dict[str, Figure] = {}
    title = deployment_words(inputs)
    whose = escape(inputs["against"] or "the same model")
    parts = [
        (
            f'<header><p class="eyebrow">{escape(title)} · {escape(str(inputs["method"]))}</p>'
            f"<h1>{escape(headline(answer.rankings))}</h1>"
            f"<p>Agreement: {escape(answer.quality.words)}.</p></header>"
        ),
        '<section class="grid">',
        *_charts(answer, figures),
        "</section>",
        "<h2>Policies</h2>",
        html_table(_HEADS, [_cells(row) for row in answer.front_rows]),
        f"<h2>Against {whose} decoded token by token</h2>",
        _list(answer.twin_lines),
    ]
    if lines := answer.unplayed_lines:
        parts += ["<h2>Without an answer</h2>", _list(lines)]
    return html_page(title, "".join(parts), figures)


_HEADS = (
    "batch",
    "context",
    "policy",
    "tokens per pass",
    "agreement",
    "tokens/s",
    "over the twin",
    "mark",
)


def _cells(row: PolicyRow) -> list[str]:
    quantities = ("tokens_per_step", "agreement", "tokens_per_s")
    spans = [getattr(row, f"{name}_interval", None) for name in quantities]
    shown = [
        digits(getattr(row, name)) + (f" ({interval_words(span)})" if span else "")
        for name, span in zip(quantities, spans, strict=True)
    ]
    where = [f"{row.batch:,}", f"{row.context:,}"]
    return [*where, escape(row.draft), *shown, f"{digits(row.speedup)}×", row.marks]


def _charts(answer: Recommended, figures: dict[str, Figure]) -> list[str]:
    cards = []
    assert answer.quality is not None
    ranked = [row for row in answer.rankings.ranked if isinstance(row, PolicyRow)]
    for context, batch in dict.fromkeys((row.context, row.batch) for row in ranked):
        figure = refining_figure(
            ranked, answer.quality.floor, context, batch, answer.rankings.tpot_limit_s
        )
        if figure is not None:
            where = f"Batch {batch:,}, context {context:,}"
            note = (
                "Diamonds: bolder than anything recorded. Dashed: the floor, and"
                f" {answer.inputs['against'] or 'the same model'} token by token."
            )
            cards.append(figure_card(figures, f"front-{context}-{batch}", figure, where, note))
    return cards


def _list(lines: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"
