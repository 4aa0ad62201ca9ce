"""How is progress shown? On standard error: a bar for work whose size is known, else a line."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_line(quiet: bool) -> Iterator[Callable[[str], None]]:
    """A spinner on standard error that shows the latest line of text; silent where it is no
    terminal.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda text: None
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

    Silent where standard error is no terminal.

    Args:
        quiet: show nothing.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda name, done, total: None
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
