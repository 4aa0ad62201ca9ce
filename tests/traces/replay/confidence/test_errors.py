"""Errors of replay: none where it is exact, told by prompt where the prompts are the anchors'."""

import dataclasses

import numpy as np
import pytest

from hardware_profiles.errors import InputError
from tests.traces.replay.confidence.replay_errors import replay_errors
from tests.traces.toy_masked import ANCHORS, SURE, toy_trace
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.walk import replay_policy

BETWEEN = RefinePolicy(commit="threshold", at={"confidence": 0.75}, block_tokens=8)


def test_recorded_policies_have_no_error_and_others_have_one_by_prompt():
    recorded, between = replay_errors(
        toy_trace(ANCHORS, prompts=12), toy_trace([SURE, BETWEEN], prompts=12)
    )
    assert (recorded.how, recorded.signed, recorded.per_prompt, recorded.covered) == (
        "recorded",
        0.0,
        0.0,
        1.0,
    )
    assert between.how == "nearest state" and abs(between.signed) <= between.per_prompt < 0.2
    assert 0.5 < between.covered <= 1.0
    assert recorded.spread == 0.0


def test_the_spread_of_paired_prompts_is_that_of_drawing_them_again():
    """A bootstrap over prompts of the ratio of sums, as a loop."""
    anchors, live = toy_trace(ANCHORS, prompts=40), toy_trace([BETWEEN], prompts=40)
    (error,) = replay_errors(anchors, live)
    replayed, steps = replay_policy(anchors, BETWEEN).steps, live.steps
    rng = np.random.default_rng(0)
    drawn = [rng.integers(0, 40, 40) for _ in range(2000)]
    assert error.spread == pytest.approx(
        np.std([replayed[d].sum() / steps[d].sum() for d in drawn]), rel=0.15
    )


def test_other_prompts_are_compared_in_the_mean_with_their_spread():
    others = toy_trace([SURE], names=[f"toy-{n}" for n in range(100, 120)])
    (error,) = replay_errors(toy_trace(ANCHORS, prompts=20), others)
    assert error.per_prompt is None and error.covered is None
    assert 0 < error.spread < 0.1 and abs(error.signed) < 4 * error.spread


def test_some_shared_prompts_are_refused():
    with pytest.raises(InputError, match="all among the anchors' prompts, or none"):
        replay_errors(toy_trace(ANCHORS, prompts=2), toy_trace([SURE], prompts=3))


def test_a_policy_without_a_live_run_is_named():
    live = dataclasses.replace(
        toy_trace([SURE], prompts=2), policies=(SURE, BETWEEN), file="live.parquet"
    )
    with pytest.raises(InputError, match="a live run that took a pass") as caught:
        replay_errors(toy_trace(ANCHORS, prompts=2), live)
    assert (caught.value.file, caught.value.key, caught.value.value) == (
        "live.parquet",
        "policies",
        BETWEEN.name,
    )
