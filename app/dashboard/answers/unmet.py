"""What does not hold, as marked rows: batches that do not fit or miss a limit, with the nearest
that would hold.
"""

from collections.abc import Sequence

from app.answers.cells import MarkedCell
from app.answers.feasible import change_words
from app.dashboard.answer import Row
from app.dashboard.wording import as_words

TITLE = "What does not hold"
MISSED = {
    "memory": "does not fit",
    "limits": "misses the limits",
    "quality": "has no policy that agrees enough",
    None: "cannot be run",
}


def missed(marked: Sequence[MarkedCell]) -> list[tuple[str, Sequence[Row]]]:
    """A table of the rows of an answer that cannot be run; none where all hold."""
    if not marked:
        return []
    return [
        (
            TITLE,
            [
                {
                    "batch": row.batch,
                    "misses": row.misses,
                    "nearest that holds": nearest_words(row) or "nothing that was tried",
                    "why": as_words(row.reason),
                }
                for row in marked
            ],
        )
    ]


def nearest_words(row: MarkedCell) -> str:
    """The nearest changes that were tried and hold; empty where there is none."""
    return ", ".join(map(change_words, row.nearest or ()))
