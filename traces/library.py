"""Which traces are shipped, and how is any trace opened by its path?"""

from pathlib import Path

from hardware_profiles.errors import InputError
from traces.importers.formats import read_trace_any as read_trace

__all__ = ["default_traces", "read_trace", "shipped_traces"]

_FOLDER = Path(__file__).parent / "recorded"


def shipped_traces() -> list[Path]:
    """Recordings that come with rooftree, by name."""
    return sorted(_FOLDER.glob("*.parquet"))


def default_traces() -> list[Path]:
    """The recordings that `optimize` answers from when none is named: every drafter, greedy.

    Raises:
        InputError: the installation has lost them.
    """
    found = [path for path in shipped_traces() if path.stem.endswith("--greedy")]
    if not found:
        raise InputError("the shipped recordings are missing; reinstall, or pass --trace", file=_FOLDER)
    return found
