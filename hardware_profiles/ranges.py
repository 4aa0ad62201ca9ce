"""Which values may the numbers of a profile have?

Ranges stand beside the fields that they belong to; what lies outside is refused. Leaves out what
the numbers mean.
"""

import numbers
from dataclasses import field, fields
from functools import cache
from typing import TYPE_CHECKING

from hardware_profiles.errors import InputError, joined

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def bounded(low: float, high: float) -> float:
    """A required dataclass field that holds a number in [low, high]; `check_range` enforces it."""
    return field(metadata={"range": (low, high)})  # type: ignore[no-any-return]


def neutral(low: float, high: float, value: float) -> float:
    """The same with the value that leaves a form as it was before it had the constant; files may
    leave it out.

    Args:
        low: least number allowed.
        high: largest number allowed.
        value: the neutral one, which is the default.
    """
    return field(default=value, metadata={"range": (low, high)})


def launch() -> float:
    """A required time in seconds."""
    return bounded(0.0, 1.0)


def efficiency() -> float:
    """A required share of a peak or a bandwidth."""
    # above 1 happens: the fitted peak may exceed the datasheet's, whose clock is conservative on
    # some boards
    return bounded(1e-3, 2.0)


def share() -> float:
    """A required number in [0, 1]."""
    return bounded(0.0, 1.0)


def check_range(record: "DataclassInstance", prefix: str) -> None:
    """Raise InputError for all fields of `record` whose numbers lie outside their stated ranges.

    Args:
        record: a dataclass whose fields state ranges.
        prefix: of the keys in messages.
    """
    mistakes = []
    for name, allowed, optional in _ranges(type(record)):
        value = getattr(record, name)
        if not (value is None and optional):
            try:
                check_number(prefix + name, value, allowed)
            except InputError as error:
                mistakes.append(error)
    if mistakes:
        raise joined(mistakes)


@cache
def _ranges(kind: "type[DataclassInstance]") -> tuple[tuple[str, tuple[float, float], bool], ...]:
    """Name and range of every field with one, and whether it may be None."""
    ranged = (ranged_field for ranged_field in fields(kind) if "range" in ranged_field.metadata)
    return tuple(
        (ranged_field.name, ranged_field.metadata["range"], ranged_field.default is None)
        for ranged_field in ranged
    )


def check_number(key: str, value: float, allowed: tuple[float, float]) -> None:
    """Raise InputError for what is no number in `allowed`.

    Args:
        key: for messages.
        value: to check.
        allowed: least and largest number.
    """
    # asking whether something is a Real takes longer than all else, and a fit makes thousands of
    # profiles of floats
    if type(value) is not float and (
        isinstance(value, bool) or not isinstance(value, numbers.Real)
    ):
        raise InputError("must be a number", key=key, value=value)
    low, high = allowed
    if not low <= value <= high:
        raise InputError(f"must lie between {low:g} and {high:g}", key=key, value=value)
