"""Which other questions does one press ask? Leaves out the buttons (`main`)."""

from collections.abc import Iterable

from app.answers.feasible import Change as Nearest
from app.answers.feasible import change_words
from app.dashboard.answer import Change
from app.dashboard.state import State, checked
from hardware_profiles.errors import InputError

_FIELDS = {
    "--tp": "tp",
    "--dtype": "dtype",
    "--kv-dtype": "kv_dtype",
    "--batch": "batch",
    "--context": "context",
}


def asked_by(state: State, nearest: Iterable[Nearest]) -> list[Change]:
    """The changes that the controls can make, of those that would hold.

    Args:
        state: that they change.
        nearest: by option of the command line.
    """
    found = []
    for each in nearest:
        try:
            values = {
                _FIELDS[option]: checked(_FIELDS[option], str(value))
                for option, value in each.items()
            }
        except InputError:
            continue  # more devices than the controls know
        found.append(Change(label=change_words(each), values=values))
    return [
        each
        for each in found
        if any(getattr(state, name) != value for name, value in each.values.items())
    ]
