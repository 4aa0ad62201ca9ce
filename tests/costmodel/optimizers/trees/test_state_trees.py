"""Trees of all states against brute force, the published ones, and laws that hold for every
acceptance."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.laws.prompt_states import state_law
from costmodel.optimizers.candidates.state_candidates import state_candidates
from costmodel.optimizers.trees.state_trees import best_state_trees
from hardware_profiles.errors import InputError
from tests.property_examples import examples
from traces.kinds.state_trees import StateTrees
from traces.kinds.tree import Tree

VECTORS = [
    [(0.6, 0.3), (0.5, 0.2)],
    [(0.45, 0.15), (0.95, 0.04)],
    [(0.9, 0.05), (0.85, 0.1)],  # nearly every step leads on, so that prompt tokens matter most
    [(0.3, 0.0), (0.2, 0.1)],
]


@st.composite
def accuracies(draw):
    """One vector of at most three candidates for each of one to three levels."""
    rows = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=3)
    found = [np.array(row) for row in draw(st.lists(rows, min_size=1, max_size=3))]
    return [(row / max(row.sum(), 1.0) * 0.98).tolist() for row in found]


def shapes(level, levels, nodes, width):
    """Every sibling-closed set of paths below a node with at most so many of them, the empty one
    among them."""
    if level > levels:
        return [()]
    found = [()]
    for count in range(1, width + 1):
        for subtrees in itertools.product(
            shapes(level + 1, levels, nodes - count, width), repeat=count
        ):
            paths = tuple(
                (rank, *path) for rank, below in enumerate(subtrees) for path in ((), *below)
            )
            if len(paths) <= nodes:
                found.append(paths)
    return found


def every_tree(state, levels, size):
    """Every tree of a state with every choice of prompt tokens that a size allows."""
    for paths in shapes(1, state, size // 2, 2):
        if not paths:
            continue
        tree = Tree.from_paths(paths)
        for prompts in itertools.product(range(1, levels + 1), repeat=len(paths)):
            if len(paths) + sum(prompts) <= size:
                yield tree, prompts


@pytest.mark.parametrize("vectors", VECTORS)
@pytest.mark.parametrize("size", [2, 5, 7])
def test_trees_of_all_states_are_those_of_brute_force(vectors, size):
    found = best_state_trees(vectors, size, 2)
    choices = itertools.product(*(list(every_tree(state, 2, size)) for state in (1, 2)))
    values = [
        state_law(
            StateTrees(trees=tuple(t for t, _ in both), prompt_tokens=tuple(p for _, p in both)),
            vectors,
        ).tokens_per_step
        for both in choices
    ]
    assert len(values) >= (1 if size == 2 else 20)
    assert found.law.tokens_per_step == pytest.approx(max(values), abs=1e-12)


@settings(max_examples=examples(60))
@given(accuracies(), st.integers(2, 40))
def test_shares_are_stationary_and_more_tokens_emit_no_less(vectors, size):
    levels = len(vectors)
    one, more = (best_state_trees(vectors, each, levels) for each in (size, size + 3))
    law, states = one.law, one.states
    assert law.shares.sum() == pytest.approx(1.0) and np.all(law.shares >= 0.0)
    assert law.shares @ law.moves == pytest.approx(law.shares, abs=1e-9)
    assert np.all(law.moves >= 0.0) and law.moves.sum(axis=1) == pytest.approx(np.ones(levels))
    assert max(states.sizes) <= size and all(tree.is_sibling_closed for tree in states.trees)
    assert 1.0 <= law.tokens_per_step <= 1.0 + levels
    assert more.law.tokens_per_step >= law.tokens_per_step - 1e-9


@given(st.lists(st.floats(0.0, 0.9), min_size=1, max_size=5))
def test_one_state_is_the_likeliest_candidates(vector):
    """With one prompt token all steps are alike, and a candidate costs two query tokens."""
    likeliest = (np.array(vector) / max(sum(vector), 1.0) * 0.98).tolist()
    law = best_state_trees([likeliest], 6, 1).law
    assert law.tokens_per_step == pytest.approx(
        1.0 + max(sum(likeliest[:count]) for count in (1, 2, 3))
    )


@pytest.mark.parametrize(
    ("vectors", "size", "levels", "key"),
    [
        ([[0.5]], 1, 1, "size"),
        ([[0.5]], 5000, 1, "size"),
        ([[0.5]], 4, 0, "levels"),
        ([[0.8, 0.4]], 4, 1, "acceptance"),
        ([[]], 4, 1, "acceptance"),
    ],
)
def test_what_is_out_of_range_is_refused(vectors, size, levels, key):
    with pytest.raises(InputError, match=key):
        best_state_trees(vectors, size, levels)


def test_what_says_nothing_of_candidates_is_refused():
    from costmodel.optimizers.drafters.sources import length_source

    with pytest.raises(InputError, match="tokens_per_step"):
        state_candidates(length_source("ppd", 2.5), [105])
