"""Stated rates on trees: chains stay chains, one rate is the law of break-evens, and siblings never
lose."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.laws.acceptance import DepthRates, rank_rate, sibling_rates, stated, stated_tree
from costmodel.method_library import load_method
from costmodel.optimizers.candidates.acceptance_law import acceptance_law
from costmodel.optimizers.trees.static_tree import optimal_trees
from traces.kinds.tree import Tree, chain_tree

falling = st.lists(st.floats(0, 1), min_size=1, max_size=6).map(
    lambda rates: tuple(sorted(rates, reverse=True))
)
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
    law = acceptance_law(load_method("medusa"), stated(1.0, BUSH))
    assert law.at(rate).tokens_per_step == pytest.approx(found.tokens_per_step)


@given(falling, st.integers(2, 12))
def test_the_best_tree_of_the_vectors_emits_what_the_law_says(by_depth, nodes):
    rates = DepthRates(by_depth=by_depth)
    vectors = sibling_rates(rates, 4, nodes)
    assert all(sum(row) <= 1 + 1e-12 for row in vectors)
    (best,) = optimal_trees(vectors, [nodes], depth=5)
    assert best.tokens_per_step == pytest.approx(stated_tree(rates, best.tree).tokens_per_step)
    chain = rates.chain(min(nodes - 1, 4)).tokens_per_step
    assert best.tokens_per_step >= chain - 1e-9, (
        "a chain of no more tokens is one of the trees, or part of one"
    )


@given(st.floats(0, 1), st.integers(1, 40))
def test_later_siblings_are_accepted_less_often_and_together_at_most_always(rate, width):
    found = [float(rank_rate(rate, rank)) for rank in range(width)]
    assert found[0] == rate and all(0.0 <= each <= 1.0 for each in found)
    assert sum(found) <= 1 + 1e-12 and found == sorted(found, reverse=True)


def rank_errors(vectors):
    """By how much second and third candidates are missed, given the first: nothing was fitted to
    any of them."""
    return [
        float(rank_rate(vector[0], rank)) / vector[rank] - 1.0
        for vector in vectors
        for rank in (1, 2)
    ]


def test_the_siblings_of_medusas_first_head_are_met(published):
    heads = json.loads((published / "medusa_heads.json").read_text())["heads"]
    assert np.max(np.abs(rank_errors(heads[:1]))) <= 0.15


def test_published_siblings_are_met(reference_data):
    folder = reference_data / "acceptance"
    vectors = [
        row["p"] for row in json.loads((folder / "acceptance_vectors.json").read_text())["vectors"]
    ]
    for row in json.loads((folder / "medusa_head_accuracy.json").read_text())["rows"]:
        vectors.append(np.diff([0.0, *row["heads_top1to5_cumulative"][0]]).tolist())
    for row in json.loads((folder / "ppd_head_accuracy.json").read_text())["rows"]:
        vectors.append(row["head_rank_accuracy"][0])
    vectors = [vector for vector in vectors if len(vector) >= 4]
    off = rank_errors(vectors)
    print(
        f"median error {np.median(np.abs(off)):.1%}, bias {np.median(off):+.1%},"
        f" {max(np.abs(off)):.1%} at most"
    )
    assert len(vectors) == 9
    assert np.median(np.abs(off)) <= 0.15 and max(np.abs(off)) <= 0.35
