"""How is an answer written into the document that a browser is sent first?

With the words, the order and the measures of the page that takes its place, so that nothing moves.
All text is escaped: links and recordings are untrusted. Leaves out what takes longer, and the
controls, of which only the words are there.
"""

import json
from functools import lru_cache
from html import escape
from pathlib import Path
from urllib.parse import urlencode

from app.dashboard import scripts
from app.dashboard.answer import Answer
from app.dashboard.answers.validation.badge import MORE, badge_link, badge_words
from app.dashboard.chart_component import drawn
from app.dashboard.code_block import code_html
from app.dashboard.controls.bar import BEHIND, COLUMNS, QUESTION, beside, summary, words
from app.dashboard.controls.widgets import label_of
from app.dashboard.state import PAGES, State, address
from app.dashboard.wording import OWN_RECORDING, TITLES, WHAT_IT_IS

HERE = Path(__file__).parent
TAKES_RECORDINGS = ("trace", "diffusion")


def document(state: State, answer: Answer, *, is_first: bool) -> str:
    """What stands in front of Streamlit's page until that has drawn the same answer.

    Args:
        state: the question.
        answer: of the page.
        is_first: whether the page begins by saying what it is.
    """
    parts = [
        _bar(state),
        f"<p>{escape(WHAT_IT_IS)}</p>" if is_first else "",
        f"<h1>{escape(TITLES[state.page])}</h1>",
        (
            f'<p class="first-box">{escape(OWN_RECORDING)}</p>'
            if state.page in TAKES_RECORDINGS
            else ""
        ),
        _words(answer),
        _badge(state),
        _engines(answer),
        '<div class="first-charts"></div>',
    ]
    return (
        f"<style>{_style()}</style>"
        f'<div id="rooftree-first"><script>{_source("scheme.js")}</script>{_pages(state)}'
        f'<main class="first-page" tabindex="0">{"".join(parts)}</main></div>'
        f'<script type="application/json" id="rooftree-charts">{_charts(state, answer)}</script>'
        f'<script type="module" async>{_source("replaced.js")}</script>'
    )


def _words(answer: Answer) -> str:
    """The component's words (`chart_component.js`), as it makes them."""
    numbers = "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(value)}</dd></div>"
        for label, value in answer.numbers
    )
    notes = "".join(f"<p>{escape(text)}</p>" for text in answer.notes)
    return (
        f'<div class="rooftree-answer"><h2>{escape(answer.headline)}</h2><dl>{numbers}</dl>'
        f'<div class="notes">{notes}</div></div>'
    )


def _badge(state: State) -> str:
    link = badge_link(state)
    return (
        f'<p>{escape(badge_words(state))} <a href="{escape(link)}">{escape(MORE)}</a></p>'
        if link
        else ""
    )


def _engines(answer: Answer) -> str:
    starts = (
        f'<div><p>{escape(each.title)}</p>{code_html(each.command)}<p class="first-box">Files'
        " beside it</p></div>"
        for each in answer.engines
    )
    return f'<div class="first-engines">{"".join(starts)}</div>' if answer.engines else ""


def _bar(state: State) -> str:
    """The words of the question's buttons, and the names of the controls under them."""
    titles = (*QUESTION, *BEHIND.get(state.page, {}))
    chips = "".join(
        f"<span><b>{escape(title)}</b> {escape(words(title, state))}</span>" for title in titles
    )
    controls = "".join(
        f"<span>{escape(label_of(name, state.page))}</span>" for name in beside(state)
    )
    rows = (
        f'<p class="first-controls" style="--columns: {COLUMNS}">{controls}</p>' if controls else ""
    )
    return (
        f'<p class="first-summary">{escape(summary(state))}</p><p'
        f' class="first-bar">{chips}</p>{rows}'
    )


def _pages(state: State) -> str:
    query = escape(urlencode(address(state)))
    links = (
        f'<a href="./{name}?{query}"{" aria-current=page" if name == state.page else ""}>{escape(TITLES[name])}</a>'
        for name in PAGES
    )
    return f'<nav aria-label="Pages">{"".join(links)}</nav>'


def _charts(state: State, answer: Answer) -> str:
    """The first charts as the component is told of them; no text of theirs ends the element that
    holds them.
    """
    told = {
        "name": "first",
        "asked": json.dumps(address(state)),
        "library": scripts.PLOTLY_ADDRESS,
        "numbers": [],
        "notes": [],
        "cards": drawn(answer.cards),
        "tables": [],
    }
    return json.dumps(told, allow_nan=False).replace("<", "\\u003c")


@lru_cache(maxsize=1)
def _style() -> str:
    return scripts.component_source("css") + _source("first_page.css")


@lru_cache(maxsize=8)
def _source(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")
