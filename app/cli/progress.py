"""What is said on standard error while a verb works, and of the question it was asked."""

import sys

from app.answers.progress import progress_line, progress_lines

__all__ = ["progress_line", "progress_lines", "remark"]


def remark(text: str) -> None:
    """Print a line about the question on standard error, which leaves a JSON answer whole."""
    sys.stderr.write(f"{text}\n")
