"""What do installed Python packages add? Objects that they name as entry points of a group.

A package says in its `pyproject.toml`, for example,

    [project.entry-points."rooftree.methods"]
    mine = "my_package.methods:MINE"

where `MINE` is a `Method`, or a function that returns one. The groups are `rooftree.methods`,
`rooftree.engines`, `rooftree.devices` and `rooftree.importers`. An entry point that cannot be
loaded is reported in one line and left out. Leaves out who shipped objects are.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_LOGGER = logging.getLogger("rooftree")
_LOADING: set[str] = set()
Kind = TypeVar("Kind")


def provided(group: str, kind: type[Kind], check: Callable[[Kind], None]) -> Sequence[Kind]:
    """What the entry points of a group stand for, in the order of their names.

    While they are loaded, whatever they look up themselves finds what is shipped alone.

    Args:
        group: such as `rooftree.methods`.
        kind: class of its objects.
        check: raises an error where an object cannot be taken in, such as under a name that is
            taken.
    """
    from importlib.metadata import entry_points  # loads what reads mail headers, too

    if group in _LOADING:
        return []
    points = sorted(entry_points(group=group), key=lambda point: point.name)
    _LOADING.add(group)
    try:
        return [value for point in points for value in _loaded(point, kind, check)]
    finally:
        _LOADING.remove(group)


def _loaded(point: "EntryPoint", kind: type[Kind], check: Callable[[Kind], None]) -> Sequence[Kind]:
    """The object of an entry point; nothing where it cannot be loaded or is of another kind."""
    try:
        value = point.load()
        if callable(value) and not isinstance(value, kind):
            value = value()
        if isinstance(value, kind):
            check(value)
            return [value]
        reason = f"is of type {type(value).__name__}, not {kind.__name__}"
    except (Exception, SystemExit) as error:  # whatever code of others does when it is loaded
        reason = f"{type(error).__name__}: {error}"
    package = point.dist.name if point.dist is not None else "an unnamed package"
    _LOGGER.warning(
        "%s: entry point %s of %s is left out: %s",
        package,
        point.name,
        point.group,
        " ".join(reason.split()),
    )
    return []
