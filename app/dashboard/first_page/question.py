"""Which question will a page's first run answer? As the dashboard's script reads it (`main`), from
a request alone.
"""

from collections.abc import Mapping
from dataclasses import replace

from app.dashboard.controls.bar import are_possible
from app.dashboard.held import OWN
from app.dashboard.pages import ASKED_BY_BUTTON
from app.dashboard.state import PAGES, State, from_query


def question(path: str, query: Mapping[str, str]) -> tuple[State, bool] | None:
    """The question, and whether the page will begin by saying what it is.

    None where the page has first to say what was wrong in its link, where its controls correct the
    question, where somebody has to give a file or to press a button, and where no page has this
    address.

    Args:
        path: of the request, without the slash at its start; empty for the first page.
        query: of the request.
    """
    named = query.get("page")
    page = named if named in PAGES else path or PAGES[0]
    given = {name: text for name, text in query.items() if not (name == "page" and named in PAGES)}
    state, wrong = from_query(given)
    if wrong or page not in PAGES or page == ASKED_BY_BUTTON:
        return None
    state = replace(state, page=page)
    needs_file = state.known_by == "upload" or state.model.startswith(OWN)
    return (
        None if needs_file or not are_possible(state) else (state, not given and page == PAGES[0])
    )
