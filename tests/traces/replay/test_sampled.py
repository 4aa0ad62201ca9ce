"""Sampled drafts: against every text and every draft of a small process, and against the real
algorithm run long."""

import itertools
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from tests.traces.sampled_texts import recorded_texts
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.tree import Tree, chain_tree
from traces.replay.sampled import accepted_probabilities, replay_sampled, survival
from traces.replay.walk import replay_chain, replay_tree

WORDS = 4
# the next token's law given the last one, in 64ths: half precision holds them exactly
TARGET = np.array([[24, 16, 16, 8], [8, 32, 8, 16], [20, 20, 4, 20], [16, 8, 24, 16]]) / 64
DRAFT = np.array([[16, 24, 8, 16], [16, 16, 16, 16], [8, 40, 12, 4], [32, 4, 20, 8]]) / 64
TREES = {
    "chain of 1": chain_tree(1),
    "chain of 3": chain_tree(3),
    "two siblings": Tree.from_paths([(0,), (1,)]),
    "four siblings": Tree.from_paths([(0,), (1,), (2,), (3,)]),
    "uneven": Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (0, 2), (1, 0), (0, 1, 0)]),
}


trace_of = partial(recorded_texts, target=TARGET, draft=DRAFT)


def children(tree):
    return {
        node: [n for n in range(tree.nodes) if tree.parents[n] == node]
        for node in range(tree.nodes)
    }


def emitted_texts(tree, last, below, weight=1.0, node=0):
    """Every outcome of one step of the real algorithm, draws and coins enumerated: (probability,
    tokens emitted)."""
    p, q = TARGET[last].copy(), DRAFT[last].copy()
    kids = below[node]

    def tried(p, q, k, weight):
        if k == len(kids) or q.sum() <= 0:
            for token in range(WORDS):
                if p[token] > 0:
                    yield weight * p[token], (token,)
            return
        q = q / q.sum()
        residual = np.maximum(p - q, 0)
        for drawn in range(WORDS):
            if q[drawn] == 0:
                continue
            keep = min(1, p[drawn] / q[drawn])
            if keep:
                for chance, rest in emitted_texts(
                    tree, drawn, below, weight * q[drawn] * keep, kids[k]
                ):
                    yield chance, (drawn, *rest)
            if keep < 1:
                left = q.copy()
                left[drawn] = 0
                yield from tried(
                    residual / residual.sum(), left, k + 1, weight * q[drawn] * (1 - keep)
                )

    yield from tried(p, q, 0, weight)


def expected_steps(tree, length):
    """Steps to write `length` tokens after token 0, by the algorithm itself."""
    below = children(tree)
    outcomes = {last: list(emitted_texts(tree, last, below)) for last in range(WORDS)}
    for law in outcomes.values():
        assert sum(chance for chance, _ in law) == pytest.approx(1)
    needed = {0: np.zeros(WORDS)}
    for left in range(1, length + 1):
        needed[left] = np.array(
            [
                1
                + sum(
                    c * (needed[left - len(t)][t[-1]] if len(t) < left else 0)
                    for c, t in outcomes[last]
                )
                for last in range(WORDS)
            ]
        )
    return needed[length][0]


@pytest.mark.parametrize("name", [*TREES])
def test_average_over_all_texts_is_that_of_the_algorithm(name):
    """Every text of five tokens, weighed by its probability, against every outcome of every
    step."""
    length, tree = 5, TREES[name]
    texts = list(itertools.product(range(WORDS), repeat=length))
    weight = [np.prod([TARGET[a, b] for a, b in itertools.pairwise((0, *text))]) for text in texts]
    assert sum(weight) == pytest.approx(1)
    steps = replay_sampled(trace_of(texts), tree).steps
    assert steps @ weight == pytest.approx(expected_steps(tree, length), rel=1e-9)


@pytest.mark.parametrize("name", [*TREES])
def test_a_step_writes_what_the_target_would(name):
    """The enumeration above is the lossless algorithm: first tokens follow the target's law."""
    tree = TREES[name]
    for last in range(WORDS):
        first = np.zeros(WORDS)
        for chance, tokens in emitted_texts(tree, last, children(tree)):
            first[tokens[0]] += chance
        np.testing.assert_allclose(first, TARGET[last], atol=1e-12)


def drawn_text(length, seed):
    generator = np.random.default_rng(seed)
    cumulated, text = TARGET.cumsum(axis=1), [0]
    for u in generator.random(length):
        text.append(int(np.searchsorted(cumulated[text[-1]], u, side="right")))
    return text[1:]


@pytest.mark.heavy
def test_a_long_run_of_the_algorithm():
    """Draws and coins of a generator, no enumeration: tokens per step of 20 000 steps within four
    standard errors."""
    generator = np.random.default_rng(11)
    lengths, last = [], 0
    for _ in range(20_000):
        emitted = 0
        while emitted < 3:
            drawn = int(generator.choice(WORDS, p=DRAFT[last]))
            emitted += 1
            if generator.random() >= min(1, TARGET[last, drawn] / DRAFT[last, drawn]):
                residual = np.maximum(TARGET[last] - DRAFT[last], 0)
                last = int(generator.choice(WORDS, p=residual / residual.sum()))
                break
            last = drawn
        else:
            emitted += 1
            last = int(generator.choice(WORDS, p=TARGET[last]))
        lengths.append(emitted)
    replayed = replay_sampled(trace_of([drawn_text(150_000, 12)]), 3).tokens_per_step
    assert abs(np.mean(lengths) - replayed) < 4 * np.std(lengths) / np.sqrt(len(lengths)) * np.sqrt(
        2
    )


def test_matching_tokens_is_wrong():
    """Two flat laws that are nearly the same: the test keeps nearly all drafts, where matching
    keeps one in four."""
    target = np.full((WORDS, WORDS), 16.0) / 64
    draft = np.array([[17, 16, 16, 15]] * WORDS) / 64
    generator = np.random.default_rng(3)
    text = generator.integers(0, WORDS, 50_000).tolist()
    trace = trace_of([text], target=target, draft=draft)
    matching = replay_chain(trace, 3).tokens_per_step
    drafts = generator.choice(WORDS, size=50_000, p=draft[0])
    agreeing = sum((drafts == np.array(text)).tolist()) / 50_000
    truth = 1 + sum((63 / 64) ** d for d in (1, 2, 3))  # sum of min(p, q) is 63/64
    assert replay_sampled(trace, 3).tokens_per_step == pytest.approx(truth, rel=2e-3)
    assert matching == pytest.approx(1 + sum(0.25**d for d in (1, 2, 3)), rel=0.02)
    assert agreeing == pytest.approx(0.25, abs=0.01)


def test_first_sibling_is_the_ratio_of_the_two_laws():
    text = drawn_text(500, 2)
    kept = accepted_probabilities(trace_of([text]), 4)
    before = [0, *text[:-1]]
    ratio = [min(1, DRAFT[a, b] / TARGET[a, b]) for a, b in zip(before, text, strict=True)]
    np.testing.assert_allclose(kept[:, 0], ratio, rtol=1e-6)
    assert np.all(kept >= 0) and np.all(kept.sum(axis=1) <= 1 + 1e-9)
    # all four words drafted without replacement: nothing is left that could be emitted otherwise
    np.testing.assert_allclose(kept.sum(axis=1), 1, rtol=1e-6)


def test_cold_drafts_are_the_deterministic_candidates():
    trace = trace_of([drawn_text(400, 4), drawn_text(300, 5)])
    for count in (0, 1, 4):
        assert replay_sampled(trace, count, draft_temperature=0).steps.tolist() == (
            replay_chain(trace, count).steps.tolist()
        )
    tree = TREES["uneven"]
    assert (
        replay_sampled(trace, tree, draft_temperature=0).steps.tolist()
        == replay_tree(trace, tree).steps.tolist()
    )


def test_longer_chains_and_more_siblings_never_need_more_steps_here():
    trace = trace_of([drawn_text(3000, 6)])
    steps = [replay_sampled(trace, count).steps[0] for count in range(6)]
    assert steps[0] == 3000 and all(b < a for a, b in itertools.pairwise(steps))
    wide = [
        replay_sampled(trace, Tree.from_paths([(k,) for k in range(n)])).steps[0]
        for n in range(1, 5)
    ]
    assert all(b < a for a, b in itertools.pairwise(wide))


@given(st.integers(0, 10_000), st.floats(0.2, 3.0))
def test_survival_never_increases_and_a_shorter_chain_is_its_beginning(seed, temperature):
    """Also: blocks keep at least what tokens keep, one of several chains is a block, the first
    sibling is a chain."""
    trace = trace_of([drawn_text(40, seed), drawn_text(7, seed + 1)])
    token, block = (
        survival(trace, 4, rule, draft_temperature=temperature)
        for rule in ("token_rejection", "block")
    )
    for found in (token, block):
        assert np.all(found >= 0) and np.all(found <= 1) and np.all(np.diff(found, axis=1) <= 1e-12)
    assert np.all(block >= token - 1e-12)
    for rule, whole in (("token_rejection", token), ("block", block), ("multi_path_block", block)):
        shorter = survival(trace, 2, rule, draft_temperature=temperature)
        np.testing.assert_allclose(shorter, whole[:, :2], rtol=1e-12)
    for rule in ("with_replacement", "without_replacement"):
        kept = accepted_probabilities(trace, 3, rule, draft_temperature=temperature)
        np.testing.assert_allclose(kept[:, 0], token[:, 0], rtol=1e-9)
        assert np.all(kept >= 0) and np.all(kept.sum(axis=1) <= 1 + 1e-9)


def test_what_a_recording_cannot_tell_is_refused():
    trace = trace_of([drawn_text(20, 8)])
    greedy = trace_of([drawn_text(20, 8)], temperature=0)
    with pytest.raises(InputError, match="greedy recording"):
        replay_sampled(greedy, 2)
    with pytest.raises(InputError, match="level 3"):
        replay_sampled(AcceptanceTrace(offsets=[0, 1], emitted=[1]), 1)
    with pytest.raises(InputError, match="without a gap"):
        replay_sampled(trace, Tree.from_paths([(1,)]))
    with pytest.raises(InputError, match="siblings"):
        replay_sampled(trace, Tree.from_paths([(k,) for k in range(WORDS + 1)]))
    with pytest.raises(InputError, match="draft_temperature"):
        replay_sampled(trace, 1, draft_temperature=-1.0)
    bound = AcceptanceTrace(
        **{
            name: getattr(trace, name)
            for name in (
                "provenance",
                "offsets",
                "rank_width",
                "draft_ids",
                "draft_probs",
                "target_probs",
                "emitted_target_prob",
                "residual_mass",
            )
        },
        rank=trace.rank[:, None],
        emitted=np.minimum(trace.emitted, 2),
    )
    assert replay_sampled(bound, 1).tokens_per_step > 1
    with pytest.raises(InputError, match="allow 1 draft level"):
        replay_sampled(bound, 2)
