"""What do the stated limits of latency allow, and what would lift them? Said as `optimize` says it.

Leaves out where limits are drawn (`app.render.charts.limit_lines`).
"""

from app.answers.optimize.recommended import Recommended, RecommendedCells
from app.answers.optimize.within_limits import UsersWithin
from app.dashboard.answer import Change
from app.dashboard.changes import asked_by
from app.dashboard.state import State


def within(answer: Recommended | RecommendedCells) -> UsersWithin | None:
    """The most users within the limits; None where no limit is stated."""
    rows = (
        answer.within_limits
        if isinstance(answer, RecommendedCells)
        else answer.rankings.within_limits
    )
    return rows[0] if rows else None


def limits_first(answer: Recommended | RecommendedCells, headline: str) -> str:
    """A headline that begins with what the limits allow, where there are any."""
    row = within(answer)
    return headline if row is None else f"{_capital(row.served)}. {headline}"


def lift_notes(answer: Recommended | RecommendedCells) -> list[str]:
    """What runs at the most users, what one more misses, and what would serve more; the rest is the
    headline's.
    """
    row = within(answer)
    if row is None:
        return []
    most = [f"The most users are served {row.run_at_most}."] if row.users else []
    return [*most, *([f"{_capital(row.more_words)}."] if row.more else [])]


def lift_changes(answer: Recommended | RecommendedCells, state: State) -> list[Change]:
    """Questions about the most users, and about what would serve more."""
    row = within(answer)
    if row is None:
        return []
    most = [{"--batch": row.users}] if row.users else []
    return asked_by(state, [*most, *(change.change for change in row.more)])


def _capital(words: str) -> str:
    return f"{words[:1].upper()}{words[1:]}"
