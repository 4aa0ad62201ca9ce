"""Which numbers stand in the words of a published table?

Plain numbers, ranges, and counts of tokens as people write them (`1K shared prefix`, `ctx 8192`,
`5.12M`). Leaves out what a number is of (`table`, `shapes`, `stated`).
"""

import math
import re

_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d{1,3})?|\.\d+"
_PLAIN = re.compile(rf"~?\s*({_NUMBER})\s*", re.IGNORECASE)
_RANGE = re.compile(rf"~?\s*({_NUMBER})\s*-\s*({_NUMBER})\s*", re.IGNORECASE)
_COUNT = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s?([km])?(?![\w.])", re.IGNORECASE)
_COUNT_RANGE = re.compile(
    r"(?<![\w.])(\d+(?:\.\d+)?)\s?([km])?\s*-\s*(\d+(?:\.\d+)?)\s?([km])?(?![\w.])", re.IGNORECASE
)
_SCALES = {"": 1, "k": 1 << 10, "m": 1 << 20}
_MINUTES = re.compile(rf"({_NUMBER})\s*min", re.IGNORECASE)
_SECONDS = re.compile(rf"({_NUMBER})\s*s", re.IGNORECASE)


def number(text: str) -> float | None:
    """The number that a cell holds, the middle of a range; None where it holds none or more than
    that.

    >>> number("60.23-66.63"), number("~24.2"), number("2.04/2.26/2.23"), number("")
    (63.43, 24.2, None, None)
    """
    words = text.strip()
    if plain := _PLAIN.fullmatch(words):
        return _finite(float(plain[1]))
    if between := _RANGE.fullmatch(words):
        return _finite(round((float(between[1]) + float(between[2])) / 2.0, 9))
    if minutes := _MINUTES.fullmatch(words):
        return _finite(60.0 * float(minutes[1]))
    seconds = _SECONDS.fullmatch(words)
    return _finite(float(seconds[1])) if seconds else None


def is_range(text: str) -> bool:
    """Whether a cell holds a range, of which `number` takes the middle."""
    return _RANGE.fullmatch(text.strip()) is not None


def token_count(text: str) -> int | None:
    """The first count of tokens in some words, the middle of a range; K and M are powers of two.

    >>> token_count("1K shared prefix"), token_count("ctx 32768"), token_count("5k-10k"), token_count("LongBench doc")
    (1024, 32768, 7680, None)
    """
    between = _COUNT_RANGE.search(text)
    if between:
        return round(
            (_scaled(between[1], between[2] or between[4]) + _scaled(between[3], between[4])) / 2.0
        )
    match = _COUNT.search(text)
    return None if match is None else round(_scaled(match[1], match[2]))


def _scaled(digits: str, suffix: str | None) -> float:
    return float(digits) * _SCALES[(suffix or "").casefold()]


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
