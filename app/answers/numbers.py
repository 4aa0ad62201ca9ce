"""How does a number look in a table, and a sentence below it?

Plain digits with thousands separators and no exponents, one unit of time for all of a table, and
intervals beside what they belong to. Leaves out the layout of tables (`app.render.text`); JSON and
CSV carry the numbers as they are.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hardware_profiles.units import MICRO, MILLI


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeUnit:
    """The unit in which a table shows its times.

    Args:
        name: for the heads of its columns.
        seconds: of one.
    """

    name: str
    seconds: float

    def show(self, seconds: float | None) -> str:
        """A time in this unit, without the unit's name."""
        return "" if seconds is None else plain(seconds / self.seconds)


_SECOND = TimeUnit(name="s", seconds=1.0)
_MILLISECOND = TimeUnit(name="ms", seconds=MILLI)
_MICROSECOND = TimeUnit(name="µs", seconds=MICRO)


def time_unit(seconds: Iterable[float | None]) -> TimeUnit:
    """The unit for all times of one table: the largest in which the shortest of them keeps its
    digits.

    Args:
        seconds: every time of the table; None and 0 are passed over.

    Example:
        >>> time_unit([0.024, 0.0074, None]).name
        'ms'
        >>> time_unit([3.1, 65.0]).name, time_unit([2e-6, 0.003]).name
        ('s', 'µs')
    """
    shortest = min((value for value in seconds if value), default=MILLI)
    if shortest >= 1.0:
        return _SECOND
    return _MILLISECOND if shortest >= 0.01 * MILLI else _MICROSECOND


def plain(value: float | None, digits: int = 3) -> str:
    """A number to so many significant digits, whole digits never rounded away, thousands separated
    by commas.

    Args:
        value: None shows nothing.
        digits: significant digits, >= 1.

    Example:
        >>> plain(11749.3), plain(25.44), plain(0.000123), plain(16)
        ('11,749', '25.4', '0.000123', '16')
    """
    if value is None:
        return ""
    return fixed(value, 0 if float(value).is_integer() else _decimals(value, digits))


def fixed(value: float | None, decimals: int) -> str:
    """A number to so many decimals, thousands separated by commas; None shows nothing.

    Example:
        >>> fixed(1234.5678, 2)
        '1,234.57'
    """
    if value is None:
        return ""
    if not math.isfinite(value):
        return "unknown" if math.isnan(value) else ("∞" if value > 0 else "-∞")
    return f"{value:,.{decimals}f}"


def digits(value: float | None) -> str:
    """A number in a sentence or on a page: three significant digits, thousands separated;
    `unknown` for None or not finite.

    Example:
        >>> digits(12345.6), digits(0.01234), digits(None)
        ('12,300', '0.0123', 'unknown')
    """
    if value is None or not math.isfinite(value):
        return "unknown"
    if value == 0:
        return "0"
    decimals = 2 - math.floor(math.log10(abs(value)))
    return f"{round(value, decimals):,.{max(0, decimals)}f}"


def interval_words(
    bounds: Sequence[float | None] | None, unit: str = "", scale: float = 1.0
) -> str:
    """An interval in units of `scale`, as `1.75-2.01×` with an en dash; empty where there is none,
    or no width.
    """
    low, high = bounds or (None, None)
    return (
        ""
        if low is None or high is None or low == high
        else f"{digits(low / scale)}–{digits(high / scale)}{unit}"
    )


def signed_percent(ratio: float | None, decimals: int) -> str:
    """A ratio in percent with its sign; None shows nothing.

    Example:
        >>> signed_percent(0.0312, 1), signed_percent(-0.25, 0)
        ('+3.1', '−25')
    """
    return "" if ratio is None else f"{100.0 * ratio:+.{decimals}f}".replace("-", "\N{MINUS SIGN}")


def ranged(value: float, bounds: Sequence[float] | None, decimals: int | None = None) -> str:
    """A number and its interval in brackets, all to the same decimals.

    Args:
        value: the number.
        bounds: lower and upper; None shows the number alone.
        decimals: None takes three significant digits of the number.

    Example:
        >>> ranged(1741.3, (1528.9, 1859.2)), ranged(1.8164, (1.66, 2.031), 2)
        ('1,741 [1,529–1,859]', '1.82 [1.66–2.03]')
    """
    places = _decimals(value, 3) if decimals is None else decimals
    if bounds is None:
        return fixed(value, places)
    low, high = bounds
    return f"{fixed(value, places)} [{fixed(low, places)}–{fixed(high, places)}]"


LOPSIDED = "intervals are asymmetric because kernel errors are"


def lopsided(value: float, bounds: Sequence[float] | None) -> bool:
    """Whether an interval reaches more than twice as far to one side as to the other, and visibly
    so.

    Example:
        >>> lopsided(100.0, (80.0, 104.0)), lopsided(100.0, (95.0, 104.0)), lopsided(1.0, (1.0, 1.0))
        (True, False, False)
    """
    if bounds is None:
        return False
    below, above = sorted((value - bounds[0], bounds[1] - value))
    return above > 2.0 * below and above > 0.05 * abs(value)


def _decimals(value: float, digits: int) -> int:
    """Decimals that show so many significant digits, after rounding to them."""
    if not value or not math.isfinite(value):
        return 0
    exponent = int(f"{abs(value):.{digits - 1}e}".partition("e")[2])
    return max(0, digits - 1 - exponent)
