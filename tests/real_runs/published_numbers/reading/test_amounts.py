"""Numbers and token counts in the words of published tables."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from real_runs.published_numbers.reading.amounts import is_range, number, token_count

POSITIVE = st.floats(0.001, 1e6).map(lambda value: round(value, 6))


@given(POSITIVE)
def test_a_plain_number_is_read_back(value):
    assert number(f"{value:.6f}") == pytest.approx(value)
    assert number(f" ~{value:.6f} ") == pytest.approx(value)


@given(POSITIVE, POSITIVE)
def test_of_a_range_the_middle_is_taken(low, high):
    text = f"{low:.6f}-{high:.6f}"
    assert is_range(text)
    assert number(text) == pytest.approx((low + high) / 2.0, abs=1e-6)


@given(st.text(max_size=40))
def test_no_text_breaks_it_and_what_it_finds_is_finite(text):
    found = number(text)
    assert found is None or math.isfinite(found)
    count = token_count(text)
    assert count is None or count >= 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12.2 min", 732.0),
        ("109 s", 109.0),
        ("2.88e+08", 2.88e8),
        (".76", 0.76),
        ("2.04/2.26/2.23", None),
        ("2.2 (M1); 2.3-3.6 (M2)", None),
        ("", None),
        ("1e999", None),
    ],
)
def test_numbers_as_tables_have_them(text, value):
    assert number(text) == value


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("128", 128),
        ("1K shared prefix", 1024),
        ("ctx 32768", 32_768),
        ("KV 1024", 1024),
        ("seq 1024", 1024),
        ("0-5k", 2560),
        ("25k-32k", 29_184),
        ("8K-128K", 69_632),
        ("1M", 1 << 20),
        ("~96-128", 112),
        ("16K shared prefix (paged)", 16_384),
        ("LongBench doc (not per-row)", None),
        ("", None),
    ],
)
def test_counts_of_tokens_as_tables_have_them(text, tokens):
    assert token_count(text) == tokens
