"""Ranges of batches: narrow ones that gain less than their interval are joined, all others stay."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.batch_ranges import SHORT_RATIO, joined_ranges


def by_rates(rates):
    own = rates.max(axis=1)

    def gain(run, other):
        return float(np.max(np.log(own[run] / rates[run, other])))

    return gain


def joined(rates, doubt):
    batches = np.arange(1, len(rates) + 1)
    choices = rates.argmax(axis=1).tolist()
    return joined_ranges(batches, choices, by_rates(rates), lambda run, other: doubt)


def runs_of(choices):
    edges = [0, *(np.flatnonzero(np.diff(choices)) + 1).tolist(), len(choices)]
    return list(pairwise(edges))


@given(st.integers(20, 120), st.integers(0, 2**32 - 1), st.floats(0.0, 0.2))
def test_what_is_narrow_and_gains_little_is_joined(size, seed, doubt):
    rates = np.random.default_rng(seed).uniform(0.9, 1.1, (size, 3))
    own, after = by_rates(rates), joined(rates, doubt)
    runs = runs_of(after)
    for place, (start, stop) in enumerate(runs):
        if len(runs) == 1 or stop + 1 >= SHORT_RATIO * (start + 1):
            continue
        near = {after[a] for a, _ in runs[max(place - 1, 0) : place] + runs[place + 1 : place + 2]}
        assert min(own(slice(start, stop), other) for other in near) >= doubt
    lost = np.log(rates.max(axis=1) / rates[np.arange(size), after])
    assert lost.max() <= doubt, "nothing is given up that the interval tells apart"


@given(st.integers(2, 60), st.integers(0, 2**32 - 1))
def test_without_doubt_nothing_is_joined(size, seed):
    rates = np.random.default_rng(seed).uniform(0.9, 1.1, (size, 3))
    assert joined(rates, 0.0) == rates.argmax(axis=1).tolist()


def test_a_wide_range_and_a_large_gain_stay():
    wide = np.array([[1.0, 0.99]] * 40 + [[0.99, 1.0]] * 40)
    assert joined(wide, 0.05) == [0] * 40 + [1] * 40
    sharp = np.array([[1.0, 0.5]] * 60 + [[0.5, 1.0]] * 2 + [[1.0, 0.5]] * 30)
    assert joined(sharp, 0.05) == [0] * 60 + [1] * 2 + [0] * 30


def test_where_a_choice_does_not_run_it_joins_nothing():
    rates = np.array([[1.0, 0.99]] * 60 + [[1e-300, 1.0]] * 2 + [[1.0, 0.99]] * 30)
    batches = np.arange(1, len(rates) + 1)

    def gain(run, other):
        return np.inf if other == 0 and run.start == 60 else by_rates(rates)(run, other)

    found = joined_ranges(batches, rates.argmax(axis=1).tolist(), gain, lambda run, other: 0.05)
    assert found[60:62] == [1, 1]


def test_a_range_between_two_of_one_choice_is_joined_however_small_its_batches():
    """At batches 1 to 8 a single one is more than an eighth wide, and would still be a step back
    and forth."""
    rates = np.array([[1.0, 0.99]] * 4 + [[1.0, 1.001]] + [[1.0, 0.99]] * 3)
    chosen = rates.argmax(axis=1).tolist()

    def gain(run, other):
        return float(np.max(np.log(rates[run].max(axis=1) / rates[run, other])))

    batches = np.arange(1, 9)
    assert chosen == [0, 0, 0, 0, 1, 0, 0, 0]
    assert joined_ranges(batches, chosen, gain, lambda run, other: 0.01) == [0] * 8
    assert joined_ranges(batches, chosen, gain, lambda run, other: 0.0001) == chosen
