"""How does the hot loop run: as machine code, or as the Python that it is written in?

Machine code takes a second of a processor to load, in which Python takes some ten thousand steps;
results are the same to the last bit. Functions of the loop only read and write arrays that their
callers own, so that counting references, which costs eight times the rest, is left out; hence none
of them may create or return an array. Machine code is kept on disk
(`hardware_profiles.machine_code`) and made anew when any file in this folder has changed, since
functions are inlined from one file into others.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, update_wrapper
from typing import Any

import numpy as np


class Compiled:
    """A function of the loop. Calling it runs Python, on views (`plain_tuple`, `plain_rows`) many
    times faster.

    Args:
        function: allocates nothing.
        inline: put the function into its callers as machine code.
    """

    def __init__(self, function: Callable[..., Any], *, inline: bool = False) -> None:
        self.plain = function
        self.inline = inline
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """Run the function as Python."""
        return self.plain(*arguments)

    @cached_property
    def machine(self) -> Any:
        """The function as machine code, on arrays."""
        return self._jitted()

    @cached_property
    def _called(self) -> Any:
        """The function for other machine code to call: what takes Python's arguments apart takes as
        long to make.
        """
        return self._jitted(no_cpython_wrapper=True)

    def _jitted(self, **options: Any) -> Any:
        from hardware_profiles.machine_code import cached_njit

        return cached_njit(
            __file__, error_model="numpy", forceinline=self.inline, _nrt=False, **options
        )(self.plain)

    @property
    def is_at_hand(self) -> bool:
        """Whether this process has asked for machine code before."""
        return "machine" in self.__dict__

    @property
    def _numba_type_(self) -> Any:
        """What numba takes the function for where another one calls it."""
        return self._called._numba_type_


def compiled(function: Callable[..., Any]) -> Compiled:
    """A function that can run as machine code."""
    return Compiled(function)


def inlined(function: Callable[..., Any]) -> Compiled:
    """A function that can run as machine code, for what happens to every request in every
    iteration.

    A call passes every array of a named tuple as seven numbers, which takes longer than a step of a
    request.
    """
    return Compiled(function, inline=True)


class PlainWork:
    """How much has run as Python in this process.

    Args:
        most: beyond which machine code would have been quicker, its loading included.
    """

    def __init__(self, most: float) -> None:
        self.most = most
        self.done = 0.0

    def takes(self, amount: float) -> bool:
        """Count a piece of work in; False: it would be too much, and is not counted."""
        if self.done + amount > self.most:
            return False
        self.done += amount
        return True


def plain_tuple(arrays: Any) -> Any:
    """A named tuple of arrays as one of views whose elements are Python's own numbers."""

    def view(array: Any) -> Any:
        if not isinstance(array, np.ndarray):
            return array
        return array.data if array.dtype.names is None else plain_rows(array)

    return type(arrays)(*(view(each) for each in arrays))


def plain_rows(records: Any) -> list[Any]:
    """Views of the records of an array, with their fields as attributes."""

    def field(column: memoryview) -> property:
        return property(
            lambda row: column[row.at], lambda row, value: column.__setitem__(row.at, value)
        )

    class Row:
        __slots__ = ("at",)

        def __init__(self, at: int) -> None:
            self.at = at

    for name in records.dtype.names:
        setattr(Row, name, field(memoryview(records[name])))
    return [Row(at) for at in range(records.size)]
