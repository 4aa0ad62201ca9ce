"""How does the loop become machine code, and how do numbers and tables reach it?

The loop runs as machine code alone. Compiling is most of a first simulation and grows with what
functions are handed, so numbers travel as one record (a pointer) and tables end to end in one
array, each with its place in the record. What few scenarios have is None elsewhere: a branch on an
argument that is None is left out before its other side is compiled. Arrays as arguments are also
counted as references, which takes longer than a step of a request: what happens to every request is
handed records. Machine code is kept on disk (`hardware_profiles.machine_code`) and made anew when
any file in this folder has changed, since functions are inlined from one file into others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, get_type_hints

import numpy as np
from numba.extending import register_jitable
from numpy.typing import NDArray

from hardware_profiles.machine_code import cached_njit

# where a table lies: its first number, and its shape
TABLE = np.dtype([("first", "i8"), ("length", "i8"), ("width", "i8"), ("depth", "i8")])
_CODES = {int: "i8", float: "f8", bool: "?"}
Table = Any  # a record of TABLE


def entry(function: Callable[..., Any]) -> Any:
    """A function of the loop that Python calls, as machine code; `py_func` is the function itself."""
    return cached_njit(__file__, error_model="numpy", nogil=True)(function)


def compiled(function: Callable[..., Any]) -> Any:
    """A function that machine code calls; where Python calls it, it is the function itself."""
    return register_jitable(error_model="numpy", no_cpython_wrapper=True)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """As `compiled`, put into its callers: for what happens to every request in every iteration."""
    return register_jitable(error_model="numpy", no_cpython_wrapper=True, forceinline=True)(
        function
    )


def record_type(kind: type, *more: Any, leave_out: frozenset[str] = frozenset()) -> Any:
    """The type of a record with the numbers of a class, and a `TABLE` for each of its arrays.

    Args:
        kind: a dataclass or named tuple.
        more: further fields.
        leave_out: its attributes that are no part of the record.
    """
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name not in leave_out}
    named = [(name, _CODES.get(hint, TABLE)) for name, hint in hints.items()]
    return np.dtype((np.record, np.dtype([*named, *more], align=True)))


@cache
def _type_of(kind: Any, leave_out: frozenset[str]) -> Any:
    return record_type(kind, leave_out=leave_out)


def laid_out(
    values: Any, leave_out: frozenset[str] = frozenset()
) -> tuple[Any, NDArray[np.float64]]:
    """A named tuple as a record, and its arrays end to end, to whose places the record points.

    Args:
        values: numbers, and arrays of up to three dimensions.
        leave_out: names of what is handed on otherwise.
    """
    kind: Any = type(values)
    record = np.zeros(1, _type_of(kind, leave_out))[0]
    arrays, first = [np.zeros(0)], 0
    for name in record.dtype.names:
        value = getattr(values, name)
        if record.dtype[name] != TABLE:
            record[name] = value
            continue
        array = np.asarray(value)
        record[name] = (first, *array.shape, *[1] * (3 - array.ndim))
        arrays.append(array.reshape(-1).astype(np.float64))
        first += array.size
    return record, np.concatenate(arrays)
