"""How is an answer drawn on the page?

A Streamlit component of our own receives an answer as one message and updates it in place.
Streamlit's chart element is removed and built again whenever its figure changes, which takes most
of the time of a slider's redraw; this one leaves the charts in the page and lets Plotly change
them. Leaves out what an answer contains.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import streamlit as st

from app.dashboard import scripts
from app.dashboard.answer import Card, HowSure, Row
from app.dashboard.wording import file_stem

LOADED = "plotly-loaded"


def show(
    key: str,
    *,
    query: str,
    question: str,
    on_press: Callable[[str], None],
    headline: str = "",
    sure: HowSure | None = None,
    numbers: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
    cards: Sequence[Card] = (),
    tables: Sequence[tuple[str, Sequence[Row]]] = (),
) -> None:
    """Draw words, numbers, charts and tables; the page's element of this key is changed in place.

    Args:
        key: of the element.
        query: what the answer answers; the element's `data-shown` says it once the charts in sight
            do.
        question: in words, for the names of pictures and tables.
        on_press: called with what a point of a chart asks when it is pressed: a query of a link,
            which comes from the browser and is not checked yet.
        headline: in one sentence.
        sure: how sure the answer is; None: nothing is said of it.
        numbers: label and value with its unit.
        notes: paragraphs.
        cards: charts.
        tables: title and rows; every row has the same columns.
    """
    _component()(
        key=key,
        on_pressed_change=lambda: on_press(str(st.session_state[key].pressed)),
        data={
            "name": key,
            "asked": query,
            "question": question,
            "library": scripts.PLOTLY_ADDRESS,
            "headline": headline,
            "sure": None if sure is None else asdict(sure),
            "numbers": numbers,
            "notes": notes,
            "cards": drawn(cards, question),
            "tables": [
                {
                    "title": title,
                    "columns": list(rows[0]),
                    "rows": [list(row.values()) for row in rows],
                }
                for title, rows in tables
                if rows
            ],
        },
    )


def drawn(cards: Sequence[Card], question: str) -> list[dict[str, Any]]:
    """Charts as the component is told of them.

    Args:
        cards: charts.
        question: in words.
    """
    return [
        {
            "title": card.title,
            "note": card.note,
            "press": card.press,
            "figure": card.figure,
            "file": file_stem(card.title, question),
        }
        for card in cards
    ]


def library() -> None:
    """Send Plotly's script to the browser where it can have no file: once per session."""
    if not scripts.PLOTLY_ADDRESS:
        with st.container():
            _sent()


@st.fragment
def _sent() -> None:
    """A part of its own: the browser's answer that it has the script draws nothing else again."""
    if not st.session_state.get(LOADED):
        _library()(key="plotly", on_loaded_change=_loaded)


def _loaded() -> None:
    st.session_state[LOADED] = True


@lru_cache(maxsize=1)
def _component() -> Callable[..., Any]:
    script, style = scripts.component_source("js"), scripts.component_source("css")
    return st.components.v2.component("rooftree-answer", js=script, css=style, isolate_styles=False)


@lru_cache(maxsize=1)
def _library() -> Callable[..., Any]:
    from plotly.offline import get_plotlyjs

    script = 'export default ({setStateValue}) => {dispatchEvent(new Event("rooftree-plotly"));'
    return st.components.v2.component(
        "rooftree-plotly", js=f'{get_plotlyjs()}\n{script}setStateValue("loaded", true);}}'
    )
