"""Oracles against brute force, and above everything that a replay can do."""

from functools import lru_cache

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.oracle import request_oracle, step_oracle
from traces.replay.walk import replay_chain


@st.composite
def recordings(draw):
    lengths = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))
    n = sum(lengths)
    emitted = np.array([draw(st.integers(1, 5)) for _ in range(n)], dtype=np.int16)
    drafted = (
        np.array([draw(st.integers(0, 5)) for _ in range(n)], dtype=np.int16)
        if draw(st.booleans())
        else None
    )
    if drafted is not None:
        emitted = np.minimum(emitted, drafted + 1)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return AcceptanceTrace(
        offsets=offsets,
        emitted=emitted,
        drafted=drafted,
        first_step_position=draw(st.integers(0, 1)),
    )


def least(trace, request, cost):
    begin, end = int(trace.offsets[request]), int(trace.offsets[request + 1])

    @lru_cache
    def from_(i):
        if i >= end:
            return 0.0
        accepted = min(int(trace.emitted[i]) - 1, end - i - 1, len(cost) - 1)
        return min(cost[k] + from_(i + k + 1) for k in range(accepted + 1))

    return from_(begin + trace.first_step_position)


COSTS = st.lists(st.floats(0.1, 3.0), min_size=1, max_size=5)


@given(recordings(), COSTS)
def test_steps_take_the_shortest_path(trace, cost):
    found = step_oracle(trace, cost)
    assert found.cost == pytest.approx([least(trace, r, cost) for r in range(trace.requests)])
    assert (
        found.tokens.tolist()
        == np.maximum(trace.output_tokens - trace.first_step_position, 0).tolist()
    )


UNEVEN = AcceptanceTrace(  # steps that draft 1 and 3 tokens cost more than two that draft 2
    offsets=np.array([0, 6]),
    emitted=np.array([1, 1, 4, 1, 1, 1], dtype=np.int16),
    drafted=np.array([0, 1, 3, 0, 0, 0], dtype=np.int16),
)


@given(recordings(), COSTS)
@example(UNEVEN, [1.0, 1.0, 1.0, 2.0])
def test_no_fixed_length_costs_less(trace, cost):
    rising = np.sort(cost)
    bound, by_request = step_oracle(trace, rising).cost, request_oracle(trace, rising).cost
    assert np.all(bound <= by_request + 1e-9)
    for length in range(len(cost)):
        steps = replay_chain(trace, length).steps
        if trace.drafted is None:  # every step drafts its full length
            assert np.all(by_request <= steps * rising[length] + 1e-9)
        assert np.all(step_oracle(trace, np.ones(length + 1)).cost <= steps)


def test_a_short_draft_may_serve_better():
    """After one accepted token the next step emits three; a step of two draft tokens would start
    behind it."""
    trace = AcceptanceTrace(offsets=np.array([0, 5]), emitted=np.array([2, 1, 3, 1, 1]))
    assert step_oracle(trace, [1.0, 1.0, 1.0]).cost.tolist() == [2.0]
    dear = step_oracle(trace, [1.0, 5.0, 9.0])
    assert dear.cost.tolist() == [5.0], "drafting does not pay: five plain steps"


def test_trees_reach_every_recorded_candidate():
    trace = AcceptanceTrace(
        offsets=np.array([0, 4]),
        emitted=np.array([1, 1, 1, 1]),
        rank=np.array([1, 2, -1, 0]),
        rank_width=3,
        depth_invariant=True,
    )
    assert step_oracle(trace, np.ones(4)).tokens_per_cost == 1.0
    assert step_oracle(trace, np.ones(4), trees=True).tokens_per_cost == 2.0


@pytest.mark.parametrize("cost", [[], [1.0, 0.0], [[1.0]], [-1.0]])
def test_costs_are_positive(cost):
    trace = AcceptanceTrace(offsets=np.array([0, 1]), emitted=np.array([1]))
    with pytest.raises(InputError, match="cost"):
        step_oracle(trace, cost)


def test_a_recording_without_steps_has_no_rate():
    trace = AcceptanceTrace(offsets=np.array([0, 1]), emitted=np.array([1]), first_step_position=1)
    with pytest.raises(InputError, match="no decoding step"):
        _ = step_oracle(trace, [1.0]).tokens_per_cost
