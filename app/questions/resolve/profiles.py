"""How many requests arrive in every hour of a profile?

From a CSV file of hours and rates, or from the arrivals of recorded requests. Leaves out their
lengths and what happens within an hour.
"""

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hardware_profiles.errors import InputError
from hardware_profiles.outside_file import read_bounded
from hardware_profiles.units import HOUR_S
from traces.kinds.acceptance import RequestTrace

LEAST_HOURS = 2
MOST_HOURS = 24 * 366
_MOST_BYTES = 1 << 20
_COLUMNS = ("hour", "rate")


@dataclass(frozen=True, kw_only=True, slots=True)
class HourRate:
    """An hour of a profile.

    Attributes:
        hour: whole number by which the profile calls it.
        requests_per_s: mean over the hour, >= 0.
    """

    hour: int
    requests_per_s: float


def read_profile(path: Path) -> tuple[HourRate, ...]:
    """The hours of a CSV file with the columns `hour` and `rate` (requests per second), in its order.

    Args:
        path: of the file.

    Raises:
        InputError: no such file, other columns, an hour that is no whole number or stands twice, a
            rate that is negative, or no requests in any hour.
    """
    text = read_bounded(path, _MOST_BYTES).decode("utf-8", errors="replace")
    try:
        rows = list(csv.reader(text.splitlines(), strict=True))
    except csv.Error as error:
        raise InputError(f"must be lines of comma-separated values ({error})", file=path) from None
    filled = [(line, [cell.strip() for cell in row]) for line, row in enumerate(rows, 1) if row]
    if not filled or tuple(filled[0][1]) != _COLUMNS:
        raise InputError("must begin with the line hour,rate", file=path)
    hours = [_hour(path, line, cells) for line, cells in filled[1:]]
    if len({hour.hour for hour in hours}) < len(hours):
        raise InputError("must hold every hour once", file=path, key="hour")
    if not 1 <= len(hours) <= MOST_HOURS:
        raise InputError(f"must hold 1 to {MOST_HOURS} hours", file=path, value=len(hours))
    if not any(hour.requests_per_s for hour in hours):
        raise InputError("must have requests in some hour", file=path, key="rate")
    return tuple(hours)


def _hour(path: Path, line: int, cells: list[str]) -> HourRate:
    where = f"line {line}"
    if len(cells) != len(_COLUMNS):
        raise InputError("must be an hour and a rate", file=path, key=where, value=",".join(cells))
    if not (cells[0].isascii() and cells[0].isdigit() and len(cells[0]) <= 9):
        rule = "the hour must be a whole number >= 0"
        raise InputError(rule, file=path, key=where, value=cells[0])
    try:
        rate = float(cells[1])
    except ValueError:
        rate = math.nan
    if not 0.0 <= rate < math.inf:
        rule = "the rate must be a number of requests per second >= 0"
        raise InputError(rule, file=path, key=where, value=cells[1])
    return HourRate(hour=int(cells[0]), requests_per_s=rate)


def recorded_profile(trace: RequestTrace) -> tuple[HourRate, ...]:
    """The whole hours of recorded requests, counted from the first; empty where they are fewer than
    two.

    Args:
        trace: recorded requests; those of an hour that is not over are left out.
    """
    if not trace.requests:
        return ()
    since_s = np.asarray(trace.arrival_s, dtype=np.float64) - float(trace.arrival_s[0])
    whole = min(int(since_s[-1] // HOUR_S), MOST_HOURS)
    if whole < LEAST_HOURS:
        return ()
    counts, _ = np.histogram(since_s, bins=whole, range=(0.0, whole * HOUR_S))
    return tuple(
        HourRate(hour=hour, requests_per_s=float(count / HOUR_S))
        for hour, count in enumerate(counts)
    )
