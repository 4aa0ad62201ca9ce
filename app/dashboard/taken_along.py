"""Which files does a reader take along from a page: a report, and the rows of the answer?

The report is one page of paper with what the page says; the rows are those that the command line of
the page writes with `--csv`. Leaves out engine files, which the answer names itself, and pictures
and numbers of one chart (`chart_component`).
"""

from collections.abc import Callable
from urllib.parse import urlencode, urlsplit

from app.dashboard.answer import DeferredAnswer, PageAnswer
from app.dashboard.answers.validation.badge import sure_of
from app.dashboard.held import as_shown
from app.dashboard.pages import completed, unfolded
from app.dashboard.state import State, address
from app.dashboard.wording import TITLES
from app.render.csv import csv_text
from app.render.html.sheet import Sheet, sheet_page
from app.render.json import jsonable
from hardware_profiles.errors import RooftreeError


def report(answer: PageAnswer, state: State, question: str, url: str) -> bytes:
    """A page's answer as one HTML page, with the charts that come later.

    Args:
        answer: of the page.
        state: the page's question.
        question: in words.
        url: that the browser shows, whose query may be behind; empty where it is not known.
    """
    rest = _part_of(answer, answer.deferred, lambda: completed(state))
    behind = _part_of(answer, answer.behind, lambda: unfolded(state))
    sure = sure_of(answer, state)
    return sheet_page(
        Sheet(
            title=TITLES[state.page],
            question=question,
            headline=answer.headline,
            sure=None if sure is None else (sure.verdict, sure.sentence),
            numbers=answer.numbers,
            figures=[(c.title, c.note, c.figure) for c in (*answer.cards, *rest.cards)],
            notes=[*answer.notes, *rest.notes, *behind.notes],
            command=answer.command,
            link=link_of(state, url),
        )
    ).encode()


def _part_of(
    answer: PageAnswer,
    part: Callable[[], DeferredAnswer] | None,
    shared: Callable[[], DeferredAnswer],
) -> DeferredAnswer:
    """What comes later on the page; nothing where that has no answer, as the page says itself."""
    if part is None:
        return DeferredAnswer()
    try:
        return part() if answer.own_file else shared()
    except RooftreeError:
        return DeferredAnswer()


def link_of(state: State, url: str) -> str:
    """The address of a state's page, on the server of an address that the browser shows."""
    here = urlsplit(url)
    place = f"{here.scheme}://{here.netloc}/" if here.netloc else ""
    return f"{place}{state.page}?{urlencode(address(state))}"


def rows(answer: PageAnswer) -> bytes:
    """The rows of a page's answer as its command line writes them with `--csv`, without the
    server's folders.

    Args:
        answer: whose command answers with rows.

    Raises:
        RooftreeError: the command has no answer.
    """
    assert answer.command_answer is not None
    return as_shown(csv_text(jsonable(answer.command_answer().own_rows))).encode()
