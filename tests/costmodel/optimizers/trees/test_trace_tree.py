"""Trees chosen on recordings: never worse than the sibling-vector tree, and how near to the best of
all."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.optimizers.trees.static_tree import optimal_trees
from costmodel.optimizers.trees.trace_tree import trace_tree
from costmodel.optimizers.trees.trace_trie import build_trie
from hardware_profiles.errors import InfeasibleError, InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.walk import replay_tree

WIDTH = 3


@st.composite
def tiny_recordings(draw):
    """Depth-invariant recordings with hits for a tree to save steps by."""
    lengths = draw(st.lists(st.integers(2, 14), min_size=1, max_size=3))
    ranks = [draw(st.sampled_from([-1, 0, 0, 0, 1, 1, 2])) for _ in range(sum(lengths))]
    return ranks, lengths, WIDTH


def fewest_steps(trace, count, depth):
    """Steps of the best of all trees of `count` draft tokens, by replaying each that the text can
    use."""
    trie = build_trie(trace, depth)
    grown, best = {()}, trie.tokens
    for _ in range(count):
        grown = {
            tuple(sorted((*one, node)))
            for one in grown
            for node in range(trie.nodes)
            if node not in one and (trie.parents[node] < 0 or trie.parents[node] in one)
        }
        for one in grown:
            chosen = np.zeros(trie.nodes, dtype=bool)
            chosen[list(one)] = True
            best = min(best, trie.steps(chosen))
    return best


@given(recording=tiny_recordings())
def test_between_the_sibling_vector_tree_and_the_best_of_all(trace_of, recording):
    trace = trace_of(*recording)
    depth = 3
    for result in trace_tree(trace, (1, 2, 3, 4), depth):
        tokens = int(trace.output_tokens.sum())
        best = tokens / fewest_steps(trace, result.draft_tokens, depth)
        assert result.dp_tokens_per_step <= result.tokens_per_step + 1e-12
        assert result.tokens_per_step <= best + 1e-12
        assert best <= result.tokens_per_step + result.certificate.gap + 1e-12


def test_how_far_from_the_best_of_all(correlated_trace):
    shortfalls = []
    for seed in range(20):
        trace = correlated_trace(seed, requests=1, tokens=60, width=4)
        for result in trace_tree(trace, (2, 3, 4), 3):
            best = trace.positions / fewest_steps(trace, result.draft_tokens, 3)
            shortfalls.append(1 - result.tokens_per_step / best)
    assert min(shortfalls) >= -1e-12
    assert np.mean(np.array(shortfalls) < 1e-12) >= 0.9
    assert max(shortfalls) < 0.05


def test_replays_agree_and_never_lose(correlated_trace):
    for seed in range(3):
        trace = correlated_trace(seed)
        for result in trace_tree(trace):
            assert replay_tree(trace, result.tree).tokens_per_step == pytest.approx(
                result.tokens_per_step
            )
            assert replay_tree(trace, result.dp_tree).tokens_per_step == pytest.approx(
                result.dp_tokens_per_step
            )
            assert result.tokens_per_step >= result.dp_tokens_per_step
            assert 1 <= result.iterations <= 50
            assert 0 <= result.cycle_length <= result.iterations
            assert result.dp_tree.draft_tokens == result.draft_tokens
            assert result.tree.draft_tokens == result.draft_tokens
            assert result.tree.depth <= 9
            assert result.certificate.kind == "bound"
            assert result.certificate.gap >= 0


def test_more_draft_tokens_and_levels_never_hurt_the_bound(correlated_trace):
    trace = correlated_trace(5, requests=6)
    bounds = []
    for depth, count in itertools.product((1, 2, 4), (1, 4, 16)):
        if depth == 1 and count == 16:
            continue  # eight candidates cannot fill one level
        (result,) = trace_tree(trace, (count,), depth)
        bounds.append((depth, count, result.tokens_per_step + result.certificate.gap))
    for (depth, count, low), (deeper, more, high) in itertools.permutations(bounds, 2):
        if deeper >= depth and more >= count:
            assert high >= low - 1e-12


def test_the_seed_is_the_tree_of_the_measured_vector(correlated_trace):
    trace = correlated_trace(1)
    shares = [float(np.mean(trace.rank == rank)) for rank in range(8)]
    (result,) = trace_tree(trace, (8,), 4)
    assert result.dp_tree == optimal_trees(shares, [9], 5)[0].tree


def test_the_seed_goes_by_depth_where_the_drafter_drifts(trace_of):
    ranks = np.array([[0, 1], [0, -1], [1, 0], [-1, 0]])
    trace = trace_of(ranks, [2, 2], WIDTH)
    # the second level predicts nothing at the last position of a text
    by_depth = [[0.5, 0.25], [0.5, 0.5]]
    (result,) = trace_tree(trace, (3,), 5)
    (expected,) = optimal_trees(by_depth, [4], 3)
    assert expected.tokens_per_step == pytest.approx(1 + 0.5 + 2 * 0.25)
    assert result.dp_tree == expected.tree


def test_same_answer_every_time_and_for_any_order_of_sizes(correlated_trace):
    trace = correlated_trace(3)
    forth, back = trace_tree(trace, (8, 32)), trace_tree(trace, (32, 8))
    assert forth == back[::-1] == trace_tree(trace, (8, 32))


def test_a_tree_larger_than_the_text_knows_is_cut_to_it(trace_of):
    trace = trace_of([0, 0, -1, 0, 0, -1], [6], WIDTH)
    (result,) = trace_tree(trace, (10,), 8)
    assert result.dp_tree.draft_tokens == 10
    assert result.tokens_per_step == 3.0
    assert result.tree.draft_tokens <= 10


def test_refuses_what_cannot_be_searched(trace_of):
    lengths = AcceptanceTrace(offsets=np.array([0, 2]), emitted=np.array([2, 1]))
    with pytest.raises(InputError, match="level 2"):
        trace_tree(lengths)
    trace = trace_of([0, 0, 0], [3], WIDTH)
    for sizes in ((), (0,), (4, -1)):
        with pytest.raises(InputError) as caught:
            trace_tree(trace, sizes)
        assert caught.value.key == "draft_tokens"
    with pytest.raises(InputError, match="no decoding step"):
        trace_tree(trace_of([0], [1], WIDTH, first_step_position=1), (1,))
    with pytest.raises(InfeasibleError):
        trace_tree(trace, (4,), depth=1)
