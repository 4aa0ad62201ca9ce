"""What did a masked model's live runs say of choices by agreement?

Reads what `rooftree validate --method` adds to its report. Leaves out the runs' speeds (`runs`).
"""

from collections.abc import Sequence

from app.dashboard.answer import Row
from app.dashboard.answers.validation.runs import Json


def is_masked(report: Json) -> bool:
    """Whether a report is of masked decoding."""
    return bool(report.get("choices"))


def masked_tables(report: Json) -> list[tuple[str, Sequence[Row]]]:
    """At every floor of agreement what was chosen, and the agreement that its live runs had; none
    of other reports.
    """
    rows: list[Row] = [
        {
            "batch": choice["batch"],
            "least agreement (%)": _percent(choice["floor"]),
            "chosen": choice["chosen"],
            "out of": choice["allowed"],
            "agreement, replayed (%)": _percent(choice["predicted_agreement"]),
            "agreement, live (%)": _percent(choice["agreement"]),
            "slower than the best (%)": _lost(report, choice),
        }
        for choice in report.get("choices") or ()
    ]
    return [("What would be chosen, and what it kept live", rows)] if rows else []


def masked_notes(report: Json) -> list[str]:
    """What a reader must know of such runs."""
    if not is_masked(report):
        return []
    notes = [
        "Agreement is the share of positions with the token that one token a pass writes there."
    ]
    left_out = report.get("left_out") or ()
    return notes + (
        [f"Left out: {len(left_out)} settings, the first: {left_out[0]}."] if left_out else []
    )


def _lost(report: Json, choice: Json) -> float | None:
    """What a choice lost against the fastest that was measured at its floor."""
    kind = f"agreement of {choice['floor']:g}"
    regret = next(
        (
            row
            for row in report.get("regrets") or ()
            if (row.get("kind"), row.get("batch")) == (kind, choice["batch"])
        ),
        None,
    )
    return None if regret is None else _percent(regret["regret_ratio"])


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else round(100 * ratio, 1)
