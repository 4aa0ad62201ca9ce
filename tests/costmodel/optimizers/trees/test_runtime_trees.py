"""Trees that engines can run: each the best of its form, and none better than the best of all."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.exporters.tree_paths import children_by_level
from costmodel.optimizers.trees.runtime_trees import (
    best_beam,
    expected_tokens,
    level_uniform,
    runtime_trees,
    uniform_tree,
)
from costmodel.optimizers.trees.static_tree import optimal_values
from hardware_profiles.errors import InputError
from traces.kinds.tree import Tree


@st.composite
def vectors_by_depth(draw):
    rows = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=4)
    found = [np.array(row) for row in draw(st.lists(rows, min_size=1, max_size=4))]
    return [row / max(1.0, row.sum()) * 0.97 for row in found]


@given(vectors_by_depth(), st.integers(1, 20))
def test_no_form_beats_the_best_of_all_trees(vectors, nodes):
    for found in runtime_trees(vectors, nodes, len(vectors) + 1):
        assert found.tree.nodes <= nodes
        assert found.tree.depth <= len(vectors) + 1
        assert found.tokens_per_step == pytest.approx(expected_tokens(found.tree, vectors))
        best = optimal_values(
            [np.append(v, np.zeros(nodes)) for v in vectors], nodes, len(vectors) + 1
        )[nodes, -1]
        if found.tree.is_sibling_closed:
            assert found.tokens_per_step <= best + 1e-9


@given(vectors_by_depth(), st.integers(1, 20))
def test_equal_children_by_level_equals_enumeration(vectors, nodes):
    best = 1.0
    for depth in range(1, len(vectors) + 1):
        for children in itertools.product(
            *(range(1, vector.size + 1) for vector in vectors[:depth])
        ):
            tree_nodes = 1 + sum(np.prod(children[: level + 1]) for level in range(depth))
            if tree_nodes <= nodes:
                best = max(best, expected_tokens(uniform_tree(children), vectors))
    assert level_uniform(vectors, nodes).tokens_per_step == pytest.approx(best)


def beam_tree(vectors, top_k, steps, draft_tokens):
    """EAGLE-2's drafting with the vectors as the drafter's probabilities, written down a second
    time with paths."""
    value, beam = {(): 1.0}, [()]
    for level in range(steps):
        level_paths = [
            (*path, rank) for path in beam for rank in range(min(top_k, len(vectors[level])))
        ]
        for path in level_paths:
            value[path] = value[path[:-1]] * vectors[level][path[-1]]
        beam = sorted(level_paths, key=lambda path: -value[path])[:top_k]
    taken = sorted((path for path in value if path), key=lambda path: (-value[path], len(path)))[
        :draft_tokens
    ]
    return sum(value[path] for path in taken) + 1.0


@given(vectors_by_depth(), st.integers(2, 14))
def test_the_beam_is_the_best_over_its_settings(vectors, nodes):
    found = best_beam(vectors, nodes)
    widest = max(vector.size for vector in vectors)
    values = [
        beam_tree(vectors, top_k, steps, nodes - 1)
        for top_k in range(1, widest + 1)
        for steps in range(1, len(vectors) + 1)
    ]
    assert found.tokens_per_step == pytest.approx(max(values))
    top_k, steps, draft_tokens = (
        found.settings["topk"],
        found.settings["steps"],
        found.settings["draft_tokens"],
    )
    assert draft_tokens <= top_k + (steps - 1) * top_k**2, "SGLang takes no more than a beam drafts"
    assert beam_tree(vectors, top_k, steps, draft_tokens) == pytest.approx(found.tokens_per_step)


def test_vllm_takes_the_tree_of_equal_children():
    tree = level_uniform([np.array([0.6, 0.2, 0.1])] * 4, 30).tree
    assert children_by_level(tree.paths()) is not None


def test_a_budget_of_the_root_has_no_form():
    assert runtime_trees([0.5], nodes=1, depth=4) == []
    with pytest.raises(InputError, match="at least 1"):
        runtime_trees([0.5], nodes=0, depth=4)


def test_medusas_trees_are_beaten_at_equal_size_on_their_own_heads(published):
    heads = json.loads((published / "medusa_heads.json").read_text())["heads"]
    vectors = [np.array(head) for head in heads]
    trees = json.loads((published / "trees.json").read_text())
    for name in (name for name in trees if name.startswith("medusa/")):
        tree = Tree.from_paths(sorted(map(tuple, trees[name]), key=lambda path: (len(path), path)))
        theirs = expected_tokens(tree, vectors)
        ours = optimal_values(vectors, tree.nodes, len(vectors) + 1)[tree.nodes, -1]
        print(f"{name}: {theirs:.4f}, best of {tree.nodes} nodes {ours:.4f}")
        assert theirs - 1e-9 <= ours <= 1.05 * theirs
