"""Trees: construction, forms, and what is refused."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.kinds.tree import Tree, chain_tree, read_tree


@st.composite
def path_sets(draw):
    paths = {()}
    for _ in range(draw(st.integers(0, 25))):
        paths.add((*draw(st.sampled_from(sorted(paths))), draw(st.integers(0, 5))))
    return paths - {()}


@given(path_sets(), st.randoms(use_true_random=False))
def test_paths_round_trip_in_canonical_order(paths, random):
    listed = sorted(paths)
    random.shuffle(listed)
    tree = Tree.from_paths(listed)
    assert set(tree.paths()) == paths
    assert list(tree.paths()) == sorted(paths, key=lambda path: (len(path), path))
    assert Tree.from_paths(tree.paths()) == tree


@given(path_sets())
def test_counts_agree(paths):
    tree = Tree.from_paths(paths)
    assert tree.nodes == tree.draft_tokens + 1 == len(paths) + 1
    assert sum(tree.level_widths()) == tree.draft_tokens
    assert len(tree.level_widths()) == tree.depth - 1 == max(map(len, paths), default=0)
    closed = all((*path[:-1], rank) in paths for path in paths for rank in range(path[-1]))
    assert tree.is_sibling_closed == closed


@given(path_sets(), st.integers(6, 9))
def test_child_table_leads_down_every_path(paths, width):
    tree = Tree.from_paths(paths)
    table = tree.child_table(width)
    assert table.shape == (tree.nodes, width) and table.dtype == np.int32
    assert np.sum(table >= 0) == tree.draft_tokens
    for node, path in enumerate(tree.paths(), start=1):
        at = 0
        for rank in path:
            at = table[at, rank]
        assert at == node


@given(path_sets(), st.booleans())
def test_json_round_trip_with_and_without_root(paths, included):
    tree = Tree.from_paths(paths)
    document = json.loads(json.dumps(tree.to_json()))
    assert document["root_included"] is True
    if not included:
        parents = [parent - 1 for parent in document["parents"][1:]]
        document = {"parents": parents, "ranks": document["ranks"][1:], "root_included": False}
    assert Tree.from_json(document) == tree
    assert Tree.from_json([list(path) for path in paths]) == tree


def test_chain():
    assert chain_tree(0) == Tree(parents=(-1,), ranks=(0,))
    chain = chain_tree(3)
    assert (chain.parents, chain.ranks) == ((-1, 0, 1, 2), (0, 0, 0, 0))
    assert (chain.depth, chain.level_widths(), chain.is_sibling_closed) == (4, (1, 1, 1), True)
    with pytest.raises(InputError, match=r"draft_tokens: must be >= 0, got -1"):
        chain_tree(-1)


@pytest.mark.parametrize(
    ("parents", "ranks", "rule"),
    [
        ((), (), "nodes"),
        ((0,), (0,), "root"),
        ((-1,), (1,), "root"),
        ((-1, 0), (0,), "entries"),
        ((-1, 1), (0, 0), "topological"),
        ((-1, -1), (0, 0), "topological"),
        ((-1, 0), (0, -1), "must lie"),
        ((-1, 0, 0), (0, 1, 1), "share"),
        ((-1, 0.0), (0, 0), "whole numbers"),
        ((-1, True), (0, 0), "whole numbers"),
        ("ab", (0, 0), "list"),
        (3, (0,), "list"),
    ],
)
def test_refused_trees(parents, ranks, rule):
    with pytest.raises(InputError, match=rule):
        Tree(parents=parents, ranks=ranks)


@pytest.mark.parametrize("paths", [[(0, 0)], [(0,), (0,)], [()], [("0",)], [0]])
def test_refused_paths(paths):
    with pytest.raises(InputError):
        Tree.from_paths(paths)


def test_child_table_refuses_a_rank_that_was_not_recorded():
    with pytest.raises(InputError, match="only 2 candidates"):
        Tree.from_paths([(2,)]).child_table(2)


def test_read_tree(tmp_path):
    file = tmp_path / "tree.json"
    tree = Tree.from_paths([(0,), (1,), (0, 0)])
    for document in (
        tree.to_json(),
        {"nodes": 4, **tree.to_json()},
        {"trees": [tree.to_json()]},
        tree.paths(),
    ):
        file.write_text(json.dumps(document))
        assert read_tree(file) == tree


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b"{}",
        b"3",
        b'"ab"',
        b'{"trees": []}',
        b'{"parents": 3, "ranks": []}',
        b'{"parents": [-1], "ranks": [0], "root_included": 1}',
        b'{"parents": [-1, NaN], "ranks": [0, 0]}',
        b'{"parents": [-1, 0], "ranks": [0, ' + b"9" * 5000 + b"]}",
    ],
)
def test_read_tree_names_the_file(tmp_path, content):
    file = tmp_path / "tree.json"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"tree\.json"):
        read_tree(file)


def test_read_tree_without_a_file(tmp_path):
    for path in (tmp_path / "absent.json", tmp_path, "nul\0byte"):
        with pytest.raises(InputError):
            read_tree(path)


def test_published_trees_are_read(published):
    trees = json.loads((published / "trees.json").read_text())
    for name, paths in trees.items():
        assert set(Tree.from_json(paths).paths()) == set(map(tuple, paths)), name


@pytest.mark.parametrize(
    "document",
    [
        {"0": [1, 2], "1": [3], "2": [], "3": []},
        {"tree_adj": {"0": [1, 2], "1": [3]}},
        {"tree_choices": [[0], [0, 0], [1]]},
        {"Successors": [[1, 2], [3], [], []], "roots": [[0]], "size": 4},
    ],
)
def test_children_of_every_node_are_a_tree(document):
    assert Tree.from_json(document).paths() == ((0,), (1,), (0, 0))


@pytest.mark.parametrize(
    "document", [{"0": [1, 0]}, {"0": [1], "1": [1]}, {"0": "12"}, {"0": [1, 1]}, {"0": [0.5]}]
)
def test_children_that_are_no_tree_are_refused(document):
    with pytest.raises(InputError, match="children of node"):
        Tree.from_json(document, file="tree.json")


def test_a_published_tree_is_read_as_it_is_written(published):
    tree = read_tree(published / "engine_logs" / "samd_default_tree_6_60.json")
    assert tree.nodes == 61 and tree.level_widths() == (7, 20, 21, 8, 4)
