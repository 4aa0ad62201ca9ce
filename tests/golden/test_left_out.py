"""Widths of serving intervals: the shipped table answers for every engine, and published runs lie
inside about as often as intervals say."""

import pytest

from app.answers.scoring.measured import QUANTITIES
from simulator.closed_loop.left_out import RATIOS, left_out_ratio
from tests.golden.left_out import measured, written


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_the_shipped_table_answers_for_every_engine(quantity):
    for serving in ("aggregated", "disaggregated"):
        for engine in ("vllm", "sglang", "tensorrt-llm", "llama.cpp"):
            assert 0.0 <= left_out_ratio(quantity, engine, serving) < 5.0
    assert RATIOS[quantity, "", ""] == max(r for key, r in RATIOS.items() if key[0] == quantity)


def test_a_table_is_written_over_the_one_that_is_shipped():
    assert written(RATIOS).count('("tpot", "", "")') == 1
    assert '    ("tpot", "", ""): 0.500,\n}' in written({("tpot", "", ""): 0.5})


@pytest.fixture(params=["published_score", "sampled_score"])
def score(request):
    return request.getfixturevalue(request.param)


def test_measurements_are_read_back(score):
    rows = score["measurements"]
    for m, row in zip(measured(rows), rows, strict=True):
        for quantity in QUANTITIES:
            time = m.compared(quantity)
            assert (time and time.predicted_ms) == row[f"{quantity}_ms"]


def test_published_runs_lie_inside_about_as_often_as_intervals_say(score):
    """Those that travel with the tests, and every eleventh row: with 80 measurements, 80 % are
    known to about 5 %, and those of a class to 10 %."""
    for quantity in QUANTITIES:
        rows = [
            row for row in score["slices"] if row[quantity] and row[quantity]["measurements"] >= 15
        ]
        for row in rows:
            inside = row[quantity]["coverage_ratio"]
            if row["slice"] in ("all", "class"):
                assert (0.68 if row["slice"] == "all" else 0.55) <= inside <= 0.97, (
                    quantity,
                    row["value"],
                )
