"""How does an answer reach the page? As one message, drawn in place.

Streamlit's own chart element is taken down and built anew at every change of its figure, which costs most of a
slider's redraw; this one keeps the charts and lets Plotly change them. Leaves out what an answer says.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import streamlit as st

from app.dashboard.answer import Card, Row

LOADED = "plotly-loaded"


def show(
    key: str,
    *,
    asked: str,
    headline: str = "",
    numbers: Sequence[tuple[str, str]] = (),
    notes: Sequence[str] = (),
    cards: Sequence[Card] = (),
    tables: Sequence[tuple[str, Sequence[Row]]] = (),
) -> None:
    """Draw words, numbers, charts and tables; the page's element of this key is changed in place.

    Args:
        key: of the element.
        asked: what the answer answers; the element's `data-shown` says it once the charts in sight do.
        headline: in one sentence.
        numbers: label and value with its unit.
        notes: paragraphs.
        cards: charts.
        tables: title and rows; every row has the same columns.
    """
    _board()(key=key, data={
        "name": key, "asked": asked, "headline": headline, "numbers": numbers, "notes": notes,
        "cards": [{"title": card.title, "note": card.note, "figure": card.figure} for card in cards],
        "tables": [
            {"title": title, "columns": list(rows[0]), "rows": [list(row.values()) for row in rows]}
            for title, rows in tables if rows
        ],
    })  # fmt: skip


def library() -> None:
    """Send Plotly's script to the browser, once per session: the browser says that it has it."""
    if not st.session_state.get(LOADED):
        _library()(key="plotly", on_loaded_change=_loaded)


def _loaded() -> None:
    st.session_state[LOADED] = True


@lru_cache(maxsize=1)
def _board() -> Callable[..., Any]:
    folder = Path(__file__).parent
    script, style = ((folder / name).read_text(encoding="utf-8") for name in ("board.js", "board.css"))
    return st.components.v2.component("rooftree-board", js=script, css=style, isolate_styles=False)


@lru_cache(maxsize=1)
def _library() -> Callable[..., Any]:
    from plotly.offline import get_plotlyjs

    told = 'export default ({setStateValue}) => {dispatchEvent(new Event("rooftree-plotly"));'
    return st.components.v2.component("rooftree-plotly", js=f'{get_plotlyjs()}\n{told}setStateValue("loaded", true);}}')
