"""Which shipped recordings does a page read? Each is read once. Leaves out those of sessions
(`held`).
"""

from collections.abc import Sequence
from functools import lru_cache

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.library import read_trace, recordings, shipped_traces


@lru_cache(maxsize=8)
def recorded(name: str) -> AcceptanceTrace:
    """A shipped recording, read once.

    Raises:
        InputError: there is none of this name.
    """
    if (path := recordings().get(name)) is None:
        raise InputError("is no shipped recording", key="trace", value=name)
    return read_trace(path)


@lru_cache(maxsize=1)
def tree_traces() -> Sequence[str]:
    """Names of the shipped recordings that trees can be built from.

    Raises:
        InputError: the installation has none.
    """
    names = [path.stem for path in shipped_traces() if recorded(path.stem).level >= 2]
    if not names:
        raise InputError("no shipped recording holds candidates by rank", key="trace")
    return names
