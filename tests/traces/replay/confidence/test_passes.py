"""Passes of one prompt: a recorded run is shown as it was recorded, and any walk commits every
position once."""

import numpy as np
import pytest

from hardware_profiles.errors import InputError
from tests.traces.toy_masked import ANCHORS, toy_trace
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.passes import prompt_passes
from traces.replay.confidence.walk import replay_policy


@pytest.fixture(scope="module")
def trace():
    return toy_trace(ANCHORS, prompts=3, length=32)


@pytest.mark.parametrize("policy", ANCHORS, ids=lambda policy: policy.name)
@pytest.mark.parametrize("prompt", [0, 2])
def test_a_recorded_run_is_shown_cell_by_cell(trace, policy, prompt):
    found = prompt_passes(trace, policy, prompt)
    name = list(dict.fromkeys(trace.request_ids))[prompt]
    run = next(
        at
        for at in range(trace.runs)
        if trace.request_ids[at] == name and trace.policies[trace.policy_of_run[at]] == policy
    )
    assert found.is_recorded and found.prompt == name
    assert (found.committed_at == trace.committed_at[run]).all()
    assert len(found.confidence) == trace.steps[run]
    runs, step, position = trace.cells()
    mine = runs == run
    shown = np.full(found.confidence.shape, np.nan)
    shown[step[mine] - trace.step_offsets[run], position[mine]] = 1 - trace.doubt[mine].astype(
        np.float32
    )
    np.testing.assert_allclose(found.confidence, shown, atol=1e-6)


@pytest.mark.parametrize("commit", ["threshold", "factor", "neighbours", "running_mean"])
def test_a_policy_that_was_not_recorded_takes_the_passes_of_its_replay(trace, commit):
    policy = RefinePolicy(commit=commit, block_tokens=16)
    found, replay = prompt_passes(trace, policy, 1), replay_policy(trace, policy)
    assert not found.is_recorded
    assert len(found.confidence) == replay.steps[1]
    committed = found.committed_at
    assert committed.max() < len(found.confidence), "every position is committed"
    assert (
        (committed >= 0)
        & (found.start[committed] <= np.arange(32))
        & (np.arange(32) < found.end[committed])
    ).all()
    before = np.arange(len(found.confidence))[:, None] <= committed[None, :]
    assert (np.isfinite(found.confidence) == before).all(), "a position is masked until its pass"


def test_drafts_of_later_states_show_the_run_that_they_are_drafted_from(trace):
    block = ANCHORS[0].block_tokens
    found = prompt_passes(trace, RefinePolicy(commit="self_verified", block_tokens=block))
    assert found.policy.commit == "static"
    assert len(found.confidence) == 32


def test_a_prompt_that_is_not_there_is_refused(trace):
    with pytest.raises(InputError, match=r"0\.\.2"):
        prompt_passes(trace, ANCHORS[0], 3)
    with pytest.raises(InputError, match="as recorded"):
        prompt_passes(trace, RefinePolicy(commit="threshold", block_tokens=16, cache="dual"))
