"""What is said on standard error while a verb works, and of the question it was asked."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def remark(text: str) -> None:
    """Print a line about the question on standard error, which leaves a JSON answer whole."""
    sys.stderr.write(f"{text}\n")


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
