"""How does a recording, or what an engine logged, become something to ask about?"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from rooftree.answer import Answer
from rooftree.questions import Option, ask_verb, scratch
from traces.library import trace_file

if TYPE_CHECKING:
    from traces.kinds.acceptance import AcceptanceTrace

_numbers = count()


class Trace(Answer):
    """A recording on disk, and what it holds; goes wherever a question takes a trace."""

    def __init__(self, path: Path) -> None:
        super().__init__("traces inspect", ask_verb("traces inspect", [path], {}))
        self.path = path

    def __fspath__(self) -> str:
        return str(self.path)

    def read(self) -> AcceptanceTrace:
        """Its arrays, as `traces.kinds.acceptance` describes them."""
        from traces.library import read_trace

        return read_trace(self.path)


def opened(files: Sequence[Option], options: Mapping[str, Option]) -> Trace:
    """A trace in Parquet as it is; anything else imported, into `out` or a folder that goes when
    Python ends.

    Args:
        files: one or two.
        options: of `rooftree traces import`.

    Raises:
        InputError: no trace, or a file that no importer knows.
    """
    if len(files) == 1 and not options and isinstance(files[0], str | os.PathLike):
        own = trace_file(os.fspath(files[0]))
        if own.suffix == ".parquet":
            return Trace(own)
    out = options.get("out") or Path(scratch().name) / f"trace-{next(_numbers)}.parquet"
    ask_verb("traces import", files, {**options, "out": out})
    return Trace(Path(str(out)))
