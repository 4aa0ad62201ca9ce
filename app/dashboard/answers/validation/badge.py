"""How sure is the answer of a page? The chip beside the headline of every page that predicts."""

from dataclasses import replace
from urllib.parse import urlencode

from app.answers.scoring.certainty import BORROWED, MEASURED, UNKNOWN, Certainty, how_sure
from app.dashboard.answer import PageAnswer
from app.dashboard.question import deployment, drafters
from app.dashboard.state import State, address

MORE = "How far off predictions are"
COLOURS = {MEASURED: "green", BORROWED: "orange", UNKNOWN: "red"}


def badge_link(state: State) -> str | None:
    """Where more is said of it, relative to the page; None on pages that predict nothing."""
    if state.page in ("validation", "trace"):
        return None
    return f"validation?{urlencode(address(replace(state, page='validation')))}"


def sure_of(answer: PageAnswer, state: State) -> Certainty:
    """How sure the answer is: what its verb says, else what is said of the first drafter."""
    return answer.sure or how_sure(deployment(state), drafters(state)[0])
