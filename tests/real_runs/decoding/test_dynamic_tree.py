"""Dynamic trees against brute force over every path, their budgets, and real loops against plain
decoding."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.decoding.dynamic_tree import DynamicPolicy, draft_tree, speculate_dynamic
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from tests.property_examples import examples
from traces.replay.compiled_trees import pick

VOCABULARY = 5
ORDERS = ("best-first", "levels", "beam")


class PathReader:
    """Logits that depend on the whole path, which is read off slots and mask as a model would."""

    def __init__(self, seed, sharpness=2.0):
        self._seed, self._sharpness = seed, sharpness
        self._slots = {}
        self.reads = []

    def logits(self, path):
        generator = np.random.default_rng([self._seed, *(token + 1 for token in path)])
        return torch.from_numpy(generator.normal(size=VOCABULARY) * self._sharpness)

    def after_prefix(self, known, cache):
        self._root, self._slots = len(known) - 1, {}
        return self.logits(())

    def after_nodes(self, tokens, cache, *, start, positions, mask):
        assert mask.shape == (len(tokens), start + len(tokens))
        assert mask[:, : self._root + 1].all()
        self._slots |= {start + row: token for row, token in enumerate(tokens)}
        rows = []
        for row, position in enumerate(positions.tolist()):
            seen = mask[row, self._root + 1 :].nonzero()[:, 0] + self._root + 1
            assert position == self._root + len(seen)
            assert seen[-1] == start + row
            rows.append(self.logits(tuple(self._slots[int(slot)] for slot in seen)))
        self.reads.append(len(tokens))
        return torch.stack(rows)


def drafted(seed, policy, sharpness=2.0):
    return draft_tree(PathReader(seed, sharpness), [3, 1, 4], SimpleNamespace(), policy)


def paths_of(tree):
    paths = [()]
    for node in range(1, len(tree.tokens)):
        paths.append((*paths[tree.parents[node]], tree.tokens[node]))
    return dict(zip(paths, tree.values, strict=True))


def every_path(seed, policy):
    """Value of every path of the policy's depth and width."""
    reader, values, level = PathReader(seed), {}, {(): 1.0}
    for _ in range(policy.depth):
        below = {}
        for path, value in level.items():
            chances = torch.softmax(reader.logits(path), 0)
            for token in chances.argsort(descending=True)[: policy.width].tolist():
                below[(*path, token)] = value * float(chances[token])
        values |= below
        level = below
    return values


@settings(max_examples=examples(40))
@given(st.integers(0, 10**6), st.integers(1, 25), st.integers(1, 3), st.integers(1, VOCABULARY))
def test_best_first_and_levels_keep_the_nodes_of_highest_value(seed, budget, depth, width):
    values = None
    for order in ("best-first", "levels"):
        policy = DynamicPolicy(order=order, draft_tokens=budget, depth=depth, width=width)
        tree = drafted(seed, policy)
        values = values or every_path(seed, policy)
        best = sorted(values, key=values.get, reverse=True)[:budget]
        found = paths_of(tree)
        assert set(found) == {(), *best}
        assert all(found[path] == pytest.approx(values[path], rel=1e-9) for path in best)


@settings(max_examples=examples(60))
@given(
    st.integers(0, 10**6),
    st.sampled_from(ORDERS),
    st.integers(1, 30),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.05, 0.3]),
)
def test_budgets_hold_and_every_nodes_parent_is_there(
    seed, order, budget, depth, width, beam, least
):
    policy = DynamicPolicy(
        order=order, draft_tokens=budget, depth=depth, width=width, beam=beam, least_value=least
    )
    tree = drafted(seed, policy)
    assert len(tree.tokens) == len(tree.parents) == len(tree.values) <= budget + 1
    assert tree.parents[0] == -1
    assert all(0 <= parent < node for node, parent in enumerate(tree.parents) if node)
    assert all(
        tree.values[node] <= tree.values[parent] for node, parent in enumerate(tree.parents) if node
    )
    assert min(tree.values) >= least * (1 - 1e-12)
    paths = paths_of(tree)
    assert len(paths) == len(tree.tokens)  # no two nodes spell the same text
    assert max(map(len, paths)) <= depth
    children = np.bincount(list(tree.parents[1:]), minlength=1)
    assert children.max() <= min(width, VOCABULARY)
    assert tree.passes <= (budget if order == "best-first" else depth)
    assert tree.nodes_read <= 1 + (policy.slots if order != "beam" else beam * (depth - 1))
    assert tree.nodes_read - 1 <= policy.slots


class BlockOfLevels(PathReader):
    """Logits that depend on the level alone, all of them known after one pass."""

    def logits(self, path):
        return super().logits((len(path),))

    def block(self, known, cache, levels):
        self.after_prefix(known, cache)
        return torch.stack([self.logits((0,) * level) for level in range(min(levels, 3))])


@settings(max_examples=examples(40))
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 4), st.integers(1, VOCABULARY))
def test_a_block_grows_the_tree_of_greatest_products_in_one_pass(seed, budget, depth, width):
    policy = {"draft_tokens": budget, "depth": depth, "width": width}
    prefix, cache = [3, 1, 4], SimpleNamespace()
    reader = BlockOfLevels(seed)
    grown = paths_of(
        tree := draft_tree(reader, prefix, cache, DynamicPolicy(order="block", **policy))
    )
    assert (tree.passes, tree.nodes_read, reader.reads) == (1, 1, [])
    rows = [
        torch.softmax(reader.logits((0,) * level), 0).tolist() for level in range(min(depth, 3))
    ]
    best = [
        sorted(range(VOCABULARY), key=lambda token, row=row: -row[token])[:width] for row in rows
    ]
    values = {
        path: float(np.prod([row[token] for row, token in zip(rows, path, strict=False)]))
        for levels in range(1, len(rows) + 1)
        for path in itertools.product(*best[:levels])
    }
    assert sum(grown.values()) - 1.0 == pytest.approx(sum(sorted(values.values())[-budget:]))
    assert all(grown[path] == pytest.approx(values[path]) for path in grown if path)
    by_levels = DynamicPolicy(order="levels", **policy | {"depth": min(depth, 3)})
    assert grown.keys() == paths_of(draft_tree(reader, prefix, cache, by_levels)).keys()


@given(st.integers(0, 10**6), st.integers(1, 3))
def test_a_block_of_one_candidate_a_level_is_a_chain(seed, depth):
    policy = DynamicPolicy(order="block", draft_tokens=depth, depth=depth, width=1)
    tree = draft_tree(BlockOfLevels(seed), [3, 1, 4], SimpleNamespace(), policy)
    assert tree.parents == tuple(range(-1, depth))


def test_a_drafter_that_reads_nodes_drafts_no_block():
    with pytest.raises(InputError, match="levels are known after one pass"):
        drafted(0, DynamicPolicy(order="block"))


@given(st.integers(0, 10**6), st.sampled_from(["best-first", "levels"]))
def test_trees_of_growing_budgets_are_nested(seed, order):
    trees = [
        drafted(seed, DynamicPolicy(order=order, draft_tokens=n, depth=4))
        for n in (1, 3, 7, 15, 30)
    ]
    for small, large in itertools.pairwise(trees):
        assert set(paths_of(small)) < set(paths_of(large))
        assert small.tokens == large.tokens[: len(small.tokens)]
        assert small.parents == large.parents[: len(small.parents)]


def test_a_wide_beam_is_exact_and_a_narrow_one_is_not():
    policy = {"draft_tokens": 20, "depth": 4, "width": VOCABULARY}
    differing = 0
    for seed in range(20):
        exact = paths_of(drafted(seed, DynamicPolicy(**policy)))
        assert (
            paths_of(drafted(seed, DynamicPolicy(order="beam", beam=VOCABULARY**3, **policy)))
            == exact
        )
        narrow = paths_of(drafted(seed, DynamicPolicy(order="beam", beam=2, **policy)))
        assert sum(narrow.values()) <= sum(exact.values()) + 1e-9
        differing += narrow != exact
    assert differing > 0


@settings(max_examples=examples(60))
@given(
    st.integers(0, 10**6),
    st.sampled_from(["levels", "beam"]),
    st.integers(1, 30),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.05, 0.3]),
    st.sampled_from([0.0, 0.02, 0.2]),
    st.sampled_from([(0.0, 0), (0.05, 0), (0.1, 4)]),
)
def test_replay_picks_the_tree_that_the_decoder_drafts(
    seed, order, budget, depth, width, beam, least, gain, cost
):
    """The same policy over a recording of every path: as many nodes, passes, and nodes read."""
    policy = DynamicPolicy(
        order=order,
        draft_tokens=budget,
        depth=depth,
        width=width,
        beam=beam,
        least_value=least,
        least_gain=gain,
        cost_ratio=cost[0],
        free_nodes=cost[1],
    )
    tree = drafted(seed, policy)
    values = every_path(seed, policy)
    paths = sorted(values, key=lambda path: (-values[path], len(path)))
    place = {path: node for node, path in enumerate(paths)}
    above = [values.get(path[:-1], 1.0) for path in paths]
    siblings = [[other for other in paths if other[:-1] == path[:-1]].index(path) for path in paths]
    emitted, nodes, _, passes, rows, exact = pick(
        np.array([0, len(paths)]),
        np.array([place.get(path[:-1], -1) for path in paths], dtype=np.int16),
        np.array(siblings, dtype=np.int8),
        np.array([values[path] for path in paths]) / above,
        np.zeros(len(paths), dtype=np.bool_),
        len(paths) + 1,
        budget,
        depth,
        width,
        least,
        beam if order == "beam" else 0,
        gain,
        *cost,
    )
    assert exact.all() and emitted.tolist() == [1]
    assert (nodes[0] + 1, passes[0], rows.sum()) == (len(tree.tokens), tree.passes, tree.nodes_read)


def test_levels_take_few_passes_and_stop_where_a_level_gains_little():
    policy = {"draft_tokens": 20, "depth": 6}
    passes = {}
    for least in (0.0, 0.02, 0.2, 10.0):
        trees = [
            drafted(seed, DynamicPolicy(least_gain=least, **policy), sharpness=1.0)
            for seed in range(20)
        ]
        passes[least] = sum(tree.passes for tree in trees)
    assert passes[0.0] > passes[0.02] > passes[0.2] > passes[10.0] == 2 * 20
    assert drafted(0, DynamicPolicy(order="best-first", **policy)).passes > 6


@pytest.mark.parametrize(
    "wrong",
    [
        {"draft_tokens": 0},
        {"depth": 0},
        {"width": 0},
        {"beam": 0},
        {"order": "random"},
        {"least_value": 1.5},
        {"least_value": float("nan")},
        {"least_gain": -1.0},
        {"least_gain": 0.1, "order": "best-first"},
        {"least_gain": 0.1, "order": "block"},
        {"cost_ratio": 1.5},
        {"free_nodes": -1},
    ],
)
def test_policies_out_of_range_are_refused(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        DynamicPolicy(**wrong)


@pytest.mark.parametrize("name", ["early exit", "layer skip"])
@pytest.mark.parametrize("order", ORDERS)
def test_real_readers_see_every_nodes_own_path(tiny_model, readers, name, order):
    """Values of a drafted tree against the same reader on each path written out as plain text."""
    known, reader = [5, 9, 2, 7], readers[name]
    policy = DynamicPolicy(order=order, draft_tokens=10, depth=4, width=3, beam=3)

    def cache_after(text):
        cache = tiny_model.new_cache(len(text) + policy.slots)
        tiny_model.forward(text, cache, logits="none")
        cache.commit(len(text))
        return cache

    tree = draft_tree(reader, known, cache_after(known[:-1]), policy)
    assert max(map(len, paths_of(tree))) > 1
    for path, value in paths_of(tree).items():
        chance = 1.0
        for depth, token in enumerate(path):
            text = [*known, *path[:depth]]
            chance *= float(
                torch.softmax(reader.after_prefix(text, cache_after(text[:-1])), 0)[token]
            )
        assert value == pytest.approx(chance, rel=1e-3)


@pytest.mark.parametrize("name", ["early exit", "layer skip"])
@settings(max_examples=examples(10))
@given(
    st.lists(st.integers(1, 96), min_size=1, max_size=8),
    st.sampled_from(ORDERS),
    st.sampled_from([0.0, 0.7]),
    st.integers(1, 12),
    st.integers(1, 40),
)
def test_text_equals_plain_text(
    tiny_model, readers, name, prompt, order, temperature, budget, length
):
    sampler = Sampler(temperature=temperature, seed=2, request="r", positions=length)
    policy = DynamicPolicy(order=order, draft_tokens=budget, depth=4, width=4, beam=3)
    run = speculate_dynamic(
        tiny_model, prompt, readers[name], sampler, policy=policy, max_new_tokens=length
    )
    made = generate(tiny_model, prompt, sampler, max_new_tokens=length)
    assert (run.tokens, run.ended) == (made.tokens, made.ended)
    assert max(run.drafted, default=0) <= budget
    assert sum(run.emitted) == len(run.tokens) - 1


@pytest.mark.parametrize("name", ["early exit", "layer skip"])
def test_more_nodes_take_fewer_steps(tiny_model, readers, name):
    steps = {}
    for budget in (1, 8, 24):
        steps[budget] = 0
        for seed in range(1, 5):
            sampler = Sampler(temperature=0, seed=0, request="", positions=40)
            policy = DynamicPolicy(draft_tokens=budget, depth=5)
            run = speculate_dynamic(
                tiny_model, [seed, 5], readers[name], sampler, policy=policy, max_new_tokens=40
            )
            steps[budget] += len(run.emitted)
    assert steps[1] > steps[8] > steps[24]
