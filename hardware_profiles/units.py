"""How are scaled units turned into SI, and SI into what a person reads?

This is the only module that holds scale factors. Everything else computes in seconds, bytes, FLOPs
and their rates. Currency conversion and time zones are left out.
"""

import math
import re

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

HOUR_S = 3600.0

_DECIMAL = ((EXA, "E"), (PETA, "P"), (TERA, "T"), (GIGA, "G"), (MEGA, "M"), (KILO, "k"), (1.0, ""))


_BYTE_UNITS = {
    "": 1.0,
    "B": 1.0,
    **{f"{prefix}B": factor for factor, prefix in _DECIMAL},
    "KB": KILO,
    "KiB": KIB,
    "MiB": MIB,
    "GiB": GIB,
    "TiB": 2**40,
}


def amount_of_bytes(text: str, *, per_s: bool = False) -> float:
    """The bytes that a person writes, as a plain number or with a unit; not-a-number where a text
    is no such amount.

    Args:
        text: such as 3.5e8, 350MB or 16GiB.
        per_s: it is a rate, and may end in /s.

    Example:
        >>> amount_of_bytes("16GiB"), amount_of_bytes("2.5 GB/s", per_s=True)
        (17179869184.0, 2500000000.0)
    """
    written = text.strip()
    if per_s:
        written = written.removesuffix("/s")
    parts = re.fullmatch(r"(.*?)\s*([kKMGTPE]?i?B|)", written)
    if parts is None or parts[2] not in _BYTE_UNITS:
        return math.nan
    try:
        return float(parts[1]) * _BYTE_UNITS[parts[2]]
    except ValueError:
        return math.nan


def is_of_bytes(key: str) -> bool:
    """Whether the number of a key, whose name ends in its unit, is of bytes or their rate."""
    return key.endswith(("_bytes", "_bytes_per_s"))


def format_bytes(count: float) -> str:
    """An amount of bytes to three significant digits, by thousands.

    Example:
        >>> format_bytes(80e9)
        '80 GB'
    """
    if not math.isfinite(count):
        return _not_finite(count)
    # 999.6 MB rounds to "1000 MB": the unit is chosen after rounding, so that it reads "1 GB"
    rounded = abs(float(f"{count:.3g}"))
    factor, prefix = next((unit for unit in _DECIMAL if rounded >= unit[0]), _DECIMAL[-1])
    return f"{_digits(count / factor)} {prefix}B"


def _digits(value: float) -> str:
    rounded = float(f"{value:.3g}")
    if rounded == 0:
        return "0"
    decimals = max(0, 2 - math.floor(math.log10(abs(rounded))))
    text = f"{rounded:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _not_finite(value: float) -> str:
    return "unknown" if math.isnan(value) else ("∞" if value > 0 else "-∞")
