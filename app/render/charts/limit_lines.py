"""How is a limit of latency drawn into charts of other quantities?

Every limit has one look and one name, whatever the axis. Leaves out where it is missed, which answers
say (`app.answers.optimize.within_limits`).
"""

from collections.abc import Sequence
from typing import Any

from hardware_profiles.units import MILLI

Figure = dict[str, Any]
COLOR = "#DC267F"  # of no line of a drafter
DASH = "dash"
MOST_ABOVE = 1.6  # times the tallest value, to which an axis makes room for a limit


def limit_name(limit_s: float, what: str = "a token") -> str:
    """`limit: 20 ms a token`."""
    return f"limit: {limit_s / MILLI:g} ms {what}"


def pace_line(batches: Sequence[float], tpot_limit_s: float | None) -> list[Figure]:
    """The least tokens per second of a whole batch at which every user keeps the limit: batch over
    limit; nothing without one.

    Args:
        batches: ends of the axis, or more of it.
        tpot_limit_s: of the time per output token.
    """
    if tpot_limit_s is None:
        return []
    return [_line(list(batches), [batch / tpot_limit_s for batch in batches], tpot_limit_s)]


def pace_level(ends: Sequence[float], batch: int, tpot_limit_s: float | None) -> list[Figure]:
    """The same across an axis that is not of batches; nothing without a limit.

    Args:
        ends: of the axis below.
        batch: requests that decode together.
        tpot_limit_s: of the time per output token.
    """
    if tpot_limit_s is None:
        return []
    return [_line(list(ends), [batch / tpot_limit_s] * len(ends), tpot_limit_s)]


def level_line(ends: Sequence[float], limit_s: float | None, what: str = "a token") -> list[Figure]:
    """A limit across an axis of milliseconds; nothing without one.

    Args:
        ends: of the axis below.
        limit_s: the limit.
        what: that it limits.
    """
    if limit_s is None:
        return []
    return [_line(list(ends), [limit_s / MILLI] * len(ends), limit_s, what)]


def upright_line(limit_s: float | None, at: float, top: float) -> list[Figure]:
    """A limit of the time per token up from an axis below; nothing without one.

    Args:
        limit_s: the limit.
        at: its place on the axis below.
        top: of the other axis.
    """
    return [] if limit_s is None else [_line([at, at], [0.0, top], limit_s)]


def step_marks(
    places: Sequence[str], tokens_per_step: Sequence[float], tpot_limit_s: float | None
) -> list[Figure]:
    """The longest step, in milliseconds, that keeps the limit with the tokens that each emits.

    Args:
        places: on the axis below.
        tokens_per_step: emitted by the step at each place.
        tpot_limit_s: of the time per output token; nothing is drawn without one.
    """
    if tpot_limit_s is None:
        return []
    longest = [tpot_limit_s * tokens / MILLI for tokens in tokens_per_step]
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": limit_name(tpot_limit_s),
            "x": list(places),
            "y": longest,
            "marker": {
                "symbol": "line-ew-open",
                "size": 34,
                "color": COLOR,
                "line": {"color": COLOR, "width": 3},
            },
            "hoverinfo": "text",
            "hovertext": [
                f"{limit_name(tpot_limit_s)}: a step of {tokens:.2f} tokens may take {step:.3g} ms"
                for tokens, step in zip(tokens_per_step, longest, strict=True)
            ],
        }
    ]


def with_room(side: Figure, tallest: float, limits: Sequence[Figure]) -> Figure:
    """An axis from 0 that shows what is drawn, and a limit unless it lies far above.

    Args:
        side: the axis.
        tallest: of what is drawn beside the limits.
        limits: lines and marks of this module.
    """
    highest = max((value for line in limits for value in line["y"]), default=0.0)
    if highest <= tallest:
        return side
    return side | {"range": [0.0, 1.05 * min(highest, MOST_ABOVE * tallest)]}


def _line(x: list[Any], y: list[float], limit_s: float, what: str = "a token") -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": limit_name(limit_s, what),
        "x": x,
        "y": y,
        "line": {"color": COLOR, "dash": DASH, "width": 1.5},
        "hoverinfo": "name",
        "showlegend": True,
    }
