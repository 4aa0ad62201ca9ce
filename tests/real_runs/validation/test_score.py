"""Errors, coverage and regret are what their definitions say."""

import json
from dataclasses import asdict, replace

import pytest

pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st

from real_runs.trials.trials import PromptCell
from real_runs.validation.configurations import Configuration, chain
from real_runs.validation.predict import PredictedRun, Prediction
from real_runs.validation.runs import Run
from real_runs.validation.score import (
    breakdown,
    fastest_chosen,
    regrets,
    score_point,
    summary,
    write_points,
)

CELL = PromptCell(phase="score", kind="overlap", context=0, batch=1, prompts=("a", "b"))


def run(prompt, seconds, tokens=10, steps=5):
    return Run(
        cell=CELL.name,
        configuration="x",
        round=0,
        prompts=(prompt,),
        tokens=tokens,
        steps=steps,
        request_steps=steps,
        drafted_tokens=0,
        decode_s=seconds,
        cpu_s=seconds,
        draft_s=0.1 * seconds,
        verify_s=0.8 * seconds,
        passes=(),
        output_sha256="",
    )


def predicted(seconds, tokens=10, steps=5, spread=0.1):
    run = PredictedRun(
        tokens=tokens,
        steps=steps,
        request_steps=steps,
        draft_s=0.1 * seconds,
        verify_s=0.8 * seconds,
        rest_s=0.1 * seconds,
    )
    return Prediction(run=run, spread_ratio=spread)


def point(configuration, took, said, *, chosen=False, spread=0.1):
    groups = {
        ("a",): ([run("a", s) for s in took], predicted(said, spread=spread)),
        ("b",): ([run("b", took[0])], predicted(said, spread=spread)),
    }
    return score_point(CELL, configuration, groups, chosen=chosen, ran=len(took) + 3, differing=0)


def test_the_median_over_rounds_counts_and_prompts_are_pooled():
    found = point(chain("early-exit", 2), [1.0, 1.2, 9.0], 1.0)
    assert found.measured["tokens_per_s"] == pytest.approx(20 / 2.2)
    assert found.predicted["tokens_per_s"] == pytest.approx(20 / 2.0)
    assert found.error_ratio == pytest.approx(0.1) and found.runs == 4
    assert found.disturbed == 2 and "ttft_s" not in found.measured
    assert (
        found.measured["step_s"] == pytest.approx(2.2 / 10)
        and found.measured["tokens_per_step"] == 2.0
    )
    assert found.interval == pytest.approx((10 / 1.1, 11.0)) and found.covered


@given(st.floats(0.5, 2.0), st.floats(0.01, 0.5))
def test_an_interval_covers_what_lies_within(took, spread):
    found = point(Configuration(), [took], 1.0, spread=spread)
    assert found.covered == (1 / (1 + spread) <= 1 / took <= 1 + spread)


def test_regret_is_against_the_best_measured_and_never_negative():
    points = [
        point(Configuration(), [1.0], 1.0),
        point(chain("early-exit", 2), [0.8], 0.7, chosen=True),
        point(chain("early-exit", 4), [0.5], 0.9),
    ]
    (found,) = regrets(points)
    assert (found.chosen, found.best) == ("early-exit-2", "early-exit-4")
    assert found.regret_ratio == pytest.approx(1 - 0.5 / 0.8)
    points[1] = point(chain("early-exit", 2), [0.4], 0.7, chosen=True)
    assert regrets(points)[0].regret_ratio == 0.0
    assert regrets(points[:1]) == []
    whole = summary(points)
    assert whole.configurations == 3 and whole.most_regret_ratio == 0.0
    assert whole.median_error_ratio <= whole.p90_error_ratio
    assert whole.tokens_per_step_median_error_ratio == 0.0


def test_the_fastest_prediction_of_a_cell_is_its_choice_where_none_was_known_before():
    points = [point(chain("early-exit", k), [1.0], said) for k, said in ((1, 2.0), (2, 1.5))]
    elsewhere = replace(points[0], batch=4)
    chosen = fastest_chosen([*points, elsewhere])
    assert [each.chosen for each in chosen] == [False, True, True]
    assert [replace(each, chosen=False) for each in chosen] == [*points, elsewhere]


def test_points_are_json_and_parquet(tmp_path):
    import pyarrow.parquet as pq

    points = [
        point(Configuration(), [1.0], 1.0),
        point(chain("early-exit", 2), [0.8], 0.7, chosen=True),
    ]
    write_points(points, tmp_path / "p.parquet")
    rows = pq.read_table(tmp_path / "p.parquet").to_pylist()
    assert [row["configuration"] for row in rows] == ["plain", "early-exit-2"]
    assert rows[1]["measured_tokens_per_s"] == points[1].measured["tokens_per_s"]
    assert json.loads(json.dumps([asdict(each) for each in points]))[1]["chosen"] is True
    groups = breakdown(points)
    assert set(groups["drafter"]) == {"plain", "early-exit chain"}
    assert sum(errors.configurations for errors in groups["kind and batch"].values()) == 2
