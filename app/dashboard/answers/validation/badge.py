"""How sure is the answer of a page? The chip beside the headline of every page that predicts."""

from dataclasses import replace
from urllib.parse import urlencode

from app.answers.scoring.certainty import (
    BORROWED,
    LONG_PROMPTS,
    MEASURED,
    UNKNOWN,
    Certainty,
    how_sure,
)
from app.dashboard.answer import HowSure, PageAnswer
from app.dashboard.held import as_shown
from app.dashboard.question import deployment, drafters
from app.dashboard.state import State, address

MORE = "How far off predictions are"
_NEAREST = {
    MEASURED: "It was measured:",
    BORROWED: "The like of it was measured:",
    UNKNOWN: "Nothing like it was measured; of all there are",
}
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
        brief=_brief(sure),
        sentence=as_shown(sure.sentence),  # without the server's folders
        more=MORE,
        address=f"validation?{urlencode(address(replace(state, page='validation')))}",
    )


def _brief(sure: Certainty) -> str:
    """How far off predictions were of the nearest runs, in one line."""
    errors = [100 * group.median_error_ratio for group in sure.nearest]
    least, most = f"{min(errors):.1f}", f"{max(errors):.1f}"
    off = f"{least} %" if least == most else f"{least} to {most} %"
    runs = sum(group.runs for group in sure.nearest)
    lower = "; at this context acceptance is likely lower" if sure.caution == LONG_PROMPTS else ""
    first = f"{sure.caution}; " if sure.caution and not lower else ""
    return (
        f"{first}{_NEAREST[sure.verdict]} {runs:,} runs, predicted {off} off in the median{lower}"
    )
