"""Halves of a recording, and what a chosen tree is worth on the other one."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.optimizers.held_out.trees import held_out_comparison, split_halves
from costmodel.optimizers.trees.trace_tree import trace_tree
from hardware_profiles.errors import InputError
from traces.replay.walk import replay_tree

pytestmark = pytest.mark.heavy


@given(
    kinds=st.lists(st.sampled_from(["chat", "code", "math"]), min_size=2, max_size=20),
    seed=st.integers(0, 99),
)
def test_halves_hold_every_request_once_and_like_kinds(trace_of, kinds, seed):
    trace = trace_of([0] * len(kinds), [1] * len(kinds), 2, prompt_kinds=tuple(kinds))
    first, second = split_halves(trace, np.random.default_rng(seed))
    assert sorted(first.request_ids + second.request_ids) == sorted(trace.request_ids)
    assert first.requests - second.requests in (0, 1)
    counts = Counter(first.prompt_kinds), Counter(second.prompt_kinds)
    assert all(abs(counts[0][kind] - counts[1][kind]) <= 1 for kind in kinds)
    kind_of = dict(zip(trace.request_ids, trace.prompt_kinds, strict=True))
    assert all(
        kind_of[name] == kind
        for name, kind in zip(first.request_ids, first.prompt_kinds, strict=True)
    )


def test_the_draw_follows_the_generator(correlated_trace):
    trace = correlated_trace(0)
    draws = [split_halves(trace, np.random.default_rng(seed))[0].request_ids for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]


@pytest.mark.parametrize("seed", range(8))
def test_memory_along_the_text_is_worth_five_percent_held_out(correlated_trace, seed):
    trace = correlated_trace(seed)
    (compared,) = held_out_comparison(trace, (16,), generator=np.random.default_rng(seed))
    assert compared.gain_ratio >= 0.05


def test_no_size_loses_on_average_held_out(correlated_trace):
    gains = []
    for seed in range(8):
        compared = held_out_comparison(
            correlated_trace(seed), generator=np.random.default_rng(seed)
        )
        gains.append([each.gain_ratio for each in compared])
    assert np.all(np.mean(gains, axis=0) > -0.005)


def test_text_without_memory_offers_nothing_to_gain(trace_of):
    generator = np.random.default_rng(7)
    ranks = generator.choice([0, 1, 2, -1], p=[0.6, 0.2, 0.1, 0.1], size=40_000)
    trace = trace_of(ranks, [400] * 100, 4)
    for each in held_out_comparison(trace, (4, 8, 16), generator=generator):
        assert abs(each.gain_ratio) < 0.01


def test_both_trees_are_replayed_on_the_half_they_were_not_chosen_on(correlated_trace):
    trace = correlated_trace(3)
    compared = held_out_comparison(trace, (8, 16), generator=np.random.default_rng(5))
    chosen_on, other = split_halves(trace, np.random.default_rng(5))
    assert [each.chosen for each in compared] == trace_tree(chosen_on, (8, 16))
    for each in compared:
        assert each.tokens_per_step == replay_tree(other, each.chosen.tree).tokens_per_step
        assert each.dp_tokens_per_step == replay_tree(other, each.chosen.dp_tree).tokens_per_step
        assert each.gain_ratio == pytest.approx(each.tokens_per_step / each.dp_tokens_per_step - 1)


def test_refuses_a_single_request(trace_of):
    with pytest.raises(InputError, match="two requests"):
        split_halves(trace_of([0, 0], [2], 2), np.random.default_rng(0))
