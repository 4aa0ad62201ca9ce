"""What is said on standard error while a verb works, and of the question it was asked."""

import sys
from collections.abc import Callable

from app.answers import progress

progress_line = progress.progress_line  # for verbs that are functions


def remark(text: str) -> None:
    """Print a line about the question on standard error, which leaves a JSON answer whole."""
    sys.stderr.write(f"{text}\n")


def progress_lines(quiet: bool) -> Callable[[str], None]:
    """What writes every text to standard error as a line that stays: for runs of minutes."""

    def tell(text: str) -> None:
        if not quiet:
            sys.stderr.write(text.rstrip() + "\n")
            sys.stderr.flush()

    return tell
