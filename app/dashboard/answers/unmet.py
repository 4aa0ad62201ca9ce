"""What does not hold, as marked rows: batches that do not fit or miss a limit, with the nearest
that would hold.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from app.answers.feasible import Change, change_words
from app.answers.optimize.choices import unmet_rows
from app.dashboard.answer import Row
from app.dashboard.question import read_question
from app.dashboard.state import State
from app.dashboard.wording import as_words
from app.render.json import jsonable
from costmodel.optimizers.allowed import Unmet

TITLE = "What does not hold"
MISSED = {
    "memory": "does not fit",
    "limits": "misses the limits",
    "quality": "has no policy that agrees enough",
}


def missed(state: State, unmet: Sequence[Unmet]) -> list[tuple[str, Sequence[Row]]]:
    """A table of the batches at which nothing is allowed; none where all hold.

    Args:
        state: the page's question, whose limits they miss.
        unmet: what is not allowed.
    """
    if not unmet:
        return []
    rows = _rows(state, unmet)
    return [
        (
            TITLE,
            [
                {
                    "batch": row["batch"],
                    "misses": row["misses"],
                    "nearest that holds": ", ".join(map(change_words, row["nearest"]))
                    or "nothing that was tried",
                    "why": as_words(row["reason"]),
                }
                for row in rows
            ],
        )
    ]


def nearest(state: State, unmet: Unmet) -> Sequence[Change]:
    """The nearest changes that were tried and hold, by option of the command line."""
    changes: Sequence[Change] = _rows(state, [unmet])[0]["nearest"]
    return changes


def _rows(state: State, unmet: Sequence[Unmet]) -> Sequence[Mapping[str, Any]]:
    return [jsonable(row) for row in unmet_rows(unmet, read_question(state).limits)]
