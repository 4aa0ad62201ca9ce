"""How is progress shown? On standard error: a bar for work whose size is known, else a line; where
that is no terminal, a line now and then, so that a log of a long run shows that it goes on.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SELDOM_S = 30.0
"""Seconds between two lines about progress in a log."""


def seldom(
    quiet: bool, clock: Callable[[], float] = time.monotonic
) -> Callable[[Callable[[], str]], None]:
    """What writes a line of progress to standard error every `SELDOM_S` seconds, the first after as
    many; in between it asks nobody for the line.

    Args:
        quiet: write nothing.
        clock: seconds since any moment.
    """
    latest = clock()

    def tell(line: Callable[[], str]) -> None:
        nonlocal latest
        if not quiet and (now := clock()) - latest >= SELDOM_S:
            latest = now
            sys.stderr.write(line().rstrip() + "\n")
            sys.stderr.flush()

    return tell


@contextmanager
def progress_line(quiet: bool) -> Iterator[Callable[[str], None]]:
    """A spinner on standard error that shows the latest line of text; where that is no terminal,
    the line now and then.
    """
    if quiet or not sys.stderr.isatty():
        tell = seldom(quiet)
        yield lambda text: tell(lambda: text)
        return
    from rich.console import Console

    with Console(stderr=True).status("starting") as status:
        yield status.update


def progress_lines(quiet: bool) -> Callable[[str], None]:
    """What writes every text to standard error as a line that stays: for runs of minutes."""

    def tell(text: str) -> None:
        if not quiet:
            sys.stderr.write(text.rstrip() + "\n")
            sys.stderr.flush()

    return tell


@contextmanager
def counting(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar; what it yields takes what is being done, how much of it is done, and how much
    there is.

    Where standard error is no terminal it is a line now and then.

    Args:
        quiet: show nothing.
    """
    if quiet or not sys.stderr.isatty():
        tell = seldom(quiet)
        yield lambda name, done, total: tell(lambda: f"{name}: {done:,} of {total:,}")
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
