"""The steps that were recorded themselves, and the spread between runs of the same prompts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace, Provenance
from traces.kinds.provenance import POLICY_KEY, REPEATS_KEY, TREE_KEY
from traces.kinds.step_counts import NEW_TOKENS, STEPS
from traces.kinds.summary import Summary
from traces.replay.counted import (
    counts_requests,
    recorded_steps,
    recorded_tree,
    repeat_variance,
    widened,
)


def counted(steps, tokens, **extra):
    return AcceptanceTrace(
        provenance=Provenance(method="medusa", extra=extra),
        offsets=np.zeros(len(steps) + 1, dtype=np.int64),
        summary=Summary(drafts=sum(steps), accepted_tokens=sum(tokens) - sum(steps)),
        extra_columns={STEPS: steps, NEW_TOKENS: tokens},
    )


@given(
    st.lists(
        st.integers(1, 50).flatmap(lambda n: st.tuples(st.just(n), st.integers(n, 5 * n))),
        min_size=1,
        max_size=8,
    )
)
def test_counts_of_requests_pool_to_the_summary(pairs):
    steps, tokens = map(list, zip(*pairs, strict=True))
    trace = counted(steps, tokens)
    replay = recorded_steps(trace)
    assert counts_requests(trace)
    assert replay.tokens_per_step == sum(tokens) / sum(steps)
    assert replay.tokens_per_step == pytest.approx(trace.summary.tokens_per_step, rel=1e-12)
    assert replay.steps.tolist() == steps and replay.tokens.tolist() == tokens


def test_counts_that_contradict_the_summary_are_refused():
    trace = counted([2, 2], [4, 4])
    wrong = replace(trace, extra_columns={STEPS: [2, 1], NEW_TOKENS: [4, 4]})
    with pytest.raises(InputError, match="must add up"):
        recorded_steps(wrong)
    with pytest.raises(InputError, match="whole numbers"):
        recorded_steps(replace(trace, extra_columns={STEPS: [2, -2], NEW_TOKENS: [4, 4]}))
    with pytest.raises(InputError, match="must count the steps"):
        recorded_steps(replace(trace, extra_columns={}))


def test_positions_of_one_policy_are_replayed_and_others_refused():
    trace = AcceptanceTrace(offsets=np.array([0, 3]), emitted=np.array([2, 1, 1]))
    with pytest.raises(InputError, match="one policy"):
        recorded_steps(trace)
    one = replace(trace, provenance=Provenance(extra={POLICY_KEY: 4}))
    assert recorded_steps(one).steps.tolist() == [2]


@pytest.mark.parametrize("paths", ["own", [0], [[0], [1, 0]]])
def test_a_tree_that_is_none_is_refused(paths):
    with pytest.raises(InputError):
        recorded_tree(counted([1], [1], **{TREE_KEY: paths}))


def test_variance_between_runs_is_that_of_their_means():
    runs = [{STEPS: 10, NEW_TOKENS: 20}, {STEPS: 10, NEW_TOKENS: 24}]
    assert repeat_variance(counted([10], [20], **{REPEATS_KEY: runs})) == pytest.approx(0.08)
    assert repeat_variance(counted([10], [20], **{REPEATS_KEY: [runs[0]] * 3})) == 0.0
    assert repeat_variance(counted([10], [20])) == 0.0
    for wrong in ("runs", [runs[0]], [runs[0], {STEPS: 0, NEW_TOKENS: 1}]):
        with pytest.raises(InputError, match="repeats"):
            repeat_variance(counted([10], [20], **{REPEATS_KEY: wrong}))


@given(st.integers(0, 1000), st.floats(0.0, 0.01))
def test_variances_over_requests_and_between_runs_add(seed, between):
    drawn = 2.5 + 0.05 * np.random.default_rng(seed).standard_normal(400)
    over = float(np.mean((drawn - 2.5) ** 2))
    wide = widened(drawn, 2.5, between)
    assert float(np.mean((wide - 2.5) ** 2)) == pytest.approx(over + between, rel=1e-9)
    assert np.all(np.argsort(wide) == np.argsort(drawn))
