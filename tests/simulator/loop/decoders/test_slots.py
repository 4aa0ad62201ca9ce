"""Which draft tokens of a batch are verified: the likeliest, against exhaustive splits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.optimizers.trees.max_plus import max_plus
from tests.simulator.likeliest_slots import likeliest_slots

SURVIVAL = st.lists(
    st.lists(st.integers(0, 20), max_size=5).map(
        lambda row: [each / 20 for each in sorted(row)[::-1]]
    ),
    min_size=1,
    max_size=4,
)


@given(SURVIVAL, st.integers(0, 12))
def test_greedy_slots_are_the_best_split_of_chains(survival, total):
    """The exact split of `total` over the tables of what so many tokens of each request are
    worth."""
    tables = [np.concatenate([[0.0], np.cumsum(row)]) for row in survival]
    best = np.zeros(total + 1)
    for table in tables:
        best = max_plus(best, table[: total + 1])
    shares = likeliest_slots(survival, total)
    assert sum(table[share] for table, share in zip(tables, shares, strict=True)) == pytest.approx(
        best[-1]
    )
    assert sum(shares) == min(total, sum(len(row) for row in survival))


def test_ties_go_to_the_shorter_prefix_then_to_the_earlier_request():
    assert likeliest_slots([[0.5, 0.5], [0.5]], 2) == [1, 1]
    assert likeliest_slots([[0.5, 0.5], [0.5]], 1) == [1, 0]
