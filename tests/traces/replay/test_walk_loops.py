"""Texts walked side by side, against the compiled loops, count by count and position by
position."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.kinds.tree import Tree
from traces.replay import compiled_walks, walk_loops
from traces.replay.walk import child_offsets

NONE = np.zeros(0, dtype=np.int16)
TREES = [
    Tree.from_paths(paths)
    for paths in ([(0,)], [(0,), (1,), (0, 0), (0, 2), (1, 0), (0, 0, 0)], [(2,), (2, 2)])
]


@pytest.fixture(autouse=True, scope="module")
def side_by_side():
    """Walk side by side, though the compiled loops are loaded."""
    with mock.patch.object(walk_loops, "_compiled", lambda offsets: None):
        yield


@st.composite
def texts(draw):
    lengths = draw(st.lists(st.integers(0, 12), min_size=1, max_size=5))

    def numbers(low, high, dtype):
        found = draw(st.lists(st.integers(low, high), min_size=sum(lengths), max_size=sum(lengths)))
        return np.array(found, dtype=dtype)

    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    return (
        offsets,
        numbers(1, 6, np.int16),
        numbers(0, 5, np.int16),
        numbers(-1, 2, np.int8),
        draw(st.integers(0, 1)),
    )


def agree(name, *arguments):
    found, wanted = getattr(walk_loops, name)(*arguments), getattr(compiled_walks, name)(*arguments)
    assert [each.tolist() for each in found] == [each.tolist() for each in wanted]


@given(texts(), st.integers(1, 7))
def test_chains(text, draft_tokens):
    offsets, emitted, drafted, _, first = text
    agree("walk_chain", emitted, offsets, first, draft_tokens)
    agree("walk_limited_chain", emitted, drafted, offsets, first, draft_tokens)


@given(texts(), st.booleans(), st.integers(0, 7))
def test_starts_of_chains(text, limited, draft_tokens):
    offsets, emitted, drafted, _, first = text
    found = []
    for loops in (walk_loops, compiled_walks):
        starts = np.full(emitted.size, -1, dtype=np.int64)
        count = loops.chain_starts(
            emitted, drafted if limited else NONE, offsets, first, draft_tokens, starts
        )
        found.append((count, starts.tolist()))
    assert found[0] == found[1]


@given(texts(), st.booleans(), st.booleans(), st.sampled_from(TREES))
def test_trees(text, limited, listed, tree):
    offsets, _, drafted, rank, first = text
    below = np.cumsum((0, *tree.level_widths()), dtype=np.int64)
    found = []
    for loops in (walk_loops, compiled_walks):
        starts = np.full(rank.size if listed else 0, -1, dtype=np.int64)
        limit = drafted if limited else NONE
        walked = loops.walk_tree(
            rank, 1, limit, offsets, first, child_offsets(tree, 3), below, starts
        )
        found.append(([each.tolist() for each in walked], starts.tolist()))
    assert found[0] == found[1]


def test_a_trees_ranks_by_depth():
    """Drafters that do not read true tokens have ranks of their own at every depth."""
    rank = np.array([0, 0, 1, -1, 0, 0, 0, 1], dtype=np.int8)
    tree, offsets = TREES[1], np.array([0, 4], dtype=np.int64)
    below = np.cumsum((0, *tree.level_widths()), dtype=np.int64)
    arguments = (
        rank,
        2,
        NONE,
        offsets,
        0,
        child_offsets(tree, 3)[: 9 * 4],
        below[:3],
        NONE.astype(np.int64),
    )
    agree("walk_tree", *arguments)
