"""How far is a recording? On standard error a bar for every stage, or lines from the start on."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars

from app.answers.progress import counted_lines
from real_runs.recording.options import OnProgress, Progress


@contextmanager
def recording_bars(quiet: bool) -> Iterator[OnProgress]:
    """Bars, one for every stage; where standard error is no terminal, lines; nothing where `quiet`
    holds.
    """
    if quiet or not sys.stderr.isatty():
        lines = counted_lines(quiet, silent_s=0.0)
        yield lambda progress: lines(progress.stage, progress.done, progress.total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    stages: dict[str, TaskID] = {}
    with Bars(*columns, console=Console(stderr=True)) as bars:

        def advance(progress: Progress) -> None:
            if progress.stage not in stages:
                stages[progress.stage] = bars.add_task(progress.stage, total=progress.total)
            bars.update(stages[progress.stage], completed=progress.done, total=progress.total)

        yield advance
