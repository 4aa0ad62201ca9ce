"""Bounds for trees lie above every tree, and above each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.optimizers.trees.trace_tree import trace_tree
from costmodel.optimizers.trees.trace_trie import build_trie
from costmodel.optimizers.trees.tree_oracles import tree_bounds
from tests.property_examples import examples
from traces.replay import compiled_trie
from traces.replay.oracle import step_oracle
from traces.replay.walk import replay_tree


@settings(max_examples=examples(15))
@given(st.integers(0, 30), st.integers(1, 12), st.integers(1, 4))
def test_no_tree_exceeds_its_bounds(correlated_trace, seed, count, depth):
    trace = correlated_trace(seed, requests=4, tokens=60)
    count = max(count, 1) if depth > 1 else min(count, 8)
    (bound,) = tree_bounds(trace, [count], depth)
    (chosen,) = trace_tree(trace, [count], depth)
    assert chosen.tokens_per_step <= bound.one_tree + 1e-12
    assert bound.one_tree <= bound.tree_per_request <= bound.tree_per_step
    own = [trace_tree(trace.select([r]), [count], depth)[0].tree for r in range(trace.requests)]
    steps = sum(int(replay_tree(trace.select([r]), tree).steps.sum()) for r, tree in enumerate(own))
    assert build_trie(trace, depth).tokens / steps <= bound.tree_per_request + 1e-12


def test_the_two_shortest_paths_agree(correlated_trace):
    """The compiled loop over a trie, and numpy over the ranks."""
    for seed in range(5):
        trace = correlated_trace(seed, requests=5, tokens=80)
        trie = build_trie(trace, 4)
        compiled = compiled_trie.least_steps(trie.paths, trie.offsets, trie.first)
        assert step_oracle(trace, np.ones(5), trees=True).cost.sum() == pytest.approx(compiled)
