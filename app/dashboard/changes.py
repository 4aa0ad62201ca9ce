"""Which other questions does one press ask? Leaves out the buttons (`main`)."""

from collections.abc import Iterable

from app.answers.feasible import Change as Nearest
from app.answers.feasible import change_words
from app.dashboard.answer import Change
from app.dashboard.state import FIELDS, State, checked
from hardware_profiles.errors import InputError

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
