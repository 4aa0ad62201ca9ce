"""Blocks of a replay: they are the recorded runs' own passes, and add up to what the replay
counts."""

from dataclasses import replace

import numpy as np
import pytest

from hardware_profiles.errors import InputError
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.anchors import pooled
from traces.replay.confidence.block_passes import block_passes
from traces.replay.confidence.self_verified import self_verified_passes
from traces.storage.confidence_file import read_confidence

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def plain(root):
    return read_confidence(root / "traces/recorded/confidence/masked-names--plain.parquet")


@pytest.fixture(scope="module")
def cached(root):
    return read_confidence(root / "traces/recorded/confidence/masked-names--dual-cache.parquet")


def recorded(trace, policy):
    """What every pass of the policy's runs committed, in the order of runs, and which block it was
    at."""
    place = trace.policies.index(policy)
    runs = np.flatnonzero(trace.policy_of_run == place)
    commits = [
        np.bincount(trace.committed_at[run], minlength=trace.steps[run])[: trace.steps[run]]
        for run in runs
    ]
    steps = np.concatenate([np.arange(*trace.step_offsets[run : run + 2]) for run in runs])
    return np.concatenate(commits), trace.block_start[steps]


def test_a_recorded_policy_is_walked_exactly(plain, cached):
    for trace in (plain, cached):
        for policy in trace.policies:
            walked = block_passes(trace, policy)
            commits, start = recorded(trace, policy)
            np.testing.assert_array_equal(walked.committed, commits)
            np.testing.assert_array_equal(np.repeat(walked.start, walked.passes), start)
            assert walked.replay.how == "recorded"


@pytest.mark.parametrize(
    "policy",
    [
        RefinePolicy(commit="threshold", at={"confidence": 0.35}),
        RefinePolicy(commit="factor", block_tokens=16),
        RefinePolicy(commit="doubling", block_tokens=64),
        RefinePolicy(commit="self_verified"),
        RefinePolicy(
            commit="threshold", at={"confidence": 0.3}, delimiters=(3, 5), delimiter_confidence=0.1
        ),
        RefinePolicy(commit="gap", at={"early": 2.0, "middle": 1.0, "late": 0.5}),
    ],
    ids=lambda policy: policy.name,
)
def test_blocks_add_up_to_the_replay(plain, policy):
    walked = block_passes(plain, policy)
    replay = walked.replay
    np.testing.assert_array_equal(np.bincount(walked.prompt, weights=walked.passes), replay.steps)
    np.testing.assert_array_equal(np.bincount(walked.prompt, weights=walked.tokens), replay.tokens)
    assert walked.committed.sum() == replay.tokens.sum() and np.all(walked.tokens > 0)
    assert walked.begins.sum() == len(replay.prompts) and np.all(walked.start[walked.begins] == 0)
    following = ~walked.begins[1:]
    np.testing.assert_array_equal(walked.start[1:][following], walked.end[:-1][following])


def test_confirmed_drafts_take_the_passes_that_are_counted(plain):
    policy = RefinePolicy(commit="self_verified", at={"drafts": 3})
    states = pooled(plain)
    runs = states.run_of(RefinePolicy(commit="static"))
    walked = block_passes(states, policy)
    np.testing.assert_array_equal(
        np.bincount(walked.prompt, weights=walked.passes),
        self_verified_passes(states, runs, policy),
    )
    first = walked.pass_offsets[:-1][walked.begins]
    assert not walked.committed[first].any()  # nothing is drafted yet


def test_a_text_that_ends_brings_no_token_behind_its_end(plain):
    ended = replace(plain, end_id=int(np.bincount(plain.final_ids.ravel()).argmax()))
    policy = RefinePolicy(commit="static", stop="end_token", block_tokens=16)
    walked, whole = block_passes(ended, policy), block_passes(ended, replace(policy, stop="full"))
    texts = np.bincount(walked.prompt, weights=walked.tokens).astype(int)
    static = plain.final_ids[pooled(plain).run_of(RefinePolicy(commit="static"))]
    assert np.all(texts <= 64) and np.any(texts < 64) and walked.passes.sum() < whole.passes.sum()
    assert np.all(walked.tokens <= walked.end - walked.start) and np.all(walked.tokens > 0)
    stopped = np.flatnonzero(texts < 64)
    assert any(static[at, texts[at] - 1] == ended.end_id for at in stopped)


def test_what_the_replay_refuses_is_refused(plain):
    with pytest.raises(InputError, match="as recorded"):
        block_passes(plain, RefinePolicy(commit="threshold", cache="dual"))
    with pytest.raises(InputError, match="divide"):
        block_passes(plain, RefinePolicy(commit="threshold", block_tokens=24))
