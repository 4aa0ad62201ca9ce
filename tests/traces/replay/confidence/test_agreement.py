"""How often a policy that was not recorded writes what one token a pass writes: estimates beside
live runs."""

import numpy as np
import pytest

from tests.traces.toy_masked import ANCHORS, toy_trace
from traces.kinds.refine_policy import RefinePolicy
from traces.library import trace_file
from traces.replay.confidence.agreement import Agreement, lowered
from traces.replay.confidence.anchors import pooled
from traces.replay.confidence.walk import log_odds_shift, replay_policy
from traces.storage.confidence_file import read_confidence

BETWEEN = RefinePolicy(commit="threshold", at={"confidence": 0.75}, block_tokens=8)


def shipped(name):
    return read_confidence(trace_file(f"confidence/{name}"))


@pytest.fixture(scope="module")
def beside_live():
    """Live shares, estimates, bounds of fourteen rules that no anchor followed, means over 32 of
    their prompts."""
    states, live = pooled(shipped("masked-names--plain")), shipped("masked-names-live--plain")
    wrote = dict(
        zip(states.prompts, states.final_ids[states.run_of(states.policies[0])], strict=True)
    )
    rows = []
    for place, policy in enumerate(live.policies):
        runs = np.flatnonzero(live.policy_of_run == place)
        names = [live.request_ids[run] for run in runs]
        found = replay_policy(states, policy, interval=False).agreement
        at = [states.prompts.index(name) for name in names]
        true = np.mean(
            [live.final_ids[run] == wrote[name] for run, name in zip(runs, names, strict=True)]
        )
        rows.append(
            [true, *(share[at].mean() for share in (found.estimate, found.lower, found.upper))]
        )
    return np.array(rows)


def test_estimates_are_three_times_nearer_to_live_runs_than_replay_alone(beside_live):
    true, estimate, _, replayed = beside_live.T
    assert len(true) == 14
    assert np.abs(estimate - true).mean() < 0.055 and np.abs(estimate - true).max() < 0.12
    assert np.abs(estimate - true).mean() < np.abs(replayed - true).mean() / 3.0


def test_live_runs_lie_within_the_bounds(beside_live):
    true, _, lower, upper = beside_live.T
    assert np.sum((lower - 0.005 <= true) & (true <= upper + 0.005)) >= 13


def test_what_was_recorded_is_exact():
    states = pooled(toy_trace(ANCHORS, prompts=6))
    for policy in states.policies:
        found = replay_policy(states, policy).agreement
        assert found.estimate is found.lower is found.upper


def test_bounds_hold_the_estimate_and_texts_that_agree_in_full_stay():
    found = lowered(np.linspace(0.2, 0.9, 6), 1.0)
    assert np.all(found.lower < found.estimate) and np.all(found.estimate < found.upper)
    for shares in (np.zeros(6), np.ones(6)):
        assert np.array_equal(lowered(shares, 1.0).estimate, shares)


def test_nothing_is_learned_from_a_lonely_anchor():
    states = pooled(toy_trace(ANCHORS[:1], prompts=6))
    assert log_odds_shift(states) == 0.0
    found = replay_policy(states, BETWEEN).agreement
    assert np.array_equal(found.lower, found.upper)


def test_unknown_is_said_as_nothing():
    assert lowered(np.full(2, np.nan), 1.0).words == ""
    assert "50.0% of the tokens" in Agreement.exact(np.full(2, 0.5)).words
