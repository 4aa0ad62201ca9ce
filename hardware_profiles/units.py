"""How are scaled units turned into SI, and SI into what a person reads?

This is the only module that holds scale factors. Everything else computes in seconds, bytes, FLOPs and their
rates. Currency conversion and time zones are left out.
"""

import math

NANO = 1e-9
MICRO = 1e-6
MILLI = 1e-3
KILO = 1e3
MEGA = 1e6
GIGA = 1e9
TERA = 1e12
PETA = 1e15
EXA = 1e18

KIB = 2**10
MIB = 2**20
GIB = 2**30
TIB = 2**40

MINUTE_S = 60.0
HOUR_S = 3600.0
DAY_S = 86400.0

BITS_PER_BYTE = 8

_TIMES = ((1.0, "s"), (MILLI, "ms"), (MICRO, "µs"), (NANO, "ns"))
_DECIMAL = ((EXA, "E"), (PETA, "P"), (TERA, "T"), (GIGA, "G"), (MEGA, "M"), (KILO, "k"), (1.0, ""))
_BINARY = ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"), (1, "B"))


def format_time(seconds: float) -> str:
    """A time to three significant digits, in the largest unit that leaves a number of at least one.

    Example:
        >>> format_time(0.00321)
        '3.21 ms'
        >>> format_time(7384)
        '2 h 3 min'
    """
    if not math.isfinite(seconds):
        return _not_finite(seconds)
    if abs(seconds) >= 2 * MINUTE_S:
        return _long_time(seconds)
    return _scaled(seconds, _TIMES, "")


def format_bytes(count: float, *, binary: bool = False) -> str:
    """An amount of bytes to three significant digits: GB by thousands, or GiB by 1024 where `binary`.

    Example:
        >>> format_bytes(80e9)
        '80 GB'
        >>> format_bytes(16 * GIB, binary=True)
        '16 GiB'
    """
    if not math.isfinite(count):
        return _not_finite(count)
    return _scaled(count, _BINARY, "") if binary else _scaled(count, _DECIMAL, "B")


def format_rate(per_second: float, unit: str = "B") -> str:
    """A rate to three significant digits.

    Args:
        per_second: the rate, in `unit` per second.
        unit: what is counted, such as "B", "FLOP" or "tokens".

    Example:
        >>> format_rate(3.35e12)
        '3.35 TB/s'
        >>> format_rate(989.4e12, "FLOP")
        '989 TFLOP/s'
    """
    if not math.isfinite(per_second):
        return f"{_not_finite(per_second)} {unit}/s"
    return f"{_scaled(per_second, _DECIMAL, unit)}/s"


def format_ratio(ratio: float) -> str:
    """A ratio as a percentage to at most three significant digits: 0.05 is "5 %"."""
    return f"{_digits(100 * ratio)} %" if math.isfinite(ratio) else _not_finite(ratio)


def _scaled(value: float, scales: tuple[tuple[float, str], ...], unit: str) -> str:
    # 999.6 ms rounds to "1000 ms": the unit is chosen after rounding, so that it reads "1 s"
    rounded = float(f"{value:.3g}")
    factor, prefix = next((each for each in scales if abs(rounded) >= each[0]), scales[-1])
    return f"{_digits(value / factor)} {prefix}{unit}"


def _digits(value: float) -> str:
    rounded = float(f"{value:.3g}")
    if rounded == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _long_time(seconds: float) -> str:
    sign = "-" if seconds < 0 else ""
    whole = round(abs(seconds))
    days, rest = divmod(whole, int(DAY_S))
    hours, rest = divmod(rest, int(HOUR_S))
    minutes, left = divmod(rest, int(MINUTE_S))
    parts = ((days, "d"), (hours, "h"), (minutes, "min"), (left, "s"))
    first = next(i for i, (count, _) in enumerate(parts) if count)
    shown = " ".join(f"{count} {name}" for count, name in parts[first : first + 2] if count)
    return f"{sign}{shown}"


def _not_finite(value: float) -> str:
    return "unknown" if math.isnan(value) else ("∞" if value > 0 else "-∞")
