"""Published trees: the shapes their authors name, and what a recording says of them."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.dashboard.answers.tree.published_trees import published_trees, tokens_per_step, within
from traces.kinds.tree import chain_tree
from traces.library import read_trace, shipped_traces
from traces.replay.walk import replay_tree

NAMES = ["Medusa, 63 nodes", "EAGLE, 25 nodes", "Sequoia, 63 nodes"]


@pytest.fixture(scope="module")
def recording():
    return next(trace for trace in map(read_trace, shipped_traces()) if trace.level >= 2)


def test_the_shapes_are_those_that_their_names_say():
    shapes = {shape.name: shape for shape in published_trees()}
    assert list(shapes) == NAMES
    for name, shape in shapes.items():
        assert shape.tree.draft_tokens == int(name.split()[1])
        assert shape.tree.is_sibling_closed
        assert "github.com" in shape.source
        assert "arXiv" in shape.source


@pytest.mark.parametrize(
    ("name", "source"),
    [(NAMES[0], "medusa/mc_sim_7b_63"), (NAMES[1], "eagle1/mc_sim_7b_63")],
)
def test_the_shapes_are_the_published_ones(published, name, source):
    paths = json.loads((published / "trees.json").read_text())[source]
    tree = next(shape.tree for shape in published_trees() if shape.name == name)
    assert {tuple(path) for path in paths} == set(tree.paths())


def test_the_shape_of_sequoia_is_the_published_one():
    """The parents of A100-C4-1.3b-33b-greedy.pt of github.com/Infini-AI-Lab/Sequoia@0ff3ff7, whose
    repository states no licence, by their digest."""
    tree = next(shape.tree for shape in published_trees() if shape.name == NAMES[2])
    digest = hashlib.sha256(json.dumps(list(tree.parents)).encode()).hexdigest()
    assert digest == "37b5a7529cfaefcb0b18b95e95531cfd5bfa0de5a3bbea423d425db6460cd002"


@given(st.integers(1, 12), st.none() | st.integers(1, 6))
def test_a_tree_within_limits_keeps_every_path_that_obeys_them(width, depth):
    for shape in published_trees():
        kept = set(within(shape.tree, width=width, depth=depth).paths())
        assert kept == {
            path
            for path in shape.tree.paths()
            if max(path) < width and len(path) <= (depth or len(path))
        }


def test_a_chain_is_replayed_as_it_is(recording):
    assert (
        tokens_per_step(recording, chain_tree(4))
        == replay_tree(recording, chain_tree(4)).tokens_per_step
    )


def test_published_shapes_emit_more_than_their_first_level_and_less_than_all_nodes(recording):
    for shape in published_trees():
        first = within(shape.tree, width=recording.rank_width, depth=1)
        assert (
            1.0
            <= tokens_per_step(recording, first)
            <= tokens_per_step(recording, shape.tree)
            <= shape.tree.depth
        )
