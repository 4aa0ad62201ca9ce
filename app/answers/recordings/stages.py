"""How far is a recording? A bar on standard error for every stage."""

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

from app.answers.progress import seldom
from real_runs.recording.options import OnProgress, Progress


@contextmanager
def recording_bars(quiet: bool) -> Iterator[OnProgress]:
    """Bars, one for every stage; where standard error is no terminal a line now and then; nothing
    where `quiet` holds.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    stages: dict[str, TaskID] = {}
    shown = not quiet and sys.stderr.isatty()
    tell = seldom(quiet or shown)
    with Bars(*columns, console=Console(stderr=True), disable=not shown) as bars:

        def advance(progress: Progress) -> None:
            if progress.stage not in stages:
                stages[progress.stage] = bars.add_task(progress.stage, total=progress.total)
            tell(lambda: f"{progress.stage}: {progress.done:,} of {progress.total:,}")
            bars.update(stages[progress.stage], completed=progress.done, total=progress.total)

        yield advance
