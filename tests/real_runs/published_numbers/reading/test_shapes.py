"""Shapes of drafts in the words of published tables."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.method_library import load_method
from hardware_profiles.errors import InputError
from real_runs.published_numbers.reading.shapes import (
    assisted_length,
    side_by_side,
    stated_shape,
    tree_of_levels,
)

EAGLE, SEQUOIA, CHAIN = (
    load_method("eagle-2"),
    load_method("sequoia"),
    load_method("speculative-decoding"),
)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("gamma=7 chain", 7),
        ("K=4 chain", 4),
        ("chain K_infer=12", 12),
        ("chain gamma=3", 3),
        ("block <=32 chain", 32),
        ("gamma=6 (README cmd), budget 4096, chunk 8, chain", 6),
        ("chain max 10 (n-gram)", 10),
    ],
)
def test_chains(text, tokens):
    assert stated_shape(text, CHAIN).chain == tokens


@pytest.mark.parametrize(
    ("text", "nodes", "levels"),
    [
        ("tree size=64 depth=7", 63, 6),
        ("tree size=128 depth=10", 127, 9),
        ("static tree 80 nodes depth 6", 80, 6),
        ("static tree 63 nodes (10/28/23/2)", 63, 4),
        ("static tree 25 nodes depth 5 (4/8/8/3/2)", 25, 5),
        ("tree beam [4,16,16,16,16] (68 nodes, depth 5)", 68, 5),
        ("5x8 (5 chains depth 8, 40 tokens)", 40, 8),
        ("1x128 (width x depth, 128 tokens)", 128, 128),
        ("tree width 5 depth 8", 40, 8),
        ("dynamic tree 60 nodes depth 7 top-k 10 (repo default)", 59, 7),
        ("dynamic tree 30 tokens depth 3 top-k 8", 30, 3),
    ],
)
def test_trees(text, nodes, levels):
    found = stated_shape(text, EAGLE)
    tokens = found.tree.draft_tokens if found.tree is not None else found.shape.nodes
    assert (tokens, found.levels, found.remark) == (nodes, levels, "")


def test_a_window_of_lookahead_decoding():
    found = stated_shape("N=5 W=15 G=15; tokens/step=(W+G)(N-1)", load_method("lookahead"))
    assert (found.chain, found.shape.guesses * found.chain + found.shape.riding) == (4, 30 * 4)


def test_states_of_prompt_decoding_ride_on_the_pass():
    found = stated_shape("S_tr=(10,84,89) S_input=(40,285,285)", load_method("lookahead"))
    assert (found.shape.kind, found.shape.nodes, found.shape.riding) == ("state_trees", 285, 3)
    assert "last state" in found.remark


@pytest.mark.parametrize(
    ("text", "method", "words"),
    [
        ("tree size<=64 (dynamic)", SEQUOIA, "depth is not stated"),
        ("", EAGLE, "states no shape"),
        ("chain (length unstated)", CHAIN, "length is not stated"),
        (
            "custom tree (size unstated), k=2, 4 draft passes",
            load_method("falcon"),
            "size is not stated",
        ),
    ],
)
def test_what_is_assumed_is_said(text, method, words):
    found = stated_shape(text, method)
    assert words in found.remark
    assert found.claimed is not None


def test_draft_passes_of_several_levels_make_the_depth():
    assert (
        stated_shape(
            "custom tree (size unstated), k=2, 4 draft passes", load_method("falcon")
        ).levels
        == 8
    )


def test_a_tree_of_unknown_depth_can_emit_what_is_stated():
    assert stated_shape("tree size<=64 (dynamic)", SEQUOIA, least_levels=12).levels == 12


@given(st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_a_tree_has_the_stated_nodes_on_every_level(counts):
    tree = tree_of_levels(counts)
    levels = tree.node_levels()[1:].tolist()
    assert [levels.count(level) for level in range(1, len(counts) + 1)] == counts


@given(st.integers(1, 12), st.integers(1, 12))
def test_chains_side_by_side_branch_at_the_root_alone(chains, length):
    tree = side_by_side(chains, length)
    assert (tree.draft_tokens, tree.depth - 1, tree.parents.count(0)) == (
        chains * length,
        length,
        chains,
    )


@given(st.floats(1.34, 20.0))
def test_the_assisted_schedule_is_longer_where_more_is_accepted(tokens):
    assert assisted_length(tokens) <= assisted_length(tokens + 0.7)


@given(st.text(max_size=60))
def test_no_text_breaks_it(text):
    try:
        found = stated_shape(text, EAGLE)
    except InputError:
        return
    assert found.claimed is not None


@pytest.mark.parametrize(
    "text", ["tree size=99999999 depth=3", "99999x99999", "gamma=0 chain", "tree (4/0/2)"]
)
def test_shapes_beyond_reason_are_refused(text):
    with pytest.raises(InputError):
        stated_shape(text, EAGLE)
