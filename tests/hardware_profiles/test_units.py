"""Scale factors and what people read."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles import units

FACTORS = {
    "s": 1.0,
    "ms": units.MILLI,
    "µs": units.MICRO,
    "ns": units.NANO,
    "B": 1.0,
    "kB": units.KILO,
    "MB": units.MEGA,
    "GB": units.GIGA,
    "TB": units.TERA,
    "PB": units.PETA,
    "EB": units.EXA,
    "KiB": units.KIB,
    "MiB": units.MIB,
    "GiB": units.GIB,
    "TiB": units.TIB,
}


def read_back(text):
    number, unit = text.split(" ")
    return float(number) * FACTORS[unit]


def test_factors_are_consistent():
    steps = (
        units.NANO,
        units.MICRO,
        units.MILLI,
        1,
        units.KILO,
        units.MEGA,
        units.GIGA,
        units.TERA,
        units.PETA,
    )
    assert all(high / low == pytest.approx(1000) for low, high in pairwise(steps))
    assert units.TIB == 1024 * units.GIB == 1024**2 * units.MIB == 1024**3 * units.KIB == 2**40
    assert units.DAY_S == 24 * units.HOUR_S == 24 * 60 * units.MINUTE_S


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ns"),
        (0.00321, "3.21 ms"),
        (1, "1 s"),
        (0.9996, "1 s"),
        (119.4, "119 s"),
        (120, "2 min"),
        (7384, "2 h 3 min"),
        (200_000, "2 d 7 h"),
        (-0.002, "-2 ms"),
        (4.2e-6, "4.2 µs"),
        (1e-12, "0.001 ns"),
        (float("nan"), "unknown"),
        (float("inf"), "∞"),
    ],
)
def test_format_time(seconds, text):
    assert units.format_time(seconds) == text


@pytest.mark.parametrize(
    ("count", "binary", "text"),
    [
        (80e9, False, "80 GB"),
        (0, False, "0 B"),
        (999_999, False, "1 MB"),
        (16 * 2**30, True, "16 GiB"),
        (1023, True, "1020 B"),
    ],
)
def test_format_bytes(count, binary, text):
    assert units.format_bytes(count, binary=binary) == text


def test_format_rate_and_ratio():
    assert units.format_rate(3.35e12) == "3.35 TB/s"
    assert units.format_rate(1234, "tokens") == "1.23 ktokens/s"
    assert units.format_rate(float("nan"), "B") == "unknown B/s"
    assert units.format_bytes(float("-inf")) == "-∞"
    assert units.format_ratio(0.0936) == "9.36 %"
    assert units.format_ratio(1.5) == "150 %"


@given(st.floats(1e-9, 119))
def test_times_read_back_within_half_a_digit(seconds):
    assert read_back(units.format_time(seconds)) == pytest.approx(seconds, rel=0.00501)


@given(st.floats(1, 1e20), st.booleans())
def test_bytes_read_back_within_half_a_digit(count, binary):
    text = units.format_bytes(count, binary=binary)
    assert read_back(text) == pytest.approx(count, rel=0.00501)
    assert re.fullmatch(r"\d+(\.\d+)? \w+", text)
