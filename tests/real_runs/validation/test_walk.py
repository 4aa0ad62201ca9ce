"""Walks take the steps that a replay counts, and the ones that the real loops take."""

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.validation.configurations import Configuration, chain, static_tree
from real_runs.validation.walk import walk
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.walk import replay_chain, replay_tree


@st.composite
def traces(draw):
    requests = draw(st.integers(1, 4))
    lengths = [draw(st.integers(2, 12)) for _ in range(requests)]
    total = sum(lengths)
    ranks = np.array(
        draw(st.lists(st.integers(-1, 3), min_size=total, max_size=total)), dtype=np.int8
    )
    emitted = np.ones(total, dtype=np.int16)
    offsets = np.cumsum([0, *lengths])
    limited = draw(st.booleans())
    drafted = np.array(
        draw(st.lists(st.integers(0, 6), min_size=total, max_size=total)), dtype=np.int16
    )
    for start, stop in pairwise(offsets):
        for i in range(start, stop):
            run = 0
            while i + run < stop and ranks[i + run] == 0:
                run += 1
            emitted[i] = min(min(run, drafted[i]) + 1 if limited else run + 1, stop - i)
    told = (
        {"drafted": drafted}
        if limited
        else {"rank": ranks, "rank_width": 4, "depth_invariant": True}
    )
    return AcceptanceTrace(
        offsets=offsets,
        emitted=emitted,
        first_step_position=1,
        **told,
        prompt_tokens=np.arange(5, 5 + requests, dtype=np.int32),
        request_ids=tuple(f"r{i}" for i in range(requests)),
    )


@given(traces(), st.integers(1, 5))
def test_a_walk_of_a_chain_counts_what_replay_counts(trace, k):
    found = walk(trace, chain("prompt-lookup", k), range(trace.requests))
    wanted = replay_chain(trace, k)
    assert found.request_steps == wanted.steps.sum() and found.tokens == wanted.tokens.sum()
    assert found.steps == max(wanted.steps)
    if trace.drafted is not None:
        assert found.drafted.sum() == wanted.drafted_tokens.sum()
    assert (found.requests[:-1] >= found.requests[1:]).all()
    assert (found.query_tokens <= k + 1).all() and (found.query_tokens >= 1).all()


@given(traces())
def test_a_walk_of_a_tree_and_of_nothing(trace):
    tree = static_tree("early-exit", 5)
    if trace.drafted is None:
        found = walk(trace, tree, [0])
        assert found.steps == replay_tree(trace.select([0]), tree.tree).steps.sum()
        assert (found.query_tokens == 5).all()
    plain = walk(trace, Configuration(), range(trace.requests))
    assert plain.request_steps == (trace.output_tokens - 1).sum() == plain.tokens
    assert (plain.query_tokens == 1).all() and not plain.drafted.any()


def test_contexts_grow_by_what_was_emitted():
    trace = AcceptanceTrace(
        offsets=np.array([0, 6]),
        emitted=np.array([1, 3, 1, 1, 2, 1]),
        first_step_position=1,
        prompt_tokens=np.array([10], dtype=np.int32),
        request_ids=("a",),
    )
    found = walk(trace, chain("early-exit", 4), [0])
    assert found.context.tolist() == [10, 13]
    assert found.unread.tolist() == [1, 3]
    assert found.tokens == 5 and found.steps == 2


def test_a_drafter_without_a_recording_is_said():
    with pytest.raises(InputError, match="no such drafter was recorded"):
        walk(None, chain("early-exit", 2), [0])
