"""Draft lengths of a batch, against every batch written out."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.laws.draft_lengths import DraftLengths, draft_lengths
from hardware_profiles.errors import InputError

COUNTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=30)


def lengths_of(steps):
    return draft_lengths(np.array([n for n, _ in steps]), np.array([p for _, p in steps]))


def sums(shares, batch):
    """Every batch: (probability, lengths of its requests)."""
    for drawn in itertools.product(range(len(shares)), repeat=batch):
        yield np.prod([shares[n] for n in drawn]), drawn


@given(COUNTS, st.integers(1, 4))
def test_a_batch_drafts_until_its_longest_request_is_done(steps, batch):
    found = lengths_of(steps)
    runs = found.batch_runs(float(batch))
    for place, run in enumerate(runs):
        expected = sum(share for share, drawn in sums(found.passes, batch) if max(drawn) > place)
        assert float(run) == pytest.approx(expected, abs=1e-9)


@given(COUNTS, st.integers(1, 3))
def test_two_points_have_the_first_three_moments_of_a_batch(steps, batch):
    found = lengths_of(steps)
    pairs = [(float(w), float(m)) for w, m in found.batch_means(float(batch))]
    assert sum(w for w, _ in pairs) == pytest.approx(1.0)
    assert all(-1e-9 <= m <= found.tokens.size - 1 + 1e-9 for _, m in pairs)
    every = [(share, sum(drawn) / batch) for share, drawn in sums(found.tokens, batch)]
    for power in (1, 2, 3):
        expected = sum(share * mean**power for share, mean in every)
        assert sum(w * m**power for w, m in pairs) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(COUNTS)
def test_counts_become_shares_and_means(steps):
    found = lengths_of(steps)
    assert found.mean_tokens == pytest.approx(np.mean([n for n, _ in steps]))
    assert found.mean_passes == pytest.approx(np.mean([p for _, p in steps]))
    assert found.reached.sum() == pytest.approx(found.mean_passes)


def test_rows_are_means_of_those_that_take_part():
    found = draft_lengths(
        np.array([3, 1, 0]), np.array([2, 1, 0]), np.array([[1, 4], [1, 0], [0, 0]])
    )
    assert found.rows.tolist() == [1.0, 4.0]
    assert found.reached.tolist() == pytest.approx([2 / 3, 1 / 3])


def test_what_is_no_distribution_is_refused():
    one = np.ones(1)
    with pytest.raises(InputError, match="tokens"):
        DraftLengths(tokens=np.array([0.5]), passes=one, rows=np.zeros(0))
    with pytest.raises(InputError, match="rows"):
        DraftLengths(tokens=one, passes=one, rows=one)
    with pytest.raises(InputError, match="steps"):
        draft_lengths(np.zeros(0), np.zeros(0))
