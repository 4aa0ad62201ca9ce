"""Lookahead: a window whose tokens see what they should, lossless runs, and finished texts that
tell their steps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.tree import ancestors, node_depths
from real_runs.drafters.lookahead import (
    LookaheadPool,
    LookaheadSizes,
    lookahead_lengths,
    merged,
    speculate_lookahead,
)
from tests.property_examples import examples

SIZES = LookaheadSizes(window=4, ngram=4, guesses=3)
WIDE = LookaheadSizes(window=6, ngram=3, guesses=2)


def run_and_plain(model, prompt, *, temperature=0.0, length=50, sizes=SIZES):
    sampler = Sampler(temperature=temperature, seed=2, request="r", positions=length)
    run = speculate_lookahead(model, prompt, sampler, max_new_tokens=length, sizes=sizes)
    plain = generate(model, prompt, sampler, max_new_tokens=length)
    assert (run.tokens, run.ended) == (plain.tokens, plain.ended)
    return run, plain


@settings(max_examples=examples(12))
@given(
    st.lists(st.integers(1, 96), min_size=1, max_size=10),
    st.sampled_from([0.0, 0.7]),
    st.sampled_from([SIZES, LookaheadSizes(window=1, ngram=2, guesses=1), WIDE]),
    st.integers(1, 50),
)
def test_runs_are_lossless_and_a_finished_text_tells_their_steps(
    tiny_model, prompt, temperature, sizes, length
):
    run, plain = run_and_plain(
        tiny_model, prompt, temperature=temperature, length=length, sizes=sizes
    )
    lengths = lookahead_lengths(tiny_model, prompt, plain.tokens, sizes)
    position = 1
    for drafted, emitted in zip(run.drafted, run.emitted, strict=True):
        assert (lengths.drafted[position], lengths.emitted[position]) == (drafted, emitted)
        position += emitted
    assert position == len(plain.tokens)


def test_guesses_are_accepted_where_the_text_repeats_itself(tiny_model):
    steps = tokens = 0
    for seed in range(1, 6):
        run, _ = run_and_plain(tiny_model, [seed, 5, 9])
        assert max(run.emitted, default=0) <= SIZES.ngram
        steps, tokens = steps + len(run.emitted), tokens + sum(run.emitted)
    assert tokens > steps


def test_a_token_of_the_window_sees_its_column_and_the_first_row_up_to_it():
    seen = ancestors([-1, *(parent + 1 for parent in SIZES.parents)])[1:, 1:]
    depths = node_depths([-1, *(parent + 1 for parent in SIZES.parents)])[1:]
    for row in range(3):
        for column in range(4):
            token = row * 4 + column
            assert depths[token] == row + column + 1
            expected = {*range(column + 1), *(above * 4 + column for above in range(1, row + 1))}
            assert set(np.flatnonzero(seen[token])) == expected


def test_columns_become_ngrams_and_keep_their_places():
    pool = LookaheadPool([50], LookaheadSizes(window=3, ngram=3, guesses=2))
    pool.rows = np.array([[1, 2, 3], [4, 5, 6]])
    pool.advance([7, 8, 9], 2)
    assert [pool.guesses(token) for token in (1, 2, 3, 4)] == [[(4, 7)], [(5, 8)], [(6, 9)], []]
    assert pool.rows.tolist() == [[5, 6, 50], [8, 9, 50]]
    pool.advance([1, 1, 1], 1)
    assert pool.rows.tolist() == [[8, 9, 50], [1, 1, 1]]


def test_newest_ngrams_stay_once_each():
    pool = LookaheadPool([9], LookaheadSizes(window=1, ngram=2, guesses=2))
    for following in (3, 4, 3, 5):
        pool.rows = np.array([[1]])
        pool.advance([following], 1)
    assert pool.guesses(1) == [(5,), (3,)]


def test_common_beginnings_are_verified_once():
    tokens, parents = merged(7, [(1, 2), (1, 3), (4, 2)])
    assert (tokens, parents) == ([7, 1, 2, 3, 4, 2], [-1, 0, 1, 1, 0, 4])


@pytest.mark.parametrize("changed", [{"window": 0}, {"ngram": 1}, {"guesses": 0}, {"window": 65}])
def test_sizes_out_of_range_are_refused(changed):
    with pytest.raises(InputError, match=f"lookahead.{next(iter(changed))}"):
        LookaheadSizes(**changed)
