"""How does a person read a search over policies of masked decoding? As one HTML file that needs no
network.

What to run at the smallest batch, the Pareto chart of every batch and context, the ranked policies
with their marks, and when the autoregressive twin is beaten. Leaves out the figure
(`app.render.charts.refining_figures`).
"""

from html import escape
from pathlib import Path

from app.answers.cells import MarkedCell
from app.answers.masked.rows import MaskedPolicies, MaskedPolicy
from app.render.charts.charts import Figure, digits, interval_words
from app.render.charts.refining_figures import refining_figure
from app.render.html.page import figure_card, html_page, html_table, plots_available, write_page


def write_pages(answer: MaskedPolicies, folder: Path) -> None:
    """Write the answer of `optimize` about masked blocks as a page, where plotly is installed.

    Raises:
        InputError: the place cannot be written.
    """
    if plots_available():
        write_page(refining_page(answer), folder / "report.html")


def refining_page(answer: MaskedPolicies) -> str:
    """The page that `write_pages` writes; the same answer gives the same text."""
    inputs = answer.inputs
    figures: dict[str, Figure] = {}
    title = f"{inputs['model']} on {inputs['device']}"
    parts = [
        (
            f'<header><p class="eyebrow">{escape(title)} · {escape(str(inputs["method"]))}</p>'
            f"<h1>{escape(headline(answer))}</h1>"
            f"<p>Agreement: {escape(answer.quality.words)}.</p></header>"
        ),
        '<section class="grid">',
        *_charts(answer, figures),
        "</section>",
        "<h2>Policies</h2>",
        html_table(_HEADS, [_cells(row) for row in answer.best_rows]),
        "<h2>Against the same model decoded token by token</h2>",
        _list(answer.twin_lines),
    ]
    if lines := answer.marked_lines:
        parts += ["<h2>Without an answer</h2>", _list(lines)]
    return html_page(title, "".join(parts), figures)


def headline(answer: MaskedPolicies) -> str:
    """What to run at the first batch and context, in plain words (not escaped)."""
    if not answer.choices:
        return f"No policy reaches the floor of {answer.quality.floor:.1%} agreement"
    first = answer.choices[0]
    where = f"at batch {first.batch:,} and context {first.context:,}"
    verdict = f"{digits(first.speedup)}× the speed of one token a pass with a KV cache"
    return f"Run {first.policy} {where}: {first.agreement:.1%} agreement, {verdict}"


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


def _cells(row: MaskedPolicy | MarkedCell) -> list[str]:
    first = [f"{row.batch:,}", f"{row.context:,}"]
    if isinstance(row, MarkedCell):
        return [*first, "", "", "", "", "", escape(row.reason)]
    quantities = ("tokens_per_step", "agreement", "tokens_per_s")
    spans = [getattr(row, f"{name}_interval", None) for name in quantities]
    shown = [
        digits(getattr(row, name)) + (f" ({interval_words(span)})" if span else "")
        for name, span in zip(quantities, spans, strict=True)
    ]
    return [*first, escape(row.policy), *shown, f"{digits(row.speedup)}×", row.marks]


def _charts(answer: MaskedPolicies, figures: dict[str, Figure]) -> list[str]:
    cards = []
    rows = [*answer.choices, *answer.alternatives]
    for context, batch in dict.fromkeys((row.context, row.batch) for row in rows):
        figure = refining_figure(rows, answer.quality.floor, context, batch)
        if figure is not None:
            where = f"Batch {batch:,}, context {context:,}"
            note = (
                "Diamonds: bolder than anything recorded. Dashed: the floor, and the same model"
                " token by token."
            )
            cards.append(figure_card(figures, f"front-{context}-{batch}", figure, where, note))
    return cards


def _list(lines: list[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"
