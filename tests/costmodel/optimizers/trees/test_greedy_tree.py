"""The greedy tree: exact where siblings fall, and never further from the best than its certificate
says."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.optimizers.trees import static_tree
from costmodel.optimizers.trees.greedy_tree import falls, greedy_trees
from costmodel.optimizers.trees.runtime_trees import expected_tokens
from costmodel.optimizers.trees.static_tree import optimal_trees, optimal_values


@st.composite
def vectors_by_depth(draw):
    rows = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=5)
    found = [np.array(row) for row in draw(st.lists(rows, min_size=1, max_size=4))]
    return [row / max(1.0, row.sum()) * 0.97 for row in found]


@given(vectors_by_depth(), st.integers(1, 25))
def test_the_best_tree_lies_within_the_certificate(vectors, nodes):
    best = optimal_values(vectors, nodes, len(vectors) + 1)[nodes, -1]
    found = greedy_trees(vectors, [nodes])
    if best == -np.inf:
        assert found is None
        return
    ((tree, tokens, certificate),) = found
    assert tree.nodes == nodes and tree.is_sibling_closed and tree.depth <= len(vectors) + 1
    assert expected_tokens(tree, vectors) == pytest.approx(tokens)
    assert tokens <= best + 1e-12
    assert best <= tokens + (certificate.gap or 0.0) + 1e-9
    if falls(vectors):
        assert certificate.kind == "exact"


@given(vectors_by_depth(), st.integers(1, 25))
def test_where_siblings_fall_it_is_the_best(vectors, nodes):
    ordered = [np.sort(vector)[::-1] for vector in vectors]
    best = optimal_values(ordered, nodes, len(vectors) + 1)[nodes, -1]
    if best > -np.inf:
        ((_, tokens, certificate),) = greedy_trees(ordered, [nodes])
        assert certificate.to_json() == {"kind": "exact"}
        assert tokens == pytest.approx(best, abs=1e-12)


def test_a_sibling_that_rises_leaves_a_gap():
    ((tree, tokens, certificate),) = greedy_trees([np.array([0.4, 0.0, 0.5])], [3])
    assert tokens == 1.4 and tree.draft_tokens == 2
    assert certificate.kind == "bound" and certificate.gap == pytest.approx(0.5)


def test_trees_of_growing_sizes_hold_one_another():
    vectors = [np.array([0.6, 0.2, 0.1])] * 5
    paths = [set(tree.paths()) for tree, _, _ in greedy_trees(vectors, range(1, 60))]
    assert all(smaller < larger for smaller, larger in pairwise(paths))


def hides_behind_nothing(vector):
    """Whether a worthless sibling stands before one of worth: which of equals comes first then
    decides the value."""
    return any(p == 0.0 and any(vector[rank:]) for rank, p in enumerate(vector))


def test_equal_to_the_greedy_values_of_small_trees(published):
    rows = json.loads((published / "small_trees.json").read_text())["rows"]
    equal = 0
    for row in rows:
        vector = np.array(row["p"])
        for nodes, levels, best, greedy in row["cases"]:
            choice = greedy_trees([vector] * (min(levels, nodes) - 1), [nodes])
            assert (choice is None) == (greedy is None)
            if choice is None:
                continue
            ((_, tokens, certificate),) = choice
            assert tokens <= best + 1e-9 <= tokens + (certificate.gap or 0.0) + 2e-9
            if not hides_behind_nothing(row["p"]):
                assert tokens == pytest.approx(greedy, abs=1e-9)
                equal += 1
    assert equal > 100


def test_a_search_beyond_memory_is_greedy_and_says_so(monkeypatch):
    noisy = [0.4, 0.0, 0.5]
    (best,) = optimal_trees(noisy, [12], depth=6)
    monkeypatch.setattr(static_tree, "MAX_TABLE_CELLS", 12)
    (found,) = optimal_trees(noisy, [12], depth=6)
    assert best.certificate.kind == "exact" and found.certificate.kind == "bound"
    assert (
        found.tokens_per_step
        <= best.tokens_per_step
        <= found.tokens_per_step + found.certificate.gap
    )
