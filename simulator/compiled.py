"""How is the hot loop compiled?

One decorator for all of its functions. They only read and write arrays that their callers own, so that counting
references, which costs eight times the rest, is left out; hence none of them may create or return an array. Machine
code is kept on disk and made anew when any file of the loop has changed: on its own numba looks at the file of a
function alone, and would go on running what it had inlined from others.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import njit

_LOOP = ("drafting", "iteration", "kv_cache", "scheduler", "speculation", "waiting")
_READ = ("histogram", "request", "state", "tables")
_FILES = _LOOP + _READ


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function that allocates nothing."""
    dispatcher = njit(cache=True, error_model="numpy", _nrt=False)(function)
    stored = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if stored is not None:
        stored._source_stamp = _STAMP
    return dispatcher


def _stamp() -> tuple[tuple[str, int, int], ...]:
    """Name, time of change and size of every file of the loop."""
    found = []
    for name in _FILES:
        path = Path(__file__).with_name(f"{name}.py")
        if path.is_file():
            state = path.stat()
            found.append((name, state.st_mtime_ns, state.st_size))
    return tuple(found)


_STAMP = _stamp()
