"""A random router sends every request anywhere, whatever the others do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.loop.dealing import dealt_at_random, places_of


@given(st.integers(1, 4096), st.integers(0, 2**40), st.integers(0, 99))
def test_a_request_goes_where_it_goes_alone(replicas, first, seed):
    places = np.arange(first, first + 50, dtype=np.int64)
    together = dealt_at_random(places, replicas, seed)
    alone = [int(dealt_at_random(places[i : i + 1], replicas, seed)[0]) for i in range(50)]
    assert together.tolist() == alone
    assert together.min() >= 0 and together.max() < replicas


@pytest.mark.parametrize("replicas", [2, 7, 64])
def test_replicas_are_equally_likely_and_successive_requests_independent(replicas):
    dealt = dealt_at_random(np.arange(200_000), replicas, 3)
    expected = 200_000 / replicas
    counts = np.bincount(dealt, minlength=replicas)
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)
    same = float((dealt[1:] == dealt[:-1]).mean())
    assert same == pytest.approx(1 / replicas, abs=5 * np.sqrt(1 / replicas / 200_000))
    other = dealt_at_random(np.arange(200_000), replicas, 4)
    assert float((dealt == other).mean()) == pytest.approx(same, abs=0.01)


def test_places_of_all_replicas_are_all_places():
    for router in ("round-robin", "random"):
        parts = [places_of((i,), 5, 83, router, 2) for i in range(5)]
        assert sorted(np.concatenate(parts).tolist()) == list(range(83))
