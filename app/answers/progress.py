"""How is progress shown? On standard error: a bar for work whose size is known, else a line; where it
is no terminal, lines of long work alone.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Report = Callable[[str, int, int], None]
_listener: ContextVar[Report | None] = ContextVar("listener", default=None)
SILENT_S = 30.0  # work that takes less leaves no line in a log
LINE_EVERY_S = 10.0


@contextmanager
def progress_line(quiet: bool) -> Iterator[Callable[[str], None]]:
    """A spinner on standard error that shows the latest line of text; where it is no terminal,
    every line of long work that comes `LINE_EVERY_S` after the one before.
    """
    if quiet or not sys.stderr.isatty():
        yield _spaced(progress_lines(quiet), silent_s=SILENT_S)
        return
    from rich.console import Console

    console = Console(stderr=True)
    plain = console.options.ascii_only
    with console.status("starting", spinner="line" if plain else "dots") as status:
        yield status.update


def progress_lines(quiet: bool) -> Callable[[str], None]:
    """What writes every text to standard error as a line that stays: for runs of minutes."""

    def tell(text: str) -> None:
        if not quiet:
            sys.stderr.write(text.rstrip() + "\n")
            sys.stderr.flush()

    return tell


def counted_lines(quiet: bool, *, silent_s: float | None = None) -> Callable[[str, int, int], None]:
    """What writes how far work is, and how long it still takes, as lines that stay.

    It takes what is being done, how much of it is done, and how much there is. The time left is
    known from the second report of a name on.

    Args:
        quiet: write nothing.
        silent_s: write nothing before; None: `SILENT_S`.
    """
    tell = _spaced(progress_lines(quiet), silent_s=SILENT_S if silent_s is None else silent_s)
    current, first, begun = "", 0, 0.0

    def show(name: str, done: int, total: int) -> None:
        nonlocal current, first, begun
        now = time.monotonic()
        if name != current:
            current, first, begun = name, done, now
        left = ""
        if first < done < total:
            left = f", about {(total - done) * (now - begun) / (done - first):.0f} s left"
        tell(f"{name}: {done} of {total}{left}" if done else name)

    return show


def _spaced(tell: Callable[[str], None], *, silent_s: float) -> Callable[[str], None]:
    """What hands a text on once in `LINE_EVERY_S`, the first after `silent_s`."""
    due = time.monotonic() + silent_s

    def show(text: str) -> None:
        nonlocal due
        now = time.monotonic()
        if now >= due:
            due = now + LINE_EVERY_S
            tell(text)

    return show


@contextmanager
def listening(report: Report) -> Iterator[None]:
    """Hand the counts of work to a door that draws them itself, as a page does.

    Args:
        report: called with what is being done, how much of it is done, and how much there is; may
            raise to stop the work.
    """
    token = _listener.set(report)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def counting(quiet: bool) -> Iterator[Report]:
    """A progress bar; what it yields takes what is being done, how much of it is done, and how much
    there is.

    Where a door listens, its own report; where standard error is no terminal, lines of long work
    (`counted_lines`).

    Args:
        quiet: show nothing.
    """
    if (report := _listener.get()) is not None:
        yield report
        return
    if quiet or not sys.stderr.isatty():
        yield counted_lines(quiet)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("preparing", total=None)
        current = ""

        def show(name: str, done: int, total: int) -> None:
            nonlocal current
            if name != current:
                bar.reset(task, description=name)
                current = name
            bar.update(task, completed=done, total=total)

        yield show


def terminal_line(text: str, *, quiet: bool) -> None:
    """Write a line to standard error where a person reads it; nothing where it is no terminal."""
    if not quiet and sys.stderr.isatty():
        sys.stderr.write(text + "\n")
