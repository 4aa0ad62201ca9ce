"""Which of two scrapes is the earlier one? Their counters tell, as counters never fall.

A restart makes them fall too: where the engine's text says when its process began, another process
is no earlier scrape. Leaves out what the counters mean.
"""

from __future__ import annotations

from pathlib import Path

from traces.importers.files import read_text
from traces.importers.prometheus import Series, samples
from traces.importers.scrapes import Scrape, observed

_BEGAN = ("process_start_time_seconds", "_created")
_SAME_S = 1.0  # times of one start are written with their digits, and read as floats


def in_order(first: str | Path, second: str | Path) -> tuple[str, str]:
    """Two scrapes, the earlier one first.

    They keep their order where no counter fell, where some fell either way, and where another
    process had begun in between.

    Args:
        first: text of `/metrics`.
        second: the same, earlier or later.

    Raises:
        InputError: a file that cannot be read.
    """
    named = str(first), str(second)
    texts = read_text(first), read_text(second)
    one, other = (Scrape(at_s=0.0, text=text) for text in texts)
    swapped = observed(one, other).fell and not observed(other, one).fell
    if swapped and not _restarted(*(samples(text)[0] for text in texts)):
        return named[1], named[0]
    return named


def _restarted(one: Series, other: Series) -> bool:
    """Whether two scrapes say that their processes began at different times."""
    times = {key: value for key, value in one.items() if key[0].endswith(_BEGAN) and key in other}
    return any(abs(other[key] - value) > _SAME_S for key, value in times.items())
