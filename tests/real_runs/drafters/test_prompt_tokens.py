"""Prompt tokens: real loops in which they ride against replay, gradients to them alone, and
training."""

import pytest
import torch
from hypothesis import given, settings

from hardware_profiles.errors import InputError
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.drafters.entries.ppd import PROMPT_TOKENS
from real_runs.drafters.heads.decoder_layer import frozen_layers
from real_runs.drafters.heads.prompt_tokens import PromptedLlama, PromptTokens, speculate_prompted
from real_runs.drafters.heads.prompt_tokens_fit import (
    PromptTraining,
    fit_prompt_tokens,
    states_behind,
)
from tests.property_examples import examples
from tests.real_runs.drafters.replayed import RUNS, replayed_steps
from tests.real_runs.drafters.written import written_text
from traces.kinds.tree import chain_tree


@pytest.fixture(scope="module")
def text(tiny_model):
    return written_text(tiny_model, rows=6)


@pytest.fixture(scope="module")
def trained(tiny_model, text):
    training = PromptTraining(
        steps=20, rows=6, places=100, learning_rate=2e-2, vocabulary=97, others=0
    )
    losses = []
    prompts = fit_prompt_tokens(
        tiny_model, text, training, report=lambda *told: losses.append(told[2])
    )
    assert losses[-1] < 0.99 * losses[0], "every step reads behind all places of all rows"
    return prompts


def run_and_told(model, prompts, prompt, tree, *, temperature=0.0, length=40):
    sampler = Sampler(temperature=temperature, seed=2, request="r", positions=length)
    run = speculate_prompted(model, prompt, prompts, sampler, tree=tree, max_new_tokens=length)
    plain = generate(model, prompt, sampler, max_new_tokens=length)
    assert (run.tokens, run.ended) == (plain.tokens, plain.ended)
    assert set(run.drafted) <= {tree.draft_tokens}
    arrays = PROMPT_TOKENS.observed(model, prompts, parameters={}).observe(prompt, plain)
    assert arrays["rank"].shape == (len(plain.tokens), prompts.count)
    return run, replayed_steps(arrays, tree)


@settings(max_examples=examples(8))
@given(**RUNS)
def test_real_loop_takes_the_steps_that_its_ranks_replay(
    tiny_model, trained, prompt, tree, temperature, length
):
    run, told = run_and_told(
        tiny_model, trained, prompt, tree, temperature=temperature, length=length
    )
    assert list(run.emitted) == told


def test_states_behind_a_text_are_those_of_the_text_with_prompt_tokens(tiny_model, trained):
    """Training's own pass against the target reading text and prompt tokens in a row."""
    row = [3, 14, 15, 92, 65, 35]
    cache = tiny_model.new_cache(len(row))
    tiny_model.forward(row, cache, logits="none")
    made = states_behind(frozen_layers(tiny_model), trained, cache, torch.tensor([1, 4]))
    prompted = PromptedLlama(tiny_model, trained)
    for place, states in zip((1, 4), made, strict=True):
        whole = [*row[: place + 1], *prompted.prompt_ids]
        read = prompted.forward(whole, prompted.new_cache(len(whole)), logits="none", capture=(4,))
        torch.testing.assert_close(states, read.hidden[4][0, place + 1 :], atol=2e-4, rtol=1e-4)


def test_no_weight_of_the_target_moves(tiny_model, text):
    before = [
        tensor.clone() for layer in frozen_layers(tiny_model) for tensor in layer.parameters()
    ]
    fit_prompt_tokens(tiny_model, text, PromptTraining(steps=2, vocabulary=97, others=0))
    after = [tensor for layer in frozen_layers(tiny_model) for tensor in layer.parameters()]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert not any(tensor.requires_grad for tensor in after)


def test_same_seed_same_prompt_tokens(tiny_model, text):
    training = PromptTraining(steps=3, vocabulary=97, others=8, seed=4)
    first, second = (fit_prompt_tokens(tiny_model, text, training) for _ in range(2))
    assert torch.equal(first.embeddings, second.embeddings)


def test_trees_deeper_than_the_prompt_tokens_are_refused(tiny_model, trained):
    sampler = Sampler(temperature=0, seed=0, request="", positions=4)
    with pytest.raises(InputError, match="levels"):
        speculate_prompted(tiny_model, [1], trained, sampler, tree=chain_tree(4), max_new_tokens=4)


@pytest.mark.parametrize("count", [0, 17])
def test_numbers_of_prompt_tokens_out_of_range_are_refused(count):
    with pytest.raises(InputError, match="prompt_tokens"):
        PromptTokens(8, count=count)
