"""A store of texts against a search by hand, lossless runs, and trees that replay the steps of a
run."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import speculate
from real_runs.drafters.retrieval import (
    RetrievedChain,
    TextStore,
    retrieved_arrays,
    speculate_retrieved,
)
from tests.property_examples import examples
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.dynamic import best_first, walk_policy
from traces.replay.walk import replay_chain

WORDS = st.lists(st.integers(0, 4), max_size=14)


def searched(texts, known, *, least, depth):
    """What follows the longest end of a text, by going through all places: path -> occurrences."""
    for length in range(min(16, len(known)), least - 1, -1):
        end = known[len(known) - length :]
        counts = {}
        for text in texts:
            for place in range(len(text) - length):
                if text[place : place + length] == end:
                    after = text[place + length : place + length + depth]
                    for stop in range(1, len(after) + 1):
                        path = tuple(after[:stop])
                        counts[path] = counts.get(path, 0) + 1
        if counts:
            return counts
    return {}


def paths(tree):
    """Path of every node."""
    found = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        found.append((*(found[parent] if parent >= 0 else ()), token))
    return found


@given(
    st.lists(WORDS, min_size=1, max_size=5),
    WORDS,
    st.integers(1, 3),
    st.integers(1, 30),
    st.integers(1, 5),
)
def test_retrieval_is_the_search_of_every_place(texts, known, least, nodes, depth):
    if not any(texts):
        return
    tree = TextStore(texts, least_match=least).retrieve(known, nodes=nodes, depth=depth)
    expected = searched(texts, known, least=least, depth=depth)
    assert len(tree.tokens) == min(nodes, len(expected))
    assert dict(zip(paths(tree), tree.counts, strict=True)).items() <= expected.items()
    assert sorted(tree.counts, reverse=True) == sorted(expected.values(), reverse=True)[:nodes]
    assert all(0 < share <= 1 for share in tree.shares())
    assert sorted(tree.counts, reverse=True) == list(tree.counts), (
        "parents and the most frequent come first"
    )


def text_of(model, prompt, *, temperature, length):
    sampler = Sampler(temperature=temperature, seed=2, request="r", positions=length)
    return sampler, generate(model, prompt, sampler, max_new_tokens=length)


@settings(max_examples=examples(6))
@given(
    st.lists(st.integers(1, 96), min_size=2, max_size=8),
    st.sampled_from([0.0, 0.7]),
    st.integers(1, 12),
    st.integers(1, 40),
)
def test_runs_are_lossless_and_trees_replay_their_steps(
    tiny_model, prompt, temperature, nodes, length
):
    texts = [
        [*prompt, *text_of(tiny_model, prompt, temperature=heat, length=40)[1].tokens]
        for heat in (0.0, 0.9)
    ]
    store = TextStore([*texts, [5] * 9], least_match=1)
    sampler, plain = text_of(tiny_model, prompt, temperature=temperature, length=length)
    run = speculate_retrieved(
        tiny_model, prompt, store, sampler, max_new_tokens=length, nodes=nodes, depth=4
    )
    assert (run.tokens, run.ended) == (plain.tokens, plain.ended)
    arrays = retrieved_arrays(store, prompt, plain.tokens, nodes=nodes, depth=4)
    trace = AcceptanceTrace(
        offsets=np.array([0, len(plain.tokens)]), first_step_position=1, **arrays
    )
    if run.emitted:
        replayed = walk_policy(trace, best_first(nodes))[0]
        assert replayed.steps.tolist() == [len(run.emitted)]
        assert replayed.drafted_tokens.tolist() == [sum(run.drafted)]
    for draft_tokens in (1, 3):
        chain = RetrievedChain(store)
        steps = speculate(
            tiny_model, prompt, chain, sampler, draft_tokens=draft_tokens, max_new_tokens=length
        )
        assert steps.tokens == plain.tokens
        wide = retrieved_arrays(store, prompt, plain.tokens)
        whole = AcceptanceTrace(
            offsets=np.array([0, len(plain.tokens)]), first_step_position=1, **wide
        )
        assert replay_chain(whole, draft_tokens).steps.tolist() == [len(steps.emitted)]


def test_a_store_that_holds_the_text_drafts_it(tiny_model):
    prompt = [3, 1, 4]
    sampler, plain = text_of(tiny_model, prompt, temperature=0.7, length=40)
    store = TextStore([[*prompt, *plain.tokens]])
    run = speculate_retrieved(tiny_model, prompt, store, sampler, max_new_tokens=40, depth=10)
    assert len(run.emitted) <= len(plain.tokens) // 5


def test_no_match_goes_over_the_end_of_a_text():
    store = TextStore([[1, 2], [3, 4]])
    assert store.retrieve([1, 2]).tokens == ()
    assert store.retrieve([2, 3]).tokens == ()
    assert len(store) == 4


@pytest.mark.parametrize(
    ("texts", "least"), [([], 1), ([[]], 1), ([[-1]], 1), ([[1]], 0), ([[1]], 17)]
)
def test_stores_without_tokens_and_matches_out_of_range_are_refused(texts, least):
    with pytest.raises(InputError):
        TextStore(texts, least_match=least)
