"""Replay against a plain loop, its identities, and its refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.importers.benchmarks.specdecode_bench import read as read_specdecode_bench
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.summary import Summary
from traces.kinds.tree import Tree, chain_tree
from traces.library import recordings, trace_file
from traces.replay.walk import child_offsets, replay_chain, replay_chains, replay_tree, step_starts
from traces.storage.acceptance_file import read_acceptance


def plain_chain(emitted, drafted, first, draft_tokens):
    """The definition, one request at a time: (tokens, steps, proposed steps, draft tokens,
    starts)."""
    n, i, steps, proposed, total, starts = len(emitted), first, 0, 0, 0, []
    while i < n:
        limit = draft_tokens if drafted is None else min(draft_tokens, drafted[i])
        starts.append(i)
        steps += 1
        proposed += limit > 0
        total += limit
        i += min(emitted[i], limit + 1, n - i)
    return max(0, n - first), steps, proposed, total, starts


def plain_tree(rank_at, n, first, tree, drafted):
    """The same for a tree, walked over a dictionary of children."""
    children = {}
    for node in range(1, tree.nodes):
        children[tree.parents[node], tree.ranks[node]] = node
    levels = tree.node_levels()
    i, steps, proposed, total, starts = first, 0, 0, 0, []
    while i < n:
        limit = tree.depth - 1 if drafted is None else min(tree.depth - 1, drafted[i])
        node, accepted = 0, 0
        while accepted < limit and i + accepted < n and (node, rank_at(i, accepted)) in children:
            node = children[node, rank_at(i, accepted)]
            accepted += 1
        starts.append(i)
        steps += 1
        here = int(np.sum(levels <= limit)) - 1
        proposed += here > 0
        total += here
        i += min(accepted + 1, n - i)
    return max(0, n - first), steps, proposed, total, starts


@st.composite
def length_traces(draw):
    texts = draw(st.lists(st.lists(st.integers(1, 12), max_size=30), min_size=1, max_size=5))
    flat = [value for text in texts for value in text]
    drafted = [draw(st.integers(0, 6)) for _ in flat] if draw(st.booleans()) else None
    trace = AcceptanceTrace(
        offsets=np.cumsum([0, *map(len, texts)]),
        emitted=np.array(flat, dtype=np.int64),
        drafted=drafted,
        first_step_position=draw(st.integers(0, 2)),
    )
    return trace, texts


@st.composite
def trees(draw, width, depth):
    paths = {()}
    for _ in range(draw(st.integers(0, 12))):
        parent = draw(st.sampled_from(sorted(paths)))
        if len(parent) < depth:
            paths.add((*parent, draw(st.integers(0, width - 1))))
    return Tree.from_paths(paths - {()})


@st.composite
def rank_traces(draw):
    """A recording whose lengths follow from its ranks, and a tree that it covers."""
    width, depth = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    sizes = draw(st.lists(st.integers(0, 25), min_size=1, max_size=4))
    n, invariant = sum(sizes), draw(st.booleans())
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    offsets = np.cumsum([0, *sizes])
    rank = np.minimum(generator.geometric(0.6, (n,) if invariant else (n, depth)) - 1, width)
    rank[rank == width] = -1
    drafted = generator.integers(0, 6, n) if draw(st.booleans()) else None
    ends = np.repeat(offsets[1:], sizes)
    emitted = np.ones(n, dtype=np.int64)
    for i in range(n):
        limit = min(depth, ends[i] - i) if drafted is None else min(depth, ends[i] - i, drafted[i])
        while (
            emitted[i] <= limit
            and (rank[i + emitted[i] - 1] if invariant else rank[i, emitted[i] - 1]) == 0
        ):
            emitted[i] += 1
    trace = AcceptanceTrace(
        offsets=offsets,
        emitted=emitted,
        drafted=drafted,
        rank=rank,
        rank_width=width,
        depth_invariant=invariant,
        first_step_position=draw(st.integers(0, 1)),
    )
    return trace, draw(trees(width, depth)), depth


def by_request(trace, plain):
    """The plain loop over every request, its counts stacked and its starts shifted to the trace's
    positions."""
    rows, starts = [], []
    for r in range(trace.requests):
        a, b = trace.offsets[r], trace.offsets[r + 1]
        *counts, found = plain(slice(a, b), int(b - a))
        rows.append(counts)
        starts += [int(a) + i for i in found]
    return np.array(rows), starts


def counts_of(replay):
    return np.stack(
        [replay.tokens, replay.steps, replay.proposed_steps, replay.drafted_tokens], axis=1
    )


@given(length_traces(), st.integers(0, 9))
def test_chain_equals_plain_loop(case, draft_tokens):
    trace, _ = case

    def plain(part, _):
        drafted = None if trace.drafted is None else trace.drafted[part].tolist()
        return plain_chain(
            trace.emitted[part].tolist(), drafted, trace.first_step_position, draft_tokens
        )

    expected, starts = by_request(trace, plain)
    replay = replay_chain(trace, draft_tokens)
    np.testing.assert_array_equal(counts_of(replay), expected)
    assert step_starts(trace, draft_tokens).tolist() == starts
    if starts:
        assert replay.tokens_per_step == expected[:, 0].sum() / len(starts)
        assert replay.drafted_per_step == expected[:, 3].sum() / len(starts)


@given(length_traces(), st.integers(1, 9))
def test_steps_lie_between_their_bounds(case, draft_tokens):
    trace, _ = case
    replay = replay_chain(trace, draft_tokens)
    assert np.all(replay.steps <= replay.tokens)
    assert np.all(replay.tokens <= replay.steps * (draft_tokens + 1))
    assert np.all(replay.proposed_steps <= replay.steps)
    assert np.all(replay.drafted_tokens >= replay.tokens - replay.steps)


@given(rank_traces())
def test_tree_equals_plain_loop(case):
    trace, tree, _ = case

    def plain(part, n):
        rank = trace.rank[part]
        drafted = None if trace.drafted is None else trace.drafted[part]
        invariant = trace.depth_invariant
        return plain_tree(
            lambda i, d: rank[i + d] if invariant else rank[i, d],
            n,
            trace.first_step_position,
            tree,
            drafted,
        )

    expected, starts = by_request(trace, plain)
    np.testing.assert_array_equal(counts_of(replay_tree(trace, tree)), expected)
    assert step_starts(trace, tree).tolist() == starts


@given(rank_traces(), st.data())
def test_chain_tree_is_the_chain(case, data):
    trace, _, depth = case
    draft_tokens = data.draw(st.integers(0, depth))
    chain, tree = replay_chain(trace, draft_tokens), replay_tree(trace, chain_tree(draft_tokens))
    np.testing.assert_array_equal(counts_of(chain), counts_of(tree))


@given(length_traces(), st.integers(0, 5), st.randoms(use_true_random=False))
def test_requests_do_not_touch_each_other(case, draft_tokens, random):
    trace, _ = case
    order = list(range(trace.requests)) * 2
    random.shuffle(order)
    whole, picked = (
        replay_chain(trace, draft_tokens),
        replay_chain(trace.select(order), draft_tokens),
    )
    np.testing.assert_array_equal(counts_of(picked), counts_of(whole)[order])


def test_pooled_not_the_mean_of_requests():
    trace = AcceptanceTrace(offsets=[0, 2, 12], emitted=[2, 2] + [1] * 10)
    replay = replay_chain(trace, 3)
    assert replay.tokens_per_step == 12 / 11
    assert np.mean(replay.tokens / replay.steps) == 1.5


def test_match_rate_stands_in_but_never_below_what_must_have_been():
    trace = AcceptanceTrace(offsets=[0, 6], emitted=[1, 1, 3, 1, 1, 1], match_rate=0.5)
    replay = replay_chain(trace, 2)
    assert replay.steps.tolist() == [4] and replay.proposed_steps.tolist() == [1]
    assert replay.proposal_ratio == 0.5 and replay.drafted_per_step == 1.0
    low = AcceptanceTrace(offsets=[0, 6], emitted=[1, 1, 3, 1, 1, 1], match_rate=0.1)
    assert replay_chain(low, 2).proposal_ratio == 0.25
    assert replay_chain(low, 2).drafted_per_step == 0.5
    assert replay_chain(low, 0).proposal_ratio == 0.0
    always = AcceptanceTrace(offsets=[0, 6], emitted=[1, 1, 3, 1, 1, 1])
    assert replay_chain(always, 2).proposal_ratio == 1.0
    assert replay_chain(always, 2).drafted_per_step == 2.0


def test_drafted_wins_over_a_match_rate():
    trace = AcceptanceTrace(offsets=[0, 3], emitted=[1, 2, 1], drafted=[0, 4, 0], match_rate=0.9)
    replay = replay_chain(trace, 3)
    assert replay.proposal_ratio == 0.5 and replay.drafted_per_step == 1.5


def test_longest_possible_values_do_not_wrap_around():
    trace = AcceptanceTrace(
        offsets=[0, 40_000], emitted=np.full(40_000, 32_767), drafted=np.full(40_000, 32_767)
    )
    assert replay_chain(trace, 10**9).steps.tolist() == [2]
    assert replay_chain(trace, 32_766).steps.tolist() == [2]
    assert replay_chain(trace, 1).drafted_tokens.tolist() == [20_000]


def test_refusals():
    lengths = AcceptanceTrace(offsets=[0, 2], emitted=[1, 1])
    summary = AcceptanceTrace(summary=Summary(acceptance_by_depth=(0.5,)), file="counters")
    ranks = AcceptanceTrace(offsets=[0, 2], emitted=[1, 1], rank=[[1, 0], [1, 0]], rank_width=2)
    for wrong in (-1, 1.0, "2", True, None):
        with pytest.raises(InputError, match="whole number"):
            replay_chain(lengths, wrong)
    with pytest.raises(InputError, match=r"counters: level: .*level 1"):
        replay_chain(summary, 1)
    with pytest.raises(InputError, match="level 1"):
        step_starts(summary, 1)
    with pytest.raises(InputError, match="level 2"):
        replay_tree(lengths, chain_tree(1))
    with pytest.raises(InputError, match="2 draft levels recorded"):
        replay_tree(ranks, chain_tree(3))
    with pytest.raises(InputError, match="2 candidates"):
        replay_tree(ranks, Tree.from_paths([(2,)]))
    empty = AcceptanceTrace(offsets=[0, 1], emitted=[1], first_step_position=1)
    with pytest.raises(InputError, match="no decoding step"):
        _ = replay_chain(empty, 1).tokens_per_step


def test_a_tree_may_be_deeper_than_the_text_where_ranks_are_depth_invariant():
    trace = AcceptanceTrace(
        offsets=[0, 4], emitted=[5, 4, 3, 2], rank=[0] * 4, rank_width=1, depth_invariant=True
    )
    assert replay_tree(trace, chain_tree(50)).steps.tolist() == [1]


def test_child_offsets_keep_a_column_for_misses():
    table = child_offsets(Tree.from_paths([(0,), (1,), (0, 1)]), 2).reshape(4, 3)
    assert table.tolist() == [[0, 4, 7], [0, 0, 10], [0, 0, 0], [0, 0, 0]]


def plain_replay(trace, tree, draft_tokens):
    """A chain, or a tree where there is one, by the plain loops."""

    def plain(part, n):
        drafted = None if trace.drafted is None else trace.drafted[part].tolist()
        first = trace.first_step_position
        if tree is None:
            return plain_chain(trace.emitted[part].tolist(), drafted, first, draft_tokens)
        ranks = trace.rank[part]
        return plain_tree(lambda i, depth: ranks[i, depth], n, first, tree, drafted)

    return by_request(trace, plain)[0]


RECORDED = sorted(name for name in recordings() if name.startswith(("smollm2", "level-3")))


@pytest.mark.parametrize("name", RECORDED)
def test_recordings_that_are_shipped_equal_a_plain_loop(name):
    """Of real texts, by every drafter that was recorded."""
    trace = read_acceptance(trace_file(name))
    replays = replay_chains(trace, range(1, 7))
    for draft_tokens, replay in zip(range(1, 7), replays, strict=True):
        np.testing.assert_array_equal(counts_of(replay), plain_replay(trace, None, draft_tokens))
    assert np.all(np.diff([replay.tokens_per_step for replay in replays]) >= 0)
    if trace.rank is not None and trace.rank.ndim == 2:
        tree = Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (1, 0)])
        np.testing.assert_array_equal(
            counts_of(replay_tree(trace, tree)), plain_replay(trace, tree, None)
        )


# Own golden numbers: pooled tokens per step of the published traces, K = 1, 3, 5.
GOLDEN = {
    ("gsm8k", "eagle"): (1.6927, 2.3792, 2.6513),
    ("gsm8k", "ngram"): (1.1095, 1.1639, 1.1768),
    ("sharegpt", "eagle"): (1.6598, 2.2519, 2.4758),
    ("sharegpt", "ngram"): (1.2356, 1.3949, 1.4507),
}


@pytest.mark.parametrize(("dataset", "drafter"), sorted(GOLDEN))
def test_golden_tokens_per_step(reference_data, dataset, drafter):
    file = reference_data / "acceptance" / f"position_trace_llama31_8b_{dataset}.json"
    trace = read_specdecode_bench(file, drafter=drafter)
    found = [replay.tokens_per_step for replay in replay_chains(trace, (1, 3, 5))]
    assert found == pytest.approx(GOLDEN[dataset, drafter], abs=5e-5)
