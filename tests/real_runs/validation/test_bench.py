"""Runs stand beside what was predicted of them; what cannot be scored is said."""

import pytest

pytest.importorskip("torch")

from hardware_profiles.errors import InputError
from real_runs.validation.bench import score
from real_runs.validation.predict import PredictedRun, Prediction
from real_runs.validation.subject import Predictor, Subject, UnscoredError, grouped
from tests.real_runs.trials.pretended_decoding import CELL, PLAN, Pretended, made


def predicted(cell, configuration, runs):
    run = PredictedRun(tokens=10, steps=10, request_steps=10, draft_s=0.0, verify_s=1.0, rest_s=0.0)
    prediction = Prediction(run=run, spread_ratio=0.1)
    return {group: (own, prediction) for group, own in grouped(cell, runs).items()}


SUBJECT = Subject(
    plan=PLAN,
    setup={},
    about={},
    launch=Pretended().launch,
    counted=list,
    predictor=lambda counted: Predictor(predict=predicted, costs={"runs": len(counted)}),
    differs=lambda configuration, run: bool(configuration.drafter),
)


def test_a_run_that_fails_is_said_until_it_is_made(tmp_path):
    _, entries = made(Pretended(refuses=[("b",)]), tmp_path, rounds=1)
    validation = score(SUBJECT, entries, missing=0, rounds=1)
    assert "it stopped" in validation.left_out[0] and len(validation.points) == 1
    assert "no undisturbed run of every prompt" in validation.left_out[1]
    _, entries = made(Pretended(), tmp_path, rounds=1, resume=True)
    assert not score(SUBJECT, entries, missing=0, rounds=1).left_out


def test_points_choices_and_texts_that_differ_are_told(tmp_path):
    _, entries = made(Pretended(), tmp_path)
    validation = score(SUBJECT, entries, missing=3, rounds=2)
    plain, lookup = validation.points
    assert (plain.chosen, lookup.chosen) == (False, True)
    assert (plain.differing, lookup.differing) == (0, 4) and lookup.runs == 4
    assert plain.error_ratio == pytest.approx(1.0) and lookup.error_ratio == pytest.approx(0.0)
    (regret,) = validation.regrets
    assert regret.regret_ratio == 0.0 == validation.summary.mean_regret_ratio
    assert validation.missing == 3 and validation.about["rounds"] == 2
    assert len(validation.counted) == validation.costs["runs"] == 8


def test_nothing_to_score_is_an_error_that_says_why():
    with pytest.raises(InputError, match="raise the budget"):
        score(SUBJECT, [], missing=8, rounds=2)
    with pytest.raises(InputError, match="no undisturbed run of every prompt"):
        score(SUBJECT, [], missing=0, rounds=2)
    with pytest.raises(UnscoredError):
        grouped(CELL, [])
