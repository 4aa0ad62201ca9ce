"""Trees picked anew at every step: a plain twin, what must grow with the budget, and what the
recording cannot tell."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.expansions import Expansions
from traces.replay.dynamic import TreePolicy, best_first, paying_nodes, pick_trees, walk_policy

WIDTH, MOST = 3, 9


@st.composite
def recordings(draw):
    """Texts with one true path each, and best-first trees of a drafter of its own per position."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4))
    offsets, trees = np.cumsum([0, *sizes]), []
    for end, size in zip(offsets[1:], sizes, strict=True):
        for position in range(end - size, end):
            trees.append(_tree(generator, end - position, int(generator.integers(1, MOST + 1))))
    flat = [[value for tree in trees for value in tree[i]] for i in range(4)]
    expansions = Expansions(
        offsets=np.cumsum([0, *(len(tree[0]) for tree in trees)]),
        parents=np.array(flat[0], dtype=int),
        rank=np.array(flat[1], dtype=int),
        draft_prob=np.array(flat[2], dtype=float),
        on_path=np.array(flat[3], dtype=bool),
        nodes=MOST,
        depth=6,
        width=WIDTH,
    )
    emitted = np.ones(offsets[-1], dtype=np.int16)
    return AcceptanceTrace(
        offsets=offsets, emitted=emitted, expansions=expansions, first_step_position=1
    )


def _tree(generator, left, size):
    """The `size` likeliest nodes; probabilities are thirty-seconds, so ties are common and sums are
    exact."""
    frontier = [(1.0, -1, k, p, 1) for k, p in enumerate(_probabilities(generator))]
    made = []
    while frontier and len(made) < size:
        best = max(range(len(frontier)), key=lambda i: (frontier[i][0] * frontier[i][3], -i))
        above, parent, rank, own, level = frontier.pop(best)
        below = parent < 0 or made[parent][3]
        sibling = any(node[0] == parent and node[3] for node in made)
        made.append(
            (
                parent,
                rank,
                own,
                bool(below and not sibling and level <= left and generator.random() < 0.6),
            )
        )
        if level < 6:
            at = len(made) - 1
            frontier += [
                (above * own, at, k, p, level + 1) for k, p in enumerate(_probabilities(generator))
            ]
    return [list(column) for column in zip(*made, strict=True)]


def _probabilities(generator):
    cuts = np.sort(generator.integers(0, 33, WIDTH))
    return np.sort(np.diff([0, *cuts]))[::-1] / 32


def twin(trace, position, policy):
    """The same policy in plain Python: (on-path nodes, nodes, levels) of the picked tree."""
    trees = trace.expansions
    nodes = range(trees.offsets[position], trees.offsets[position + 1])
    first = trees.offsets[position]
    chance, level = {-1: 1.0}, {-1: 0}
    for node in nodes:
        parent = int(trees.parents[node])
        chance[node - first] = chance[parent] * float(trees.draft_prob[node])
        level[node - first] = level[parent] + 1
    growing, met = [-1], []
    for depth in range(1, (policy.depth or 100) + 1):
        here = [
            node - first
            for node in nodes
            if trees.parents[node] in growing
            and level[node - first] == depth
            and trees.rank[node] < (policy.width or 100)
            and chance[node - first] >= policy.least_probability
        ]
        met += here
        growing = sorted(here, key=lambda node: (-chance[node], node))[: policy.beam or None]
        if not growing:
            break
    kept = _paying(sorted(met, key=lambda node: (-chance[node], node)), chance, policy)
    return (
        sum(bool(trees.on_path[first + node]) for node in kept),
        len(kept),
        max((level[n] for n in kept), default=0),
    )


def _paying(ordered, value, policy):
    """Of nodes in order, as many as there may be and as pay."""
    kept = ordered[: policy.nodes]
    return kept[: paying_nodes([value[n] for n in kept], policy.cost_ratio, policy.free_nodes)]


POLICIES = st.builds(
    TreePolicy,
    nodes=st.integers(0, MOST + 2),
    depth=st.none() | st.integers(1, 6),
    width=st.none() | st.integers(1, WIDTH),
    least_probability=st.sampled_from([0.0, 0.0, 0.05, 0.25, 1.0]),
    beam=st.none() | st.integers(1, 4),
    cost_ratio=st.sampled_from([0.0, 0.0, 1 / 32, 1 / 4]),
    free_nodes=st.integers(0, 3),
)
STOPPING = st.builds(
    lambda policy, gain: replace(policy, least_gain=gain),
    POLICIES,
    st.sampled_from([0.0, 1 / 64, 1 / 8, 1 / 2]),
)


def drafted(trees, position, policy, limit=MOST):
    """A drafter that reads level by level, in plain Python: (nodes kept, rows of every pass) of a
    whole tree."""
    first = trees.offsets[position]
    size = min(trees.sizes[position], limit)
    value, level = {-1: 1.0}, {-1: 0}
    for node in range(size):
        parent = int(trees.parents[first + node])
        value[node], level[node] = (
            value[parent] * float(trees.draft_prob[first + node]),
            level[parent] + 1,
        )
    found, reading, rows, before = [], [-1], [], 0.0
    kept = []
    while reading and policy.nodes and len(rows) < (policy.depth or trees.depth):
        rows.append(len(reading))
        found += [
            node
            for node in range(size)
            if trees.parents[first + node] in reading
            and trees.rank[first + node] < (policy.width or 100)
            and value[node] >= policy.least_probability
        ]
        found.sort(key=lambda node: (-value[node], node))
        kept = found[: policy.nodes]
        total = sum(value[node] for node in kept)
        if policy.least_gain and len(rows) > 1 and total - before <= policy.least_gain:
            break
        before = total
        here = [node for node in (found if policy.beam else kept) if level[node] == len(rows)]
        reading = here[: policy.beam or None]
    return _paying(kept, value, policy), rows


@given(recordings(), STOPPING)
def test_a_whole_tree_is_read_as_a_drafter_reads_it(trace, policy):
    trees = replace(trace.expansions, nodes=MOST + 1)  # no tree is as large as that: none was cut
    picked = pick_trees(trees, policy)
    assert picked.exact.all()
    for position in range(trace.positions):
        kept, rows = drafted(trees, position, policy)
        assert picked.nodes[position] == len(kept)
        assert picked.passes[position] == len(rows)
        assert picked.rows[position, : len(rows)].tolist() == rows
        assert not picked.rows[position, len(rows) :].any()


@given(recordings(), st.integers(1, MOST), STOPPING)
def test_a_cut_tree_says_what_it_cannot_tell(trace, limit, policy):
    """What counts as exact equals the whole tree's answer; nodes read are never fewer than of the
    whole tree."""
    whole = replace(trace.expansions, nodes=MOST + 1)
    first = np.repeat(whole.offsets[:-1], whole.sizes)
    short = np.arange(whole.size) - first < limit
    cut = replace(
        whole,
        offsets=np.cumsum([0, *np.minimum(whole.sizes, limit)]),
        nodes=limit,
        **{
            name: getattr(whole, name)[short]
            for name in ("parents", "rank", "draft_prob", "on_path")
        },
    )
    known, true = pick_trees(cut, policy), pick_trees(whole, policy)
    border = np.array(
        [_tied(whole, position, limit) for position in range(trace.positions)], dtype=bool
    )
    sure = known.exact & ~border
    # a beam, or a tree that grows while nodes pay, goes on where children may have been cut
    passes = () if policy.beam or policy.cost_ratio else ("passes",)
    for name in ("emitted", "nodes", "levels", *passes):
        assert np.array_equal(getattr(known, name)[sure], getattr(true, name)[sure])
    for name in ("passes", "rows"):
        assert np.all(getattr(known, name)[sure] >= getattr(true, name)[sure])


def test_passes_of_a_paying_tree_are_bounded_where_its_children_were_cut():
    """Its nodes are told exactly; how many levels were read in vain is not."""
    whole = Expansions(
        offsets=np.array([0, 8]),
        parents=np.array([-1, -1, 1, -1, 3, 2, 2, 5], dtype=np.int16),
        rank=np.array([0, 1, 0, 2, 0, 0, 1, 0], dtype=np.int8),
        draft_prob=np.array([0.25, 0.25, 0.656, 0.156, 0.531, 0.5, 0.375, 0.6875], np.float16),
        on_path=np.array([True] + [False] * 7),
        nodes=9,
        depth=6,
        width=3,
    )
    first = {
        name: getattr(whole, name)[:2] for name in ("parents", "rank", "draft_prob", "on_path")
    }
    cut = replace(whole, offsets=np.array([0, 2]), nodes=2, **first)
    policy = TreePolicy(nodes=3, cost_ratio=0.25)
    known, true = pick_trees(cut, policy), pick_trees(whole, policy)
    assert known.exact.all() and (known.nodes, known.emitted) == (true.nodes, true.emitted)
    assert (int(known.passes[0]), int(true.passes[0])) == (6, 3)


@given(
    st.lists(st.floats(0.0, 1.0), max_size=12).map(lambda values: sorted(values, reverse=True)),
    st.floats(0.001, 1.0),
    st.integers(0, 6),
)
def test_as_many_nodes_as_pay_emit_most_a_second(values, cost_ratio, free_nodes):
    """Of all numbers of the likeliest nodes, under a verify pass that is flat and then rises."""
    emitted = 1.0 + np.cumsum([0.0, *values])
    seconds = 1.0 + cost_ratio * np.maximum(np.arange(len(values) + 1) - free_nodes, 0)
    count = paying_nodes(values, cost_ratio, free_nodes)
    assert (emitted / seconds)[count] == pytest.approx((emitted / seconds).max())
    assert count >= min(free_nodes, len(values))
    assert paying_nodes(values, 0.0, 0) == len(values)


@given(recordings(), POLICIES)
def test_equals_the_twin(trace, policy):
    picked = pick_trees(trace.expansions, policy)
    for position in range(trace.positions):
        expected = twin(trace, position, policy)
        found = (picked.emitted[position] - 1, picked.nodes[position], picked.levels[position])
        assert found == expected


@given(recordings(), POLICIES)
def test_the_walk_follows_what_steps_emit(trace, policy):
    replay, _ = walk_policy(trace, policy)
    for request in range(trace.requests):
        at, end = trace.offsets[request] + 1, trace.offsets[request + 1]
        steps = drafted = proposed = 0
        while at < end:
            hits, nodes, _ = twin(trace, at, policy)
            steps, drafted, proposed = steps + 1, drafted + nodes, proposed + (nodes > 0)
            at += hits + 1
        counts = (
            replay.steps[request],
            replay.drafted_tokens[request],
            replay.proposed_steps[request],
        )
        assert counts == (steps, drafted, proposed)
        assert replay.tokens[request] == max(trace.output_tokens[request] - 1, 0)


@given(recordings(), POLICIES)
def test_more_nodes_never_emit_less_at_a_position(trace, policy):
    """A step's tree holds the smaller budget's; the walk over steps starts elsewhere, so it need
    not follow."""
    few, more = (
        pick_trees(
            trace.expansions,
            TreePolicy(
                nodes=policy.nodes + extra,
                depth=policy.depth,
                width=policy.width,
                beam=policy.beam,
                least_probability=policy.least_probability,
            ),
        )
        for extra in (0, 1)
    )
    assert np.all(more.emitted >= few.emitted)
    assert np.all(more.nodes >= few.nodes)
    assert np.all(few.nodes <= policy.nodes)
    assert np.all(few.emitted <= few.nodes + 1)
    assert np.all(few.levels <= few.nodes)


@given(recordings(), st.integers(1, MOST), POLICIES)
def test_exact_answers_do_not_change_with_what_is_recorded_beyond_them(trace, kept, policy):
    """Cut the recorded trees to their likeliest nodes: where the answer still counts as exact, it
    is the same."""
    trees = trace.expansions
    first = np.repeat(trees.offsets[:-1], trees.sizes)
    short = np.arange(trees.size) - first < kept
    # a tree smaller than the recorder's limit is whole; one that was cut is as large as the smaller
    # limit
    cut = Expansions(
        offsets=np.cumsum([0, *np.minimum(trees.sizes, kept)]),
        parents=trees.parents[short],
        rank=trees.rank[short],
        draft_prob=trees.draft_prob[short],
        on_path=trees.on_path[short],
        nodes=kept,
        depth=trees.depth,
        width=trees.width,
    )
    from_cut, from_all = pick_trees(cut, policy), pick_trees(trees, policy)
    sure = from_cut.exact
    # of equally likely nodes at the border of the cut either may be picked
    border = np.array(
        [_tied(trees, position, kept) for position in range(trace.positions)], dtype=bool
    )
    for name in ("emitted", "nodes", "levels"):
        assert np.array_equal(
            getattr(from_cut, name)[sure & ~border], getattr(from_all, name)[sure & ~border]
        )
    assert np.all(from_cut.emitted[~border] <= from_all.emitted[~border])


def _tied(trees, position, kept):
    first, stop = trees.offsets[position : position + 2]
    chance = []
    for node in range(first, stop):
        parent = trees.parents[node]
        chance.append(float(trees.draft_prob[node]) * (chance[parent] if parent >= 0 else 1.0))
    return len(chance) > kept and min(chance[:kept]) <= max(chance[kept:])


def chain_trace():
    """Five positions whose drafter is right about the next two tokens and wrong about the third."""
    one = {"parents": [-1, 0, 1], "rank": [0, 0, 0], "draft_prob": [0.5] * 3}
    true = [[True, True, False]] * 3 + [[True, True, False], [True, False, False]]
    expansions = Expansions(
        offsets=np.arange(0, 16, 3),
        **{name: values * 5 for name, values in one.items()},
        on_path=[value for row in true for value in row],
    )
    return AcceptanceTrace(offsets=[0, 5], emitted=[1] * 5, expansions=expansions)


def test_by_hand():
    replay, trees = walk_policy(chain_trace(), best_first(2))
    assert (replay.steps.tolist(), replay.drafted_tokens.tolist()) == ([2], [4])
    assert (replay.tokens_per_step, replay.drafted_per_step) == (2.5, 2.0)
    assert trees.levels.tolist() == [2, 2] and trees.exact.all()
    likely, _ = walk_policy(chain_trace(), best_first(3, least_probability=0.5))
    assert (likely.tokens_per_step, likely.drafted_per_step) == (5 / 3, 1.0)
    assert walk_policy(chain_trace(), best_first(0))[0].tokens_per_step == 1.0
    beam = TreePolicy(nodes=2, depth=2, width=1, beam=1)
    assert walk_policy(chain_trace(), beam)[0].tokens_per_step == 2.5


def test_what_was_not_recorded_is_refused():
    trace = chain_trace()
    for policy, key in (
        (TreePolicy(nodes=2, depth=4), "depth"),
        (TreePolicy(nodes=2, width=2), "width"),
    ):
        with pytest.raises(InputError, match="as recorded") as caught:
            walk_policy(trace, policy)
        assert caught.value.key == key
    replay, trees = walk_policy(trace, TreePolicy(nodes=2, depth=1))
    assert replay.drafted_per_step == 1.0 and not trees.exact.any()
    with pytest.raises(InputError, match="needs a trace with expansions"):
        walk_policy(AcceptanceTrace(offsets=[0, 1], emitted=[1]), best_first(1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"nodes": -1},
        {"depth": 0},
        {"width": 0},
        {"beam": 0},
        {"least_probability": 1.5},
        {"cost_ratio": 1.5},
        {"free_nodes": -1},
        {"nodes": 1 << 20},
    ],
)
def test_policies_out_of_range_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        TreePolicy(**{"nodes": 1, **wrong})
