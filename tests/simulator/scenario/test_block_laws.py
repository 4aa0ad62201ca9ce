"""How many passes a block takes: laws that fill it exactly, and their means."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from simulator.loop.block_options import BlockOptions
from simulator.scenario.block_laws import even_commits, random_commits


@given(size=st.integers(1, 256), data=st.data())
def test_even_passes_fill_the_block(size, data):
    passes = data.draw(st.integers(1, size))
    (row,) = even_commits(size, passes)
    assert row.sum() == size and row.size == passes
    assert row.max() - row.min() <= 1 and np.all(np.diff(row) <= 0)


@given(size=st.integers(1, 64), ratio=st.floats(0.0, 1.0), seed=st.integers(0, 100))
def test_drawn_passes_fill_the_block_and_never_stall(size, ratio, seed):
    rows = random_commits(size, ratio, np.random.default_rng(seed))
    assert np.all(rows.sum(axis=1) == size)
    for row in rows:
        used = np.nonzero(row)[0]
        assert used[-1] + 1 == used.size  # a pass that runs commits something
    BlockOptions(block_tokens=size, commits=rows, query_tokens=np.full(rows.shape[1], size))


def test_the_mean_number_of_passes_follows_from_the_probability():
    """By hand for blocks of two: one pass if both come at once, else two."""
    rows = np.concatenate(
        [random_commits(2, 0.5, np.random.default_rng(seed)) for seed in range(40)]
    )
    both = np.mean(rows[:, 0] == 2)
    assert both == pytest.approx(0.25, abs=0.015)
    assert (random_commits(16, 0.0, np.random.default_rng(0)) == 1).all()
    assert random_commits(16, 1.0, np.random.default_rng(0)).shape == (256, 1)


def test_more_confidence_takes_fewer_passes():
    def mean(ratio):
        return np.count_nonzero(random_commits(32, ratio, np.random.default_rng(0)), axis=1).mean()

    passes = [mean(ratio) for ratio in (0.05, 0.2, 0.5, 0.9)]
    assert passes == sorted(passes, reverse=True)


def test_what_cannot_be_is_refused():
    for passes in (0, 5):
        with pytest.raises(InputError, match="the block's tokens"):
            even_commits(4, passes)
    with pytest.raises(InputError, match="commit_ratio"):
        random_commits(4, 1.5, np.random.default_rng(0))
    with pytest.raises(InputError, match="block_tokens"):
        random_commits(0, 0.5, np.random.default_rng(0))
