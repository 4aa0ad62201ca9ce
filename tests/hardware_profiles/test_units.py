"""Scale factors and what people read."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles import units

FACTORS = {
    "B": 1.0,
    "kB": units.KILO,
    "MB": units.MEGA,
    "GB": units.GIGA,
    "TB": units.TERA,
    "PB": units.PETA,
    "EB": units.EXA,
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
    assert units.GIB == 1024 * units.MIB == 1024**2 * units.KIB == 2**30


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (80e9, "80 GB"),
        (0, "0 B"),
        (999_999, "1 MB"),
        (float("nan"), "unknown"),
        (float("-inf"), "-∞"),
    ],
)
def test_format_bytes(count, text):
    assert units.format_bytes(count) == text


@given(st.floats(1, 1e20))
def test_written_bytes_are_an_amount_again(count):
    text = units.format_bytes(count)
    assert units.amount_of_bytes(text) == pytest.approx(read_back(text), rel=1e-12)
    assert units.amount_of_bytes(f"{text}/s", per_s=True) == units.amount_of_bytes(text)


@given(st.floats(1, 1e20))
def test_bytes_read_back_within_half_a_digit(count):
    text = units.format_bytes(count)
    assert read_back(text) == pytest.approx(count, rel=0.00501)
    assert re.fullmatch(r"\d+(\.\d+)? \w+", text)
