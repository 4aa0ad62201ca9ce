"""How do long sentences look on a screen? Folded at the width of tables, the rest of them indented."""

from textwrap import fill

WIDEST = 100  # characters of a line


def folded(sentence: str) -> str:
    """A sentence in lines of at most 100 characters; words are never broken.

    Example:
        >>> folded("up to " + "x" * 99).splitlines()[0]
        'up to'
    """
    return fill(
        sentence,
        WIDEST,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )
