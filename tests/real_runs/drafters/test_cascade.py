"""A draft model that is drafted for: its drafts stay, its passes become fewer, and its counts add
up."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import speculate
from real_runs.drafters.cascade import Cascade
from real_runs.drafters.early_exit import chain_lengths
from real_runs.drafters.layer_skip import GapLlama, LayerSkip, text_ranks
from real_runs.drafters.prompt_lookup import PromptLookup
from tests.property_examples import examples


@pytest.fixture(scope="module")
def drafter(tiny_model):
    return GapLlama(tiny_model, start=2, stop=3)


def runs(model, propose, prompt, *, draft_tokens, temperature=0.0, length=40):
    sampler = Sampler(temperature=temperature, seed=2, request="r", positions=length)
    run = speculate(
        model, prompt, propose, sampler, draft_tokens=draft_tokens, max_new_tokens=length
    )
    plain = generate(model, prompt, sampler, max_new_tokens=length)
    assert (run.tokens, run.ended) == (plain.tokens, plain.ended)
    return run


@settings(max_examples=examples(10))
@given(
    st.lists(st.integers(1, 96), min_size=1, max_size=10),
    st.sampled_from([0.0, 0.7]),
    st.integers(1, 6),
    st.integers(0, 4),
    st.integers(1, 40),
)
def test_steps_are_those_of_the_draft_model_alone(
    tiny_model, drafter, prompt, temperature, draft_tokens, inner, length
):
    given_ = {"draft_tokens": draft_tokens, "temperature": temperature, "length": length}
    cascade = Cascade(drafter, inner_tokens=inner)
    run = runs(tiny_model, cascade, prompt, **given_)
    alone = runs(tiny_model, LayerSkip(drafter), prompt, **given_)
    assert (run.emitted, run.drafted) == (alone.emitted, alone.drafted)
    counts = cascade.counts
    assert counts.drafted_tokens == sum(run.drafted)
    assert counts.draft_passes == counts.drafted_tokens - counts.accepted_tokens
    assert (
        counts.accepted_tokens
        <= counts.judged_tokens
        <= counts.accepted_tokens + counts.draft_passes
    )
    assert inner or not counts.judged_tokens
    emitted, walked = Cascade(drafter, inner_tokens=inner).walk(
        prompt, run.tokens, draft_tokens=draft_tokens
    )
    assert tuple(emitted) == run.emitted
    assert walked == counts


def test_recorded_ranks_tell_the_steps(tiny_model, drafter):
    run = runs(tiny_model, Cascade(drafter), [4, 9], draft_tokens=3)
    lengths = chain_lengths(text_ranks(drafter, [4, 9], run.tokens))
    position = 1
    for emitted in run.emitted:
        assert min(lengths[position], 4) == emitted
        position += emitted


def test_a_text_that_repeats_itself_takes_fewer_passes(tiny_model, drafter):
    cascade = Cascade(drafter)
    for seed in range(1, 5):
        runs(tiny_model, cascade, [seed, 5, 9] * 3, draft_tokens=6, length=60)
    counts = cascade.counts
    assert 0 < counts.accepted_tokens < counts.judged_tokens
    assert counts.draft_passes < counts.drafted_tokens


def test_walks_count_their_own_text_alone(drafter, tiny_model):
    cascade = Cascade(drafter)
    tokens = runs(tiny_model, LayerSkip(drafter), [4, 9], draft_tokens=3).tokens
    first = cascade.walk([4, 9], tokens, draft_tokens=3)
    assert cascade.walk([4, 9], tokens, draft_tokens=3) == first


def test_lookups_behind_drafts_are_made_in_the_known_text():
    lookup = PromptLookup((2, 1))
    lookup.extend([1, 2, 3, 1, 2, 4, 5])
    assert lookup.propose(2) == []
    assert lookup.propose(2, [1]) == [2, 4]
    assert lookup.propose(2, [1, 2]) == [4, 5]
    assert lookup.propose(2, [9]) == []
    assert lookup.length == 7


def test_negative_proposals_are_refused(drafter):
    with pytest.raises(InputError, match="inner_tokens"):
        Cascade(drafter, inner_tokens=-1)
