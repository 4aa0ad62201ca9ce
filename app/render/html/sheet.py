"""How does one answer stand on one page of paper? As an HTML file that needs no network.

Headline, how sure it is, numbers, charts, notes, the command that gives the same answer and the link
to it. Everything comes in as text and is escaped here. Leaves out tables, which CSV has.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from app.render.charts.charts import Figure
from app.render.html.page import figure_card, html_page, sure_badge


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    """What stands on the page.

    Args:
        title: of the page that answers.
        question: in words.
        headline: in one sentence.
        sure: a verdict and the sentence why; None: nothing is said of it.
        numbers: label and value with its unit.
        figures: title, note and figure, in Plotly's JSON form.
        notes: what the answer rests on.
        command: that gives the same answer.
        link: to the page; one that is not of the web is text alone.
    """

    title: str
    question: str
    headline: str
    sure: tuple[str, str] | None
    numbers: Sequence[tuple[str, str]]
    figures: Sequence[tuple[str, str, Figure]]
    notes: Sequence[str]
    command: str
    link: str


def sheet_page(sheet: Sheet) -> str:
    """The page as HTML; the same sheet gives the same text.

    Raises:
        InputError: plotly is missing.
    """
    figures: dict[str, Figure] = {}
    cards = "".join(
        figure_card(figures, f"chart-{place}", figure, title, note)
        for place, (title, note, figure) in enumerate(sheet.figures)
    )
    tiles = "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(value)}</dd></div>"
        for label, value in sheet.numbers
    )
    sure = "" if sheet.sure is None else f'<p class="badges">{sure_badge(*sheet.sure)}</p>'
    notes = "".join(f"<li>{escape(note)}</li>" for note in sheet.notes)
    body = (
        f'<div class="sheet"><header><p class="eyebrow">{escape(sheet.title)} ·'
        f" {escape(sheet.question)}</p><h1>{escape(sheet.headline)}</h1>{sure}"
        f'<dl class="tiles">{tiles}</dl></header><section class="grid">{cards}</section>'
        f'<section class="card">{f"<ul>{notes}</ul>" if notes else ""}'
        f"<p>The command line that gives the same answer, and the page:</p>"
        f"<p><code>{escape(sheet.command)}</code></p><p>{_link(sheet.link)}</p></section></div>"
    )
    return html_page(f"{sheet.title} {sheet.question}", body, figures)


def _link(address: str) -> str:
    if not address.startswith(("http://", "https://")):
        return escape(address)
    return f'<a href="{escape(address)}">{escape(address)}</a>'
