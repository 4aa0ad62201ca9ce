"""A part that is wrong by a known factor is named with that factor, and the place where errors
gather is named."""

import numpy as np
import pytest

from app.answers.scoring.measured import ComparedTime, PublishedMeasurement
from app.answers.scoring.mechanisms import gathered, parts
from app.answers.scoring.summaries import SLICES, beside


def measurement(index, predicted, measured, shares, **place):
    return PublishedMeasurement(
        ids=(str(index),),
        family=("a model", "h100-sxm", "vllm"),
        place=dict.fromkeys(SLICES, "same") | place,
        reason=None,
        ttft=None,
        tpot=ComparedTime(
            measured_ms=measured,
            predicted_ms=predicted,
            interval_ms=(0.9 * predicted, 1.2 * predicted),
        ),
        shares={"tpot": shares, "ttft": {}},
    )


@pytest.fixture
def planted():
    """Answers in which the experts, and they alone, take half of what they truly take."""
    generator = np.random.default_rng(0)
    made = []
    for index in range(60):
        experts = float(generator.uniform(0.0, 0.6)) if index % 3 else 0.0
        rest = float(generator.uniform(0.2, 0.8)) * (1.0 - experts)
        shares = {"moe": experts, "gemm": rest, "attention": 1.0 - experts - rest}
        engine = "with experts" if index % 3 else "without"
        made.append(measurement(index, 10.0, 10.0 * (1.0 + experts), shares, engine=engine))
    return made


def test_the_part_at_fault_comes_first_with_its_factor(planted):
    first, *others = parts(planted, "tpot")
    assert first.part == "moe"
    assert first.factor == pytest.approx(2.0, rel=0.03)
    assert first.median_error_then_ratio < 0.01 < first.median_error_ratio
    assert first.worst_share_ratio > first.share_ratio
    assert all(row.log_error > first.log_error for row in others)


def test_errors_gather_where_the_part_is(planted):
    rows = gathered(planted, "tpot")
    assert [row.value for row in rows] == ["with experts"]
    assert rows[0].error_share_ratio == pytest.approx(1.0) and rows[0].count_ratio == pytest.approx(
        2 / 3
    )
    assert rows[0].part == "moe" and rows[0].bias_ratio < 0


def test_nothing_is_blamed_where_nothing_is_off():
    exact = [measurement(i, 5.0, 5.0, {"gemm": 1.0}) for i in range(10)]
    assert gathered(exact, "tpot") == [] and parts(exact, "ttft") == []
    assert parts(exact, "tpot")[0].factor == pytest.approx(1.0)


def test_another_tool_is_scored_on_the_rows_that_both_answer():
    own = [measurement(i, 12.0, 10.0, {}) for i in range(4)]
    (row, *_) = beside(own, {"1": {"tpot": 9.0}, "3": {"tpot": 11.0}, "9": {"tpot": 1.0}})
    assert row.tpot.measurements == row.baseline.tpot.measurements == 2
    assert row.tpot.bias_ratio == pytest.approx(0.2)
    assert row.baseline.tpot.bias_ratio == pytest.approx(0.0, abs=1e-12)
    assert row.baseline.tpot.coverage_ratio is None
