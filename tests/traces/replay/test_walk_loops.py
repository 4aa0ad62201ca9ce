"""Steps reached by doubled jumps, against steps taken one after another, count by count and
position by position."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.kinds.tree import Tree
from traces.replay.walk import child_offsets
from traces.replay.walk_loops import chain_starts, walk_chain, walk_limited_chain, walk_tree

NONE = np.zeros(0, dtype=np.int16)
TREES = [
    Tree.from_paths(paths)
    for paths in ([(0,)], [(0,), (1,), (0, 0), (0, 2), (1, 0), (0, 0, 0)], [(2,), (2, 2)])
]


def one_after_another(offsets, first, take):
    """Steps of every text as (start, what `take` says of it); `take` ends with the length."""
    texts = []
    for begin, end in zip(offsets[:-1] + first, offsets[1:], strict=True):
        steps, i = [], begin
        while i < end:
            steps.append((int(i), *take(i, end)))
            i += steps[-1][-1]
        texts.append(steps)
    return texts


def plain_chain(emitted, drafted, offsets, first, draft_tokens):
    def take(i, _):
        draft = min(int(drafted[i]), draft_tokens) if drafted.size else draft_tokens
        return int(emitted[i]) > 1, draft, min(int(emitted[i]), draft + 1)

    return one_after_another(offsets, first, take)


def plain_tree(rank, stride, drafted, offsets, first, table, below):
    def take(i, end):
        cut = min(below.size - 1, int(drafted[i])) if drafted.size else below.size - 1
        node, accepted = 1, 0
        while accepted < min(cut, end - i):
            node = table[node + rank[i * stride + accepted]]
            if node == 0:
                break
            accepted += 1
        return accepted > 0, int(below[cut]), accepted + 1

    return one_after_another(offsets, first, take)


def counted(texts):
    """(steps, with a match, with a proposal, draft tokens) per text, and all starts."""
    kinds = (
        [len(steps) for steps in texts],
        [sum(step[1] for step in steps) for steps in texts],
        [sum(step[2] > 0 for step in steps) for steps in texts],
        [sum(step[2] for step in steps) for steps in texts],
    )
    return (*kinds, [step[0] for steps in texts for step in steps])


def listed(arrays):
    return tuple(array.tolist() for array in arrays)


@st.composite
def texts(draw):
    lengths = draw(st.lists(st.integers(0, 12), min_size=1, max_size=5))

    def numbers(low, high, dtype):
        values = draw(
            st.lists(st.integers(low, high), min_size=sum(lengths), max_size=sum(lengths))
        )
        return np.array(values, dtype=dtype)

    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    return (
        offsets,
        numbers(1, 6, np.int16),
        numbers(0, 5, np.int16),
        numbers(-1, 2, np.int8),
        draw(st.integers(0, 1)),
    )


@given(texts(), st.integers(1, 7))
def test_chains(text, draft_tokens):
    offsets, emitted, drafted, _, first = text
    steps, hits, *_ = counted(plain_chain(emitted, NONE, offsets, first, draft_tokens))
    assert listed(walk_chain(emitted, offsets, first, draft_tokens)) == (steps, hits)
    steps, _, proposed, total, _ = counted(
        plain_chain(emitted, drafted, offsets, first, draft_tokens)
    )
    limited = walk_limited_chain(emitted, drafted, offsets, first, draft_tokens)
    assert listed(limited) == (steps, proposed, total)


@given(texts(), st.booleans(), st.integers(0, 7))
def test_starts_of_chains(text, limited, draft_tokens):
    offsets, emitted, drafted, _, first = text
    limit = drafted if limited else NONE
    wanted = counted(plain_chain(emitted, limit, offsets, first, draft_tokens))[-1]
    assert chain_starts(emitted, limit, offsets, first, draft_tokens).tolist() == wanted


@given(texts(), st.booleans(), st.sampled_from(TREES))
def test_trees(text, limited, tree):
    offsets, _, drafted, rank, first = text
    below = np.cumsum((0, *tree.level_widths()), dtype=np.int64)
    limit = drafted if limited else NONE
    arguments = (rank, 1, limit, offsets, first, child_offsets(tree, 3), below)
    steps, hits, proposed, total, starts = counted(plain_tree(*arguments))
    if not limited:
        proposed = total = [0] * len(steps)
    assert listed(walk_tree(*arguments)) == (steps, hits, proposed, total, starts)


def test_a_trees_ranks_by_depth():
    """Drafters that do not read true tokens have ranks of their own at every depth."""
    rank = np.array([0, 0, 1, -1, 0, 0, 0, 1], dtype=np.int8)
    tree, offsets = TREES[1], np.array([0, 4], dtype=np.int64)
    below = np.cumsum((0, *tree.level_widths()), dtype=np.int64)
    arguments = (rank, 2, NONE, offsets, 0, child_offsets(tree, 3)[: 9 * 4], below[:3])
    steps, hits, _, _, starts = counted(plain_tree(*arguments))
    assert listed(walk_tree(*arguments)) == (steps, hits, [0], [0], starts)


@pytest.mark.parametrize("draft_tokens", [1, 5])
def test_one_long_text(generator, draft_tokens):
    offsets = np.array([0, 20_000], dtype=np.int64)
    emitted = generator.integers(1, 6, 20_000).astype(np.int16)
    steps, hits, *_ = counted(plain_chain(emitted, NONE, offsets, 1, draft_tokens))
    assert listed(walk_chain(emitted, offsets, 1, draft_tokens)) == (steps, hits)
