"""Which other questions does one press ask, on a button or on a point of a chart? Leaves out the
buttons (`main`) and the charts (`chart_component`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from urllib.parse import parse_qsl, urlencode

from app.answers.feasible import Change as Nearest
from app.answers.feasible import change_words
from app.dashboard.answer import Card, Change, Figure
from app.dashboard.state import FIELDS, State, checked, query_values
from hardware_profiles.errors import InputError

PRESS = "Press a point to ask about it."
_BY_OPTION = {field.option: name for name, field in FIELDS.items()}


def asked_by(state: State, nearest: Iterable[Nearest]) -> list[Change]:
    """The changes that the controls can make, of those that would hold.

    Args:
        state: that they change.
        nearest: by option of the command line.
    """
    changes = []
    for options in nearest:
        try:
            values = {
                name: checked(name, str(value))
                for name, value in ((_BY_OPTION[option], v) for option, v in options.items())
            }
        except InputError:
            continue  # more devices than the controls know
        changes.append(Change(label=change_words(options), values=values))
    return [
        change
        for change in changes
        if any(getattr(state, name) != value for name, value in change.values.items())
    ]


def asks(values: Mapping[str, object]) -> str:
    """What a point carries that asks another question when it is pressed; empty where no control
    knows one of the values.

    Example:
        >>> asks({"batch": 64, "tp": 2}), asks({"batch": 10**9})
        ('?batch=64&tp=2', '')

    Args:
        values: of fields of the state.
    """
    query = {
        name: f"{value:.10g}" if isinstance(value, float) else str(value)
        for name, value in values.items()
    }
    return "" if query_values(query)[1] else f"?{urlencode(query)}"


def asked_by_point(text: str) -> Change:
    """What a press on a point asks; what no field of a link can hold is left out.

    Args:
        text: that a browser says the point carries.
    """
    values, _ = query_values(dict(parse_qsl(text.removeprefix("?"))))
    return Change(label=text, values=values)


def asking_along(card: Card, name: str) -> Card:
    """A chart whose points ask for the value of a field at which they stand on the x axis.

    Args:
        card: of lines or bars; lines that only guide the eye ask nothing.
        name: of the field.
    """
    data = [_asking(trace, name) for trace in card.figure["data"]]
    if not any("customdata" in trace for trace in data):
        return card
    return replace(card, figure={**card.figure, "data": data}, press=PRESS)


def _asking(trace: Figure, name: str) -> Figure:
    if trace.get("hoverinfo") == "skip":
        return trace
    questions = [asks({name: value}) for value in trace["x"]]
    return {**trace, "customdata": questions} if any(questions) else trace
