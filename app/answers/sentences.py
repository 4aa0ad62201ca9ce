"""How do long sentences look on a screen? Folded at the width of tables, the rest of them indented."""

import re
import sys
from shutil import get_terminal_size
from textwrap import fill

WIDEST = 100  # characters of a line


def folded(sentence: str) -> str:
    """A sentence in lines of at most 100 characters, or as wide as a narrower terminal; no word is
    broken, and no number parted from its percent sign.

    Example:
        >>> folded("up to " + "x" * 99).splitlines()[0]
        'up to'
        >>> folded("x" * 98 + " 4 %").splitlines()[1].strip()
        '4 %'
    """
    joined = re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", sentence)
    return fill(
        joined,
        min(get_terminal_size().columns, WIDEST) if sys.stdout.isatty() else WIDEST,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    ).replace("\N{NO-BREAK SPACE}%", " %")
