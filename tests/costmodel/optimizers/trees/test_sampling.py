"""Trees under the sampling error of their vectors."""

import numpy as np
import pytest

from costmodel.optimizers.trees.runtime_trees import expected_tokens
from costmodel.optimizers.trees.sampling import (
    counted_draws,
    emitted_by,
    recorded_draws,
    sampled_choice,
)
from costmodel.optimizers.trees.static_tree import optimal_trees
from costmodel.optimizers.trees.trace_tree import measured_vectors
from hardware_profiles.errors import InputError

VECTOR = np.array([0.5, 0.16, 0.09, 0.06, 0.04, 0.03])


def choice(tokens, nodes=12, seed=0):
    vectors = [VECTOR] * 4
    draw = counted_draws(vectors, tokens, np.random.default_rng(seed))
    return sampled_choice(vectors, draw, tokens=tokens, nodes=nodes, depth=5)


def test_tokens_under_many_vectors_are_those_under_each():
    (best,) = optimal_trees(VECTOR, [12], 5)
    drawn = counted_draws([VECTOR] * 4, 200, np.random.default_rng(1))(1.0)
    assert emitted_by(best.tree, drawn) == pytest.approx(
        [expected_tokens(best.tree, each) for each in drawn]
    )


def test_the_safe_tree_is_never_lower_at_the_low_end():
    changed = 0
    for tokens in (20, 60, 400, 20_000):
        found = choice(tokens)
        assert found.safe_low >= found.low
        changed += found.safe_tree != found.tree
    assert changed >= 1, "with few tokens the safe tree is another one"


def test_regret_falls_with_recorded_tokens():
    few, many = choice(40), choice(40_000)
    assert few.mean_regret_ratio > many.mean_regret_ratio
    assert few.regret_by_tokens[0][1] > few.regret_by_tokens[-1][1]
    assert many.regret_by_tokens[3][1] < 0.001 and many.enough_tokens == 5000
    needed = few.enough_tokens
    assert needed is None or needed > 40


def test_recorded_requests_are_drawn_whole(correlated_trace):
    trace = correlated_trace(3)
    draw = recorded_draws(trace, 3, 8, np.random.default_rng(0))
    drawn = draw(1.0)
    mean = np.mean([each[0] for each in drawn], axis=0)
    measured = np.array(measured_vectors(trace, 3, 8))
    spread = np.std([each[0] for each in drawn], axis=0) / np.sqrt(len(drawn))
    assert np.all(np.abs(mean - measured) <= 5 * spread + 1e-9)
    more = np.std([each[0] for each in draw(16.0)], axis=0)
    assert np.all(more <= np.std([each[0] for each in drawn], axis=0) + 1e-9)


def test_counts_need_tokens():
    with pytest.raises(InputError, match="at least 1"):
        counted_draws([VECTOR], 0, np.random.default_rng(0))
