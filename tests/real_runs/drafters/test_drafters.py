"""Prompt lookup against a naive search, the early exit's ranks against a sort, and the bridge's
fit."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError, UnknownNameError
from real_runs.drafters.bridge_fit import FitRecipe, fit_bridge, load_bridge, save_bridge
from real_runs.drafters.early_exit import chain_lengths, token_ranks
from real_runs.drafters.heads.fit_data import FitData, help_topics, sampled_answers
from real_runs.drafters.prompt_lookup import PromptLookup, lookup_lengths
from real_runs.drafters.registry import check_drafters
from real_runs.models.bridge import Bridge, unit_rms
from real_runs.models.llama import Llama
from tests.real_runs.random_weights import random_weights

RECIPE = FitRecipe(
    model_sha256="m", dtype="float32", exit_layer=2, ridge=1e-6, data="random", data_sha256="d"
)
texts = st.lists(st.integers(0, 3), max_size=40)


def naive_proposal(known, sizes, most):
    """Search backwards for each n-gram in turn."""
    for size in sizes:
        tail = known[len(known) - size :]
        for start in range(len(known) - size - 1, -1, -1):
            if len(known) > size and known[start : start + size] == tail:
                return known[start + size : start + size + most]
    return []


@given(texts, texts, st.sampled_from([(3, 2, 1), (4, 2), (1,), (5,)]), st.integers(1, 20))
def test_lookup_equals_the_naive_search(prompt, output, sizes, most):
    made = lookup_lengths(prompt, output, sizes=sizes, most=most)
    for position in range(len(output)):
        drafts = naive_proposal(prompt + output[:position], sizes, most)
        left = len(output) - position
        run = 0
        while run < min(len(drafts), left) and drafts[run] == output[position + run]:
            run += 1
        assert made.drafted[position] == len(drafts)
        assert made.emitted[position] == min(run + 1, left)


@given(texts, st.integers(1, 10), st.integers(1, 10))
def test_a_shorter_limit_cuts_the_same_proposal(known, few, more):
    """What makes one recording serve every K."""
    index = PromptLookup()
    index.extend(known)
    longest = index.propose(max(few, more))
    assert index.propose(min(few, more)) == longest[: min(few, more)]


def test_the_most_recent_match_of_the_longest_ngram_wins():
    index = PromptLookup()
    index.extend([1, 2, 3, 10, 11, 1, 2, 3, 20, 21, 9, 2, 3, 30, 1, 2, 3])
    assert index.propose(2) == [20, 21]
    index.extend([99])
    assert index.propose(3) == []


def test_a_repeating_text_is_proposed_to_its_end_only():
    index = PromptLookup()
    index.extend([7, 7, 7, 7])
    assert index.propose(5) == [7]


@pytest.mark.parametrize("sizes", [(), (0,), (1, 2), (2, 2)])
def test_sizes_that_do_not_descend_are_refused(sizes):
    with pytest.raises(InputError, match="ngram_sizes"):
        PromptLookup(sizes)


@given(st.lists(st.integers(-1, 2), max_size=30))
def test_chain_lengths_count_the_run_of_rank_zero(ranks):
    made = chain_lengths(np.array(ranks, dtype=np.int8))
    for position in range(len(ranks)):
        run = 0
        while position + run < len(ranks) and ranks[position + run] == 0:
            run += 1
        assert made[position] == min(run + 1, len(ranks) - position)


def test_ranks_equal_a_stable_sort_of_the_candidates(tiny_model):
    generator = torch.Generator().manual_seed(1)
    bridge = Bridge(
        exit_layer=2, weight=torch.randn(32, 32, generator=generator), bias=torch.zeros(32)
    )
    hidden = torch.randn(300, 32, generator=generator)
    truth = torch.randint(0, 97, (300,), generator=generator).tolist()
    ranks = token_ranks(tiny_model, bridge, hidden, truth, width=16)
    order = torch.sort(tiny_model.head(bridge(hidden)), dim=1, descending=True, stable=True).indices
    for row, token in enumerate(truth):
        place = order[row].tolist().index(token)
        assert ranks[row] == (place if place < 16 else -1)
    assert {-1, 0} < set(ranks.tolist())


def test_equal_logits_rank_by_id(tiny_model):
    zero = Bridge(exit_layer=2, weight=torch.zeros(32, 32), bias=torch.zeros(32))
    ranks = token_ranks(tiny_model, zero, torch.ones(3, 32), [0, 5, 40])
    assert ranks.tolist() == [0, 5, -1]


def model_whose_last_layers_do_nothing(config):
    weights = random_weights(config, seed=3, scale=0.2)
    for name, tensor in weights.tensors.items():
        late = ".layers.2." in name or ".layers.3." in name
        if late and ("o_proj" in name or "down_proj" in name):
            tensor.zero_()
    return Llama(weights)


def test_bridge_recovers_an_exit_that_is_already_the_end(tiny_config):
    model = model_whose_last_layers_do_nothing(tiny_config)
    sequences = torch.randint(0, 97, (30, 60), generator=torch.Generator().manual_seed(8)).tolist()
    bridge = fit_bridge(model, sequences, exit_layer=2, ridge=1e-8)
    assert bridge.fit_tokens == 30 * 59
    torch.testing.assert_close(bridge.weight, torch.eye(32), atol=1e-3, rtol=0)
    states = model.forward(list(range(50)), model.new_cache(50), capture=(2,))
    best = states.logits[0].argmax(dim=-1).tolist()
    assert token_ranks(model, bridge, states.hidden[2][0], best).tolist() == [0] * 50


def test_bridge_beats_reading_the_exit_as_it_is(tiny_model):
    """On text it was not fitted on."""
    generator = torch.Generator().manual_seed(8)
    sequences = torch.randint(0, 97, (40, 60), generator=generator).tolist()
    bridge = fit_bridge(tiny_model, sequences[:30], exit_layer=2, ridge=1e-3)
    plain = Bridge(exit_layer=2, weight=torch.eye(32), bias=torch.zeros(32))
    hits = {"fitted": 0, "plain": 0}
    for text in sequences[30:]:
        made = tiny_model.forward(text, tiny_model.new_cache(60), capture=(2,))
        best = made.logits[0].argmax(dim=-1).tolist()
        for name, each in (("fitted", bridge), ("plain", plain)):
            hits[name] += int((token_ranks(tiny_model, each, made.hidden[2][0], best) == 0).sum())
    assert hits["fitted"] > 1.2 * hits["plain"]


def test_bridge_solves_the_ridge_equations(tiny_model):
    """The gradient of the stated objective vanishes."""
    sequences = torch.randint(0, 97, (6, 40), generator=torch.Generator().manual_seed(8)).tolist()
    bridge = fit_bridge(tiny_model, sequences, exit_layer=2, ridge=0.05)
    xs, ys = [], []
    for text in sequences:
        hidden = tiny_model.forward(
            text, tiny_model.new_cache(40), logits="none", capture=(2, 4)
        ).hidden
        xs.append(unit_rms(hidden[2][0, 1:]))
        ys.append(unit_rms(hidden[4][0, 1:]))
    x, y = torch.cat(xs).double(), torch.cat(ys).double()
    weight, bias = bridge.weight.double(), bridge.bias.double()
    residual = x @ weight.T + bias - y
    torch.testing.assert_close(residual.T @ x / len(x), -0.05 * weight, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(residual.mean(0), -0.05 * bias, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"exit_layer": 0}, "exit_layer"),
        ({"exit_layer": 4}, "exit_layer"),
        ({"ridge": 0.0}, "ridge"),
    ],
)
def test_fits_that_cannot_be_are_refused(tiny_model, changes, key):
    with pytest.raises(InputError, match=key):
        fit_bridge(tiny_model, [[1, 2, 3]], **{"exit_layer": 2, "ridge": 1.0, **changes})


def test_fits_without_data_are_refused(tiny_model):
    for sequences in ([], [[1]]):
        with pytest.raises(InputError, match="sequences"):
            fit_bridge(tiny_model, sequences, exit_layer=2, ridge=1.0)


def test_stored_bridge_comes_back_for_its_own_recipe_alone(tmp_path):
    from dataclasses import replace

    path = tmp_path / "bridge.safetensors"
    bridge = Bridge(exit_layer=2, weight=torch.randn(4, 4), bias=torch.randn(4), fit_tokens=77)
    assert load_bridge(path, RECIPE) is None
    save_bridge(bridge, RECIPE, path)
    back = load_bridge(path, RECIPE)
    assert torch.equal(back.weight, bridge.weight)
    assert torch.equal(back.bias, bridge.bias)
    assert (back.exit_layer, back.fit_tokens) == (2, 77)
    assert load_bridge(path, replace(RECIPE, ridge=2e-6)) is None
    path.write_bytes(path.read_bytes()[:-3])
    assert load_bridge(path, RECIPE) is None
    assert [each.name for each in tmp_path.iterdir()] == ["bridge.safetensors"]


def test_answers_are_seeded_cut_at_the_end_and_not_all_alike(tiny_model):
    def drawn(seed):
        return sampled_answers(
            tiny_model, [4, 5, 6], 6, torch.Generator().manual_seed(seed), tokens=30
        )

    answers = drawn(0)
    assert answers == drawn(0) != drawn(1)
    assert len({tuple(answer) for answer in answers}) > 1
    for answer in answers:
        assert 0 not in answer[:-1]
        assert len(answer) == 30 or answer[-1] == 0


def test_fit_data_is_named_and_digested():
    few = FitData(questions=("a?",), answers=2, help_characters=100, seed=0)
    assert "2 own answers to each of 1 questions" in few.title
    assert few.sha256 != FitData(questions=("a?",), answers=2, help_characters=100, seed=1).sha256
    assert few.sha256 != FitData(questions=("b?",), answers=2, help_characters=100, seed=0).sha256
    assert help_topics(0) == []
    assert sum(map(len, help_topics(5000))) >= 5000


def test_unknown_drafters_are_named():
    with pytest.raises(UnknownNameError, match="nearest: early-exit"):
        check_drafters(["prompt-lookup", "early-exist"])
