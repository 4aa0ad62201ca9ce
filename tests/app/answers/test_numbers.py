"""Numbers and tables: what a reader sees is the number, plainly, and no wider than a page."""

import contextlib
import io
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.answers.numbers import fixed, plain, ranged, time_unit
from app.answers.sentences import WIDEST
from app.render.text import print_table

numbers = st.floats(min_value=-1e12, max_value=1e12).filter(lambda x: x == 0 or abs(x) > 1e-9)


@given(numbers)
def test_a_plain_number_reads_back_to_three_digits_and_has_no_exponent(value):
    shown = plain(value)
    assert "e" not in shown
    assert float(shown.replace(",", "")) == pytest.approx(value, rel=5.001e-3)
    whole = shown.lstrip("-").partition(".")[0]
    assert re.fullmatch(r"\d{1,3}(,\d{3})*", whole)


@given(st.floats(min_value=1000.0, max_value=1e12))
def test_whole_digits_are_never_rounded_away(value):
    assert abs(float(plain(value).replace(",", "")) - value) <= 0.5


@given(numbers, st.floats(0, 0.5), st.floats(0, 0.5))
def test_an_interval_shows_its_number_and_both_bounds_alike(value, below, above):
    low, high = value - below * abs(value), value + above * abs(value)
    shown = ranged(value, (low, high))
    middle, left, right = re.fullmatch(r"(.+) \[(-?[^–]+)–(.+)\]", shown).groups()
    assert len({len(each.partition(".")[2]) for each in (middle, left, right)}) == 1
    assert ranged(value, None) == middle


@given(st.lists(st.floats(1e-7, 1e4), min_size=1, max_size=8))
def test_one_unit_shows_every_time_of_a_table(seconds):
    unit = time_unit(seconds)
    for each in seconds:
        assert float(unit.show(each).replace(",", "")) * unit.seconds == pytest.approx(
            each, rel=6e-3
        )


@pytest.mark.parametrize(
    ("seconds", "name"),
    [
        ([], "ms"),
        ([0.0, None], "ms"),
        ([0.007, 0.5], "ms"),
        ([2.0, 90.0], "s"),
        ([1e-6, 1.0], "µs"),
    ],
)
def test_the_unit_is_the_largest_that_keeps_the_shortest_time(seconds, name):
    assert time_unit(seconds).name == name


def test_what_is_unknown_or_absent_has_its_own_sign():
    assert (plain(None), fixed(None, 2), plain(float("inf")), fixed(float("nan"), 1)) == (
        "",
        "",
        "∞",
        "unknown",
    )


words = st.text("abcdefg hij", min_size=1, max_size=60).map(str.strip).filter(bool)
rows = st.lists(
    st.tuples(words, words, st.integers(0, 10**9).map(str), st.just("16.2 [15.1–17.3]")), min_size=1
)


@given(rows)
def test_a_table_fits_a_page_and_keeps_all_of_its_cells(cells):
    lines = lines_of("a title", ["name", "remark", "count of many things", "speedup"], cells)
    assert all(len(line) <= WIDEST for line in lines)
    text = sorted("".join("".join(lines).split()))
    for every in zip(*cells, strict=True):
        assert not Counter("".join("".join(every).split())) - Counter(text)
    assert (
        [line for line in lines if "[15.1–17.3]" in line][-1].rstrip().endswith("16.2 [15.1–17.3]")
    )


def lines_of(*table, **options):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        print_table(*table, **options)
    return out.getvalue().splitlines()


def test_what_all_rows_share_is_said_once():
    cells = [["1", "1,024", "2.0"], ["8", "1,024", "1.5"]]
    shared = lines_of("t", ["batch", "context", "gain"], cells, once=["batch", "context"])
    assert shared[1].strip() == "context 1,024" and "1,024" not in "".join(shared[2:])
    assert "batch" in shared[2]
    assert not any("context" in line for line in lines_of("t", ["a", "context"], [["1", ""]]))


names = st.text("abcdefghij-", min_size=1, max_size=WIDEST - 30)


@given(st.lists(st.tuples(names, words, words), min_size=1))
def test_names_stay_whole_where_other_columns_yield(cells):
    rows = [[*row, "16.2 [15.1–17.3]"] for row in cells]
    heads = ["name", "remark", "what else", "speedup"]
    lines = lines_of("t", heads, rows, yields=["what else", "remark"])
    assert all(len(line) <= WIDEST for line in lines)
    starts = [line.split()[0] for line in lines if line.endswith("17.3] ")]
    assert starts == [name for name, *_ in cells]
    for head in ("what else", "remark"):
        assert any(head in line for line in lines), "it is there, or said to be left out"
