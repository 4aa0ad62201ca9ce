"""Stated rates on trees: chains stay chains, one rate is the law of break-evens, and siblings never lose."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.breakeven import RateLaw
from costmodel.laws.acceptance import DepthRates, sibling_rates, stated, stated_tree
from costmodel.optimizers.static_tree import optimal_trees
from traces.kinds.tree import Tree, chain_tree

falling = st.lists(st.floats(0, 1), min_size=1, max_size=6).map(lambda rates: tuple(sorted(rates, reverse=True)))
BUSH = Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])


@given(falling, st.integers(1, 8), st.floats(0, 1))
def test_a_chain_is_a_tree_without_siblings(by_depth, draft_tokens, share):
    rates = DepthRates(by_depth=by_depth, proposal_ratio=share)
    found = stated_tree(rates, chain_tree(draft_tokens))
    assert found.tokens_per_step == pytest.approx(rates.chain(draft_tokens).tokens_per_step)
    assert "tried in turn" in found.remark


@given(st.floats(0, 1))
def test_one_rate_is_the_law_of_break_evens(rate):
    found = stated_tree(DepthRates(by_depth=(rate,)), BUSH)
    assert found.tokens_per_step == pytest.approx(float(RateLaw(stated(1.0, BUSH))(rate)))


@given(falling, st.integers(2, 12))
def test_the_best_tree_of_the_vectors_emits_what_the_law_says(by_depth, nodes):
    rates = DepthRates(by_depth=by_depth)
    vectors = sibling_rates(rates, 4, nodes)
    assert all(sum(row) <= 1 + 1e-12 for row in vectors)
    (best,) = optimal_trees(vectors, [nodes], depth=5)
    assert best.tokens_per_step == pytest.approx(stated_tree(rates, best.tree).tokens_per_step)
    chain = rates.chain(min(nodes - 1, 4)).tokens_per_step
    assert best.tokens_per_step >= chain - 1e-9, "a chain of no more tokens is one of the trees, or part of one"
