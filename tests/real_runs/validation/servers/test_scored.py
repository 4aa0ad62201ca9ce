"""Points of served runs: what was predicted beside what was measured, and what is left out."""

import hashlib
from dataclasses import replace

import pytest

from costmodel.answers.settings import build_setting
from real_runs.trials.make import FAILED
from real_runs.validation.bench import score
from real_runs.validation.predict import PredictedRun, Prediction
from real_runs.validation.runs import AGAIN, runs_of
from real_runs.validation.score import summary
from real_runs.validation.servers.configurations import synthetic
from real_runs.validation.servers.subject import prompt_times
from tests.real_runs.validation.servers.served_runs import (
    ASKED,
    LOOKUP,
    OUTPUT,
    PLAIN,
    PLAN,
    RECORDED,
    SINGLE,
    subject,
    values,
)

DIGEST = hashlib.sha256(repr([OUTPUT]).encode()).hexdigest()


def entries(**changes):
    return [
        {"cell": cell.name, "configuration": served.name, "prompts": [name], "round": 0}
        | values(output_sha256=DIGEST, **changes)
        for cell, every in PLAN
        for served in every
        for name in cell.prompts
    ]


def predict(served, group, counted):
    rate = 1.0 if served.drafter else 2.0
    run = PredictedRun(
        tokens=10, steps=10, request_steps=10, draft_s=0.0, verify_s=rate, rest_s=0.0
    )
    return Prediction(run=run, ttft_s=0.1, tpot_s=0.1, spread_ratio=0.1)


def scored(made, *, keep_disturbed=False):
    chosen = {cell.name: LOOKUP.name for cell, _ in PLAN}
    asked = subject(predict=predict, chosen=chosen, keep_disturbed=keep_disturbed)
    validation = score(asked, made, missing=0, rounds=1)
    return validation.points, validation.left_out


def test_a_run_as_predicted_has_no_error_and_lies_in_its_interval():
    points, left_out = scored(entries())
    assert not left_out and len(points) == 4
    by_name = {(point.context, point.configuration): point for point in points}
    hit, missed = by_name[256, LOOKUP.name], by_name[256, PLAIN.name]
    assert (
        hit.error_ratio == pytest.approx(0.0) and hit.covered and hit.chosen and not hit.differing
    )
    assert missed.error_ratio == pytest.approx(-0.5) and not missed.covered and not missed.chosen
    assert hit.measured["ttft_s"] == 0.1 and hit.predicted["tpot_s"] == 0.1
    assert summary(points).configurations == 4


def test_a_text_other_than_the_recorded_one_is_counted():
    points, _ = scored([each | {"output_sha256": "other"} for each in entries()])
    assert all(point.differing == 2 for point in points)


def test_failed_and_disturbed_runs_are_left_out_and_said():
    made = entries()
    made[0] = {key: made[0][key] for key in ("cell", "configuration", "prompts", "round")} | {
        FAILED: "it died"
    }
    made[-1] |= {"cpu_s": 0.4}
    made.append(made[-1] | {"round": 1, "cpu_s": 0.3})
    points, left_out = scored(made)
    assert len(points) == 2 and sum("it died" in each for each in left_out) == 1
    assert sum("no undisturbed run" in each for each in left_out) == 2
    assert len(scored(made, keep_disturbed=True)[0]) == 3


def test_a_run_that_a_later_call_made_up_for_is_not_said_to_have_failed():
    failed = {
        "cell": SINGLE.name,
        "configuration": PLAIN.name,
        "prompts": ["a"],
        "round": 0,
        FAILED: "it died",
    }
    points, left_out = scored([failed, *entries()])
    assert len(points) == 4 and not left_out


def test_prompts_are_listed_with_their_times():
    times = prompt_times(build_setting(ASKED), RECORDED)
    assert [each["measured_s"] for each in times] == [2.0] * 4
    assert all(each["tokens"] == 2 and each["predicted_s"] > 0 for each in times)


def test_repeats_of_drawn_acceptance_are_put_beside_predictions_of_their_own_draws():
    drawn, place = synthetic(LOOKUP, 0.8), {"cell": SINGLE.name, "prompts": ["a"], "round": 0}
    lucky = values(counted=[[5, 20]], steps=5, request_steps=5, decode_s=0.6, cpu_s=0.6)
    unlucky = values(counted=[[10, 38]], decode_s=1.0)
    slowed = values(counted=[[5, 20]], steps=5, request_steps=5, decode_s=0.9, cpu_s=0.9)

    def own(served, group, counted):
        steps = counted[0][0]
        run = PredictedRun(
            tokens=10,
            steps=steps,
            request_steps=steps,
            draft_s=0.0,
            verify_s=0.1 * steps,
            rest_s=0.0,
        )
        return Prediction(run=run, ttft_s=0.1, tpot_s=0.1, spread_ratio=0.1)

    cell = replace(SINGLE, prompts=("a",))
    made = [place | {"configuration": drawn.name} | slowed | {AGAIN: [lucky, unlucky]}]
    assert [run.decode_s for run in runs_of(made)] == [0.9, 0.6, 1.0]
    ended = score(subject(predict=own, plan=[(cell, [drawn])]), made, missing=0, rounds=1)
    (point,), left_out = ended.points, ended.left_out
    # the unlucky run took what its ten steps should take; the lucky one was a fifth slower than its
    # five should be
    assert not left_out and point.error_ratio == pytest.approx(0.0) and point.runs == 3
    assert point.measured["tokens_per_step"] == pytest.approx(1.0)
