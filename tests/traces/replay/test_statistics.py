"""Statistics: the bootstrap, acceptance by depth, sibling vectors, the geometric law,
correlation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.summary import Summary
from traces.library import trace_file
from traces.replay.statistics import (
    acceptance_by_depth,
    autocorrelation,
    bootstrap_tokens_per_step,
    by_kind,
    drawn_tokens_per_step,
    fitted_acceptance,
    geometric_tokens_per_step,
    request_draws,
    sibling_vector,
    sibling_vectors,
    start_positions,
)
from traces.replay.walk import Replay, replay_chain
from traces.storage.acceptance_file import read_acceptance


def independent_texts(generator, requests, tokens, acceptance, most=8):
    """Texts in which every draft token is kept with one probability."""
    n = requests * tokens
    emitted = np.minimum(generator.geometric(1 - acceptance, n), most + 1)
    return AcceptanceTrace(offsets=np.arange(requests + 1) * tokens, emitted=emitted)


def test_same_seed_same_interval():
    trace = independent_texts(np.random.default_rng(3), 40, 50, 0.6)
    replay = replay_chain(trace, 3)
    first, second = (
        bootstrap_tokens_per_step(replay, trace.prompt_kinds, generator=np.random.default_rng(7))
        for _ in range(2)
    )
    assert first == second and first[0] < replay.tokens_per_step < first[1]


def test_strata_narrow_the_interval_where_kinds_differ(generator):
    texts = [independent_texts(generator, 20, 60, acceptance) for acceptance in (0.2, 0.9)]
    trace = AcceptanceTrace(
        offsets=np.arange(41) * 60, emitted=np.concatenate([text.emitted for text in texts])
    )
    replay = replay_chain(trace, 4)
    wide = bootstrap_tokens_per_step(replay, [""] * 40, generator=generator)
    narrow = bootstrap_tokens_per_step(replay, ["a"] * 20 + ["b"] * 20, generator=generator)
    assert narrow[1] - narrow[0] < 0.5 * (wide[1] - wide[0])


def test_shared_resamples_pair_the_configurations(generator):
    trace = independent_texts(generator, 30, 40, 0.7)
    draws = request_draws(trace.prompt_kinds, generator=generator, draws=500)
    short, long = (drawn_tokens_per_step(replay_chain(trace, k), draws) for k in (2, 3))
    assert np.array_equal(short, drawn_tokens_per_step(replay_chain(trace, 2), draws))
    others = request_draws(trace.prompt_kinds, generator=generator, draws=500)
    apart = drawn_tokens_per_step(replay_chain(trace, 3), others)
    assert np.std(long - short) < 0.85 * np.std(apart - short)
    interval = bootstrap_tokens_per_step(
        replay_chain(trace, 2), trace.prompt_kinds, generator=generator, draws=draws
    )
    assert interval == pytest.approx(tuple(np.quantile(short, [0.1, 0.9])))


def test_bootstrap_refusals(generator):
    trace = independent_texts(generator, 3, 5, 0.5)
    replay, kinds = replay_chain(trace, 1), trace.prompt_kinds
    for coverage in (0.0, 1.0, float("nan")):
        with pytest.raises(InputError, match="coverage"):
            bootstrap_tokens_per_step(replay, kinds, generator=generator, coverage=coverage)
    with pytest.raises(InputError, match="kinds"):
        bootstrap_tokens_per_step(replay, kinds[:2], generator=generator)
    with pytest.raises(InputError, match="draws"):
        drawn_tokens_per_step(replay, request_draws(["", ""], generator=generator))
    with pytest.raises(InputError, match="draws"):
        request_draws(kinds, generator=generator, draws=0)
    nothing = np.zeros(2, dtype=np.int64)
    still = Replay(
        draft_tokens=1,
        tokens=nothing,
        steps=nothing,
        proposed_steps=nothing,
        drafted_tokens=nothing,
    )
    with pytest.raises(InputError, match="no decoding step"):
        bootstrap_tokens_per_step(still, ["", ""], generator=generator)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=60), st.integers(1, 6), st.booleans())
def test_acceptance_by_depth_adds_up_to_the_replay(lengths, depth, with_drafted):
    """1 + the sum over depths is tokens per step, but for steps that the end of the text cuts."""
    capped = np.minimum(lengths, len(lengths) - np.arange(len(lengths)))
    drafted = np.arange(len(lengths)) % 4 if with_drafted else None
    trace = AcceptanceTrace(offsets=[0, len(lengths)], emitted=capped, drafted=drafted)
    by_depth = acceptance_by_depth(trace, depth)
    assert np.all(np.diff(by_depth) <= 0) and by_depth.min() >= 0 and by_depth.max() <= 1
    assert 1 + by_depth.sum() == pytest.approx(
        replay_chain(trace, depth).tokens_per_step, rel=1e-12
    )
    uncapped = AcceptanceTrace(offsets=[0, len(lengths)], emitted=lengths, drafted=drafted)
    assert (
        1 + acceptance_by_depth(uncapped, depth).sum()
        >= replay_chain(uncapped, depth).tokens_per_step - 1e-12
    )


def test_walk_and_all_positions_differ():
    trace = AcceptanceTrace(offsets=[0, 6], emitted=[3, 2, 1, 3, 2, 1])
    assert acceptance_by_depth(trace, 2, "walk").tolist() == [1.0, 1.0]
    assert acceptance_by_depth(trace, 2, "all") == pytest.approx([4 / 6, 2 / 6])
    assert start_positions(trace, "walk", 1).tolist() == [0, 2, 3, 5]
    later = AcceptanceTrace(offsets=[0, 3], emitted=[3, 2, 1], first_step_position=1)
    assert start_positions(later, "all", 4).tolist() == [1, 2]


def ranks_of(offsets, rank, **settings):
    rank = np.array(rank)
    first = rank if rank.ndim == 1 else rank[:, 0]
    return AcceptanceTrace(
        offsets=offsets, emitted=np.where(first == 0, 2, 1), rank=rank, rank_width=3, **settings
    )


def test_sibling_vectors_count_ranks_given_the_true_prefix():
    trace = ranks_of([0, 3, 4], [[0, 1], [1, -1], [-1, 0], [2, 2]])
    assert sibling_vector(trace, 3).tolist() == [0.25, 0.25, 0.25]
    assert sibling_vector(trace, 2).tolist() == [0.25, 0.25]
    # Depth 1 counts positions 0 and 1 only: the texts end after positions 2 and 3.
    assert sibling_vectors(trace, 3, 2)[1].tolist() == [0.0, 0.5, 0.0]
    assert sibling_vector(trace, 3, "walk", 1).tolist() == pytest.approx([1 / 3, 0.0, 1 / 3])


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_sibling_vectors_are_probabilities(seed, depth):
    generator = np.random.default_rng(seed)
    rank = generator.integers(-1, 3, 30)
    rank[rank == 0] = 1
    trace = AcceptanceTrace(
        offsets=[0, 30],
        emitted=np.ones(30, dtype=int),
        rank=rank,
        rank_width=3,
        depth_invariant=True,
    )
    vectors = sibling_vectors(trace, 3, depth)
    assert vectors.min() >= 0 and np.all(vectors.sum(axis=1) <= 1 + 1e-12)
    for level in range(depth):
        later = rank[level:]
        assert vectors[level] == pytest.approx([np.mean(later == k) for k in range(3)])


def test_sibling_refusals():
    trace = ranks_of([0, 2], [[0, 1], [1, 0]])
    for wrong in ({"width": 4, "depth": 1}, {"width": 0, "depth": 1}, {"width": 1, "depth": 3}):
        with pytest.raises(InputError, match="as recorded"):
            sibling_vectors(trace, **wrong)
    with pytest.raises(InputError, match="level 2"):
        sibling_vector(AcceptanceTrace(offsets=[0, 1], emitted=[1]), 1)
    shallow = AcceptanceTrace(
        offsets=[0, 1], emitted=[1], rank=[1], rank_width=2, depth_invariant=True
    )
    with pytest.raises(InputError, match="deep"):
        sibling_vectors(shallow, 1, 2)
    with pytest.raises(InputError, match="walk or all"):
        acceptance_by_depth(trace, 1, "some")
    with pytest.raises(InputError, match="must be >= 1"):
        acceptance_by_depth(trace, 0)
    with pytest.raises(InputError, match="level 1"):
        acceptance_by_depth(AcceptanceTrace(summary=Summary()), 1)
    with pytest.raises(InputError, match="no position"):
        start_positions(AcceptanceTrace(offsets=[0, 0], emitted=[]), "all", 1)


@given(st.floats(0, 1), st.integers(1, 20))
def test_geometric_law_and_its_inverse(acceptance, draft_tokens):
    tokens = geometric_tokens_per_step(acceptance, draft_tokens)
    assert 1 <= tokens <= draft_tokens + 1
    if acceptance < 1:
        assert tokens == pytest.approx(
            (1 - acceptance ** (draft_tokens + 1)) / (1 - acceptance), rel=1e-6
        )
    again = fitted_acceptance(tokens, draft_tokens)
    assert geometric_tokens_per_step(again, draft_tokens) == pytest.approx(tokens, rel=1e-12)


def test_fit_refusals():
    for tokens, draft_tokens in ((0.9, 3), (4.1, 3), (1.0, 0), (float("nan"), 3)):
        with pytest.raises(InputError, match="tokens_per_step"):
            fitted_acceptance(tokens, draft_tokens)


def test_law_holds_where_its_assumption_does(generator):
    trace = independent_texts(generator, 60, 2000, 0.7)
    fitted = fitted_acceptance(replay_chain(trace, 1).tokens_per_step, 1)
    assert fitted == pytest.approx(0.7, abs=0.01)
    assert replay_chain(trace, 5).tokens_per_step == pytest.approx(
        geometric_tokens_per_step(0.7, 5), rel=0.01
    )
    assert np.abs(autocorrelation(trace, 5, 3)).max() < 0.02


@pytest.mark.parametrize("sampling", ["greedy", "t0.8"])
def test_law_fails_on_texts_that_are_looked_up(sampling):
    """Fitted at K = 1 it is too low at K = 5: a match goes on, so that steps are correlated."""
    trace = read_acceptance(trace_file(f"smollm2-135m--prompt-lookup--{sampling}"))
    fitted = fitted_acceptance(replay_chain(trace, 1).tokens_per_step, 1)
    law = geometric_tokens_per_step(fitted, 5)
    assert 0.85 < law / replay_chain(trace, 5).tokens_per_step < 0.97
    assert acceptance_by_depth(trace, 5, "all").sum() > acceptance_by_depth(trace, 5).sum()
    assert autocorrelation(trace, 5, 1)[0] > 0.05


def test_autocorrelation_of_alternating_steps():
    trace = AcceptanceTrace(offsets=[0, 300], emitted=[2, 1, 1] * 100)
    assert autocorrelation(trace, 1, 2) == pytest.approx([-1.0, 1.0], abs=0.02)
    constant = AcceptanceTrace(offsets=[0, 4], emitted=[1] * 4, drafted=[0] * 4)
    assert autocorrelation(constant, 1, 9).tolist() == [0.0] * 9


def test_by_kind_adds_up(generator):
    trace = AcceptanceTrace(
        offsets=[0, 4, 4, 10],
        emitted=[2, 1, 3, 1, 1, 2, 1, 1, 4, 1],
        prompt_kinds=("math", "none", "chat"),
    )
    rows = by_kind(trace, 2, generator=generator)
    assert [row.kind for row in rows] == ["chat", "math", "none"]
    whole = replay_chain(trace, 2)
    assert sum(row.tokens for row in rows) == whole.tokens.sum()
    assert sum(row.steps for row in rows) == whole.steps.sum()
    assert rows[2].tokens_per_step is None and rows[2].interval is None
    low, high = rows[0].interval
    assert low == high == rows[0].tokens_per_step
