"""How sure is the answer of a page? The chip beside the headline of every page that predicts."""

from dataclasses import replace
from urllib.parse import urlencode

from app.answers.scoring.certainty import BORROWED, MEASURED, UNKNOWN, how_sure
from app.dashboard.answer import HowSure, PageAnswer
from app.dashboard.held import as_shown
from app.dashboard.question import deployment, drafters
from app.dashboard.state import State, address

MORE = "How far off predictions are"
COLOURS = {MEASURED: "green", BORROWED: "orange", UNKNOWN: "red"}


def sure_of(answer: PageAnswer, state: State) -> HowSure | None:
    """How sure the answer is: what its verb says, else what is said of the first drafter; None on
    pages that predict nothing.
    """
    if state.page in ("validation", "trace"):
        return None
    sure = answer.sure or how_sure(
        deployment(state), drafters(state)[0], context_tokens=state.context
    )
    return HowSure(
        verdict=sure.verdict,
        colour=COLOURS[sure.verdict],
        sentence=as_shown(sure.sentence),  # without the server's folders
        more=MORE,
        address=f"validation?{urlencode(address(replace(state, page='validation')))}",
    )
