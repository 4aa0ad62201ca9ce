"""How does a person read a search over policies of masked decoding? As one HTML file that needs no
network.

What to run at the smallest batch, the Pareto chart of every batch and context, the ranked policies
with their marks, and when the autoregressive twin is beaten. Leaves out the figure
(`app.render.charts.refining_figures`).
"""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from app.render.charts.charts import Figure, digits, interval_words
from app.render.charts.refining_figures import refining_figure
from app.render.html.page import figure_card, html_page, html_table, whole_answer, write_page
from app.render.html.refining_words import (
    marked_lines,
    marks,
    quality_words,
    shown_rows,
    twin_lines,
)

Json = Mapping[str, Any]


def write_refining_page(answer: Json, path: Path) -> None:
    """Write the answer of `optimize` about masked blocks as a page.

    Args:
        answer: its JSON object.
        path: the HTML file; its folder is made.

    Raises:
        InputError: not such an answer, plotly is missing, or the place cannot be written.
    """
    with whole_answer("optimize about masked blocks"):
        page = refining_page(answer)
    write_page(page, path)


def refining_page(answer: Json) -> str:
    """The page that `write_refining_page` writes; the same answer gives the same text."""
    inputs, quality = answer["inputs"], answer["quality"]
    figures: dict[str, Figure] = {}
    title = f"{inputs['model']} on {inputs['device']}"
    on = quality_words(quality)
    parts = [
        (
            f'<header><p class="eyebrow">{escape(title)} · {escape(str(inputs["method"]))}</p>'
            f"<h1>{escape(headline(answer))}</h1><p>Agreement: {escape(on)}.</p></header>"
        ),
        '<section class="grid">',
        *_charts(answer, figures),
        "</section>",
        "<h2>Policies</h2>",
        html_table(_HEADS, [_cells(row) for row in shown_rows(answer)]),
        "<h2>Against the same model decoded token by token</h2>",
        _list(twin_lines(answer)),
    ]
    if lines := marked_lines(answer):
        parts += ["<h2>Without an answer</h2>", _list(lines)]
    return html_page(title, "".join(parts), figures)


def headline(answer: Json) -> str:
    """What to run at the first batch and context, in plain words (not escaped)."""
    floor = answer["quality"]["floor"]
    if not answer["choices"]:
        return f"No policy reaches the floor of {floor:.1%} agreement"
    first = answer["choices"][0]
    where = f"at batch {first['batch']:,} and context {first['context']:,}"
    verdict = f"{digits(first['speedup'])}× the speed of one token a pass with a KV cache"
    return f"Run {first['policy']} {where}: {first['agreement']:.1%} agreement, {verdict}"


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


def _cells(row: Json) -> list[str]:
    first = [f"{row['batch']:,}", f"{row['context']:,}"]
    if "policy" not in row:
        return [*first, "", "", "", "", "", escape(str(row["reason"]))]
    spans = (
        row["tokens_per_step_interval"],
        row["agreement_interval"],
        row.get("tokens_per_s_interval"),
    )
    values = (row["tokens_per_step"], row["agreement"], row["tokens_per_s"])
    shown = [
        digits(value) + (f" ({interval_words(span)})" if span else "")
        for value, span in zip(values, spans, strict=True)
    ]
    return [
        *first,
        escape(str(row["policy"])),
        *shown,
        f"{digits(row['speedup'])}×",
        ", ".join(marks(row)),
    ]


def _charts(answer: Json, figures: dict[str, Figure]) -> list[str]:
    cards = []
    rows = [*answer["choices"], *answer["alternatives"]]
    for context, batch in dict.fromkeys((row["context"], row["batch"]) for row in rows):
        figure = refining_figure(answer, context, batch)
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
