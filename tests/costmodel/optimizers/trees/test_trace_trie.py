"""The trie's scans against walks written down a second time, without it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.optimizers.trees.trace_tree import most_frequent
from costmodel.optimizers.trees.trace_trie import build_trie
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree
from traces.replay.walk import replay_tree

WIDTH = 3


@st.composite
def recordings(draw):
    lengths = draw(st.lists(st.integers(0, 12), min_size=1, max_size=4))
    rank = st.integers(-1, WIDTH - 1)
    n = sum(lengths)
    if draw(st.booleans()):
        ranks = [draw(rank) for _ in range(n)]
    else:
        depth = draw(st.integers(1, 4))
        ranks = np.array([[draw(rank) for _ in range(depth)] for _ in range(n)]).reshape(n, depth)
    return {
        "rank": ranks,
        "lengths": lengths,
        "width": WIDTH,
        "first_step_position": draw(st.integers(0, 1)),
    }


@st.composite
def trees(draw, depth):
    paths = [()]
    for _ in range(draw(st.integers(0, 8))):
        path = (
            *draw(st.sampled_from([path for path in paths if len(path) < depth])),
            draw(st.integers(0, WIDTH - 1)),
        )
        if path not in paths:
            paths.append(path)
    return Tree.from_paths(paths[1:])


def rank_at(trace, position, level):
    return int(
        trace.rank[position + level] if trace.depth_invariant else trace.rank[position, level]
    )


def walk(trace, paths, depth):
    """Start positions, and the true rank path followed from each as far as it can save a step."""
    starts = []
    for begin, end in zip(trace.offsets[:-1].tolist(), trace.offsets[1:].tolist(), strict=True):
        i = begin + trace.first_step_position
        while i < end:
            path = []
            while len(path) < min(depth, end - i - 1) and rank_at(trace, i, len(path)) >= 0:
                path.append(rank_at(trace, i, len(path)))
            accepted = 0
            while accepted < len(path) and tuple(path[: accepted + 1]) in paths:
                accepted += 1
            starts.append((i, tuple(path)))
            i += accepted + 1
    return starts


def paths_of(trie):
    """Rank path of every trie node."""
    found = []
    for parent, rank in zip(trie.parents.tolist(), trie.ranks.tolist(), strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), rank))
    return found


def reach(trace, depth):
    return depth if trace.depth is None else min(depth, trace.depth)


@given(recording=recordings(), data=st.data())
def test_steps_are_those_of_a_replay(trace_of, recording, data):
    trace = trace_of(**recording)
    depth = reach(trace, 4)
    trie = build_trie(trace, depth)
    tree = data.draw(trees(depth))
    replay = replay_tree(trace, tree)
    assert trie.steps(trie.chosen(tree)) == int(replay.steps.sum())
    assert trie.steps(trie.chosen(tree)) == len(walk(trace, set(tree.paths()), depth))
    assert trie.tokens == int(replay.tokens.sum())


@given(recording=recordings(), data=st.data())
def test_frequencies_count_paths_at_the_steps_of_that_tree(trace_of, recording, data):
    trace = trace_of(**recording)
    depth = reach(trace, 4)
    trie = build_trie(trace, depth)
    tree = data.draw(trees(depth))
    counted = dict.fromkeys(paths_of(trie), 0)
    for _, path in walk(trace, set(tree.paths()), depth):
        for length in range(1, len(path) + 1):
            counted[path[:length]] += 1
    frequencies = trie.frequencies(trie.chosen(tree))
    assert frequencies.tolist() == list(counted.values())
    saved = int(frequencies[trie.chosen(tree)].sum())
    assert trie.steps(trie.chosen(tree)) + saved == trie.tokens
    children = np.flatnonzero(trie.parents >= 0)
    assert np.all(frequencies[children] <= frequencies[trie.parents[children]])


@given(recording=recordings())
def test_nodes_are_numbered_by_level_then_lexicographically(trace_of, recording):
    trace = trace_of(**recording)
    trie = build_trie(trace, 4)
    paths = paths_of(trie)
    assert paths == sorted(set(paths), key=lambda path: (len(path), path))
    assert np.all(trie.parents < np.arange(trie.nodes))


@given(recording=recordings(), data=st.data())
def test_trees_and_sets_of_nodes_convert_both_ways(trace_of, recording, data):
    trace = trace_of(**recording)
    trie = build_trie(trace, reach(trace, 4))
    tree = data.draw(trees(trie.depth))
    known = set(paths_of(trie))
    kept = trie.tree(trie.chosen(tree))
    assert kept == Tree.from_paths([path for path in tree.paths() if path in known])
    assert np.array_equal(trie.chosen(kept), trie.chosen(tree))


@given(recording=recordings(), count=st.integers(0, 8), data=st.data())
def test_no_tree_saves_more_than_the_bound(trace_of, recording, count, data):
    trace = trace_of(**recording)
    trie = build_trie(trace, reach(trace, 4))
    tree = data.draw(trees(trie.depth))
    assert trie.least_steps(tree.draft_tokens) <= trie.steps(trie.chosen(tree))
    assert trie.least_steps(count) >= trie.least_steps(count + 1)
    assert trie.least_steps(0) == trie.tokens


def closed_sets(parents, most):
    """Every set of at most `most` nodes that holds the parents of its nodes."""
    sets = {frozenset()}
    grown = {frozenset()}
    for _ in range(most):
        grown = {
            one | {node}
            for one in grown
            for node, parent in enumerate(parents)
            if node not in one and (parent < 0 or parent in one)
        }
        sets |= grown
    return sets


@given(recording=recordings(), count=st.integers(1, 3))
def test_the_most_frequent_nodes_are_the_best_set(trace_of, recording, count):
    trace = trace_of(**recording)
    trie = build_trie(trace, 3)
    frequencies = trie.frequencies(np.zeros(trie.nodes, dtype=bool))
    chosen = most_frequent(frequencies, count)
    sets = closed_sets(trie.parents.tolist(), count)
    assert frozenset(np.flatnonzero(chosen).tolist()) in sets
    assert frequencies[chosen].sum() == max(sum(frequencies[node] for node in one) for one in sets)


def test_proposals_that_stop_short_cut_the_paths():
    trace = AcceptanceTrace(
        offsets=np.array([0, 5]),
        emitted=np.array([3, 1, 2, 1, 1]),
        drafted=np.array([2, 0, 1, 0, 0]),
        rank=np.array([0, 0, 0, 0, 0]),
        rank_width=2,
        depth_invariant=True,
    )
    trie = build_trie(trace, 4)
    assert paths_of(trie) == [(0,), (0, 0)]
    assert trie.frequencies(np.array([True, True])).tolist() == [1, 1]
    assert trie.steps(np.array([True, True])) == int(
        replay_tree(trace, Tree.from_paths([(0,), (0, 0)])).steps.sum()
    )


def test_refuses_traces_without_ranks_and_depths_out_of_range(trace_of):
    lengths = AcceptanceTrace(offsets=np.array([0, 2]), emitted=np.array([2, 1]))
    with pytest.raises(InputError, match="level 2"):
        build_trie(lengths, 4)
    with pytest.raises(InputError, match="positions times levels"):
        build_trie(trace_of([0, 0], [2], WIDTH), 0)
    with pytest.raises(InputError, match="positions times levels"):
        build_trie(trace_of([0, 0], [2], WIDTH), 1 << 28)
