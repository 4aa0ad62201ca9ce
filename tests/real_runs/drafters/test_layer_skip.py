"""Skipping layers against a model built without them, its own cache, and its ranks against the real
loop."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import speculate
from real_runs.drafters.early_exit import chain_lengths
from real_runs.drafters.layer_skip import GapLlama, LayerSkip, default_gap, fit_gap, text_ranks
from real_runs.models.bridge import Bridge
from real_runs.models.llama import Llama
from real_runs.models.loading.weights import LoadedWeights
from tests.property_examples import examples
from tests.real_runs.random_weights import random_weights
from traces.kinds.acceptance import AcceptanceTrace
from traces.replay.walk import replay_chain, step_starts

TEXT = [3, 9, 27, 81, 49, 50, 53, 62, 89, 73, 25, 75, 31]


def random_texts(count, length):
    return torch.randint(
        0, 97, (count, length), generator=torch.Generator().manual_seed(8)
    ).tolist()


@pytest.fixture(scope="module")
def bridged(tiny_model):
    bridge = fit_gap(tiny_model, random_texts(30, 60), start=1, stop=2, ridge=1e-3)
    return GapLlama(tiny_model, start=1, stop=2, bridge=bridge)


def without_layers(weights, start, stop):
    """The same weights with a span of layers taken out of the file, so to speak."""
    from dataclasses import replace

    kept = [*range(start), *range(stop, weights.config.layers)]
    tensors = {name: value for name, value in weights.tensors.items() if ".layers." not in name}
    for new, old in enumerate(kept):
        at = f"model.layers.{old}."
        tensors |= {
            name.replace(at, f"model.layers.{new}."): value
            for name, value in weights.tensors.items()
            if name.startswith(at)
        }
    return LoadedWeights(
        config=replace(weights.config, layers=len(kept)), tensors=tensors, sha256=""
    )


@pytest.mark.parametrize("gap", [(1, 2), (1, 3), (2, 3)])
def test_unbridged_gap_equals_a_model_without_those_layers(tiny_config, gap):
    weights = random_weights(tiny_config, seed=3, scale=0.2)
    gapped = GapLlama(Llama(weights), start=gap[0], stop=gap[1])
    built = Llama(without_layers(weights, *gap))
    made = [model.forward(TEXT, model.new_cache(len(TEXT))).logits for model in (gapped, built)]
    assert torch.equal(made[0], made[1])


def test_making_a_drafter_leaves_the_target_as_it_was(tiny_config):
    weights = random_weights(tiny_config, seed=3, scale=0.2)
    model, untouched = Llama(weights), Llama(weights)
    gapped = GapLlama(
        model,
        start=1,
        stop=3,
        bridge=Bridge(exit_layer=1, weight=torch.eye(32), bias=torch.zeros(32)),
    )
    fit_gap(model, random_texts(2, 20), start=1, stop=3, ridge=1.0)
    gapped.forward(TEXT, gapped.new_cache(20))
    made = [each.forward(TEXT, each.new_cache(20)).logits for each in (model, untouched)]
    assert torch.equal(made[0], made[1])
    assert model.config.layers == 4


def test_first_token_crosses_as_it_is_whatever_the_bridge(tiny_model):
    """Its logits do not depend on the bridge; those of the second token do."""
    bridges = [
        Bridge(exit_layer=1, weight=scale * torch.eye(32), bias=torch.zeros(32))
        for scale in (1.0, -3.0)
    ]
    made = []
    for bridge in (None, *bridges):
        model = GapLlama(tiny_model, start=1, stop=2, bridge=bridge)
        made.append(model.forward(TEXT, model.new_cache(20)).logits[0])
    assert torch.equal(made[0][0], made[1][0])
    assert torch.equal(made[0][0], made[2][0])
    assert not torch.allclose(made[1][1], made[2][1])


def test_bridge_recovers_a_gap_that_does_nothing(tiny_config):
    """Direction by the identity, size by its mean: the drafter's states are the target's, each at
    the usual size."""
    weights = random_weights(tiny_config, seed=3, scale=0.2)
    for name, tensor in weights.tensors.items():
        if ".layers.1." in name and ("o_proj" in name or "down_proj" in name):
            tensor.zero_()
    model, texts = Llama(weights), random_texts(16, 60)
    bridge = fit_gap(model, texts, start=1, stop=2, ridge=1e-9)
    size = float(torch.diagonal(bridge.weight).mean())
    torch.testing.assert_close(bridge.weight, size * torch.eye(32), atol=2e-3 * size, rtol=0)
    states = torch.cat(
        [model.forward(each, model.new_cache(60), capture=(2,)).hidden[2][0, 1:] for each in texts]
    )
    assert size == pytest.approx(float(states.square().mean(-1).sqrt().mean()), rel=1e-3)


def test_bridge_beats_crossing_the_gap_as_it_is(tiny_model):
    """On text it was not fitted on: the target's own choice is ranked first more often."""
    texts = random_texts(40, 60)
    bridge = fit_gap(tiny_model, texts[:30], start=1, stop=3, ridge=1e-3)
    hits = []
    for each in (None, bridge):
        drafter = GapLlama(tiny_model, start=1, stop=3, bridge=each)
        made = [
            [m.forward(t, m.new_cache(60)).logits[0].argmax(-1) for m in (tiny_model, drafter)]
            for t in texts[30:]
        ]
        hits.append(sum(int((a == b).sum()) for a, b in made))
    assert hits[1] > 1.2 * hits[0]


def test_ranks_equal_a_stable_sort_of_single_token_passes(bridged):
    """Read one token at a time, as a real drafter does, with its own cache."""
    prompt, output = TEXT[:4], TEXT[4:]
    ranks = text_ranks(bridged, prompt, output, width=16)
    cache = bridged.new_cache(40)
    for position, token in enumerate(TEXT[:-1]):
        logits = bridged.forward([token], cache).logits[0, 0]
        cache.commit(1)
        if position >= 3:
            order = logits.sort(descending=True, stable=True).indices.tolist()
            place = order.index(TEXT[position + 1])
            assert ranks[position - 3] == (place if place < 16 else -1)


def test_equal_logits_rank_by_id(tiny_config):
    from dataclasses import replace

    weights = random_weights(replace(tiny_config, tied_head=False), seed=3)
    weights.tensors["lm_head.weight"].zero_()
    drafter = GapLlama(Llama(weights), start=1, stop=2)
    assert text_ranks(drafter, [5], [0, 5, 15, 16, 40]).tolist() == [0, 5, 15, -1, -1]


def recorded(drafter, prompt, tokens):
    rank = text_ranks(drafter, prompt, tokens)
    return AcceptanceTrace(
        offsets=np.array([0, len(tokens)]),
        first_step_position=1,
        emitted=chain_lengths(rank),
        rank=rank,
        rank_width=16,
        depth_invariant=True,
    )


@settings(max_examples=examples(8))
@given(
    st.lists(st.integers(1, 96), min_size=1, max_size=15),
    st.sampled_from([0.0, 0.7]),
    st.integers(1, 8),
    st.booleans(),
)
def test_real_loop_takes_the_steps_that_depth_invariant_ranks_replay(
    tiny_model, bridged, prompt, temperature, draft_tokens, with_bridge
):
    drafter = bridged if with_bridge else GapLlama(tiny_model, start=1, stop=2)
    sampler = Sampler(temperature=temperature, seed=2, request="r", positions=40)
    made = generate(tiny_model, prompt, sampler, max_new_tokens=40)
    run = speculate(
        tiny_model,
        prompt,
        LayerSkip(drafter),
        sampler,
        draft_tokens=draft_tokens,
        max_new_tokens=40,
    )
    assert run.tokens == made.tokens
    trace = recorded(drafter, prompt, made.tokens)
    starts = np.append(step_starts(trace, draft_tokens), len(made.tokens))
    assert np.diff(starts).tolist() == list(run.emitted)
    assert replay_chain(trace, draft_tokens).steps.tolist() == [len(run.emitted)]


class SharedCache(LayerSkip):
    """The drafter that is not depth invariant: it takes over the target's keys and values of the
    verified text."""

    def after_prefix(self, known, cache):
        if cache is not self._request:
            super().after_prefix(known, cache)
        layers = [0, *range(2, 4)]
        self._own.keys[:, :, :, : cache.length] = cache.keys[layers, :, :, : cache.length]
        self._own.values[:, :, :, : cache.length] = cache.values[layers, :, :, : cache.length]
        self._own.length = cache.length
        return super().after_prefix(known, cache)


def test_sharing_the_targets_cache_would_not_be_depth_invariant(tiny_model, bridged):
    """The negative control: the text is the same, the steps are not those of the ranks."""
    differing = {LayerSkip: 0, SharedCache: 0}
    for seed in range(1, 6):
        prompt = [seed, 5, 9]
        sampler = Sampler(temperature=0, seed=0, request="", positions=40)
        for kind in differing:
            run = speculate(
                tiny_model, prompt, kind(bridged), sampler, draft_tokens=4, max_new_tokens=40
            )
            starts = np.append(
                step_starts(recorded(bridged, prompt, run.tokens), 4), len(run.tokens)
            )
            differing[kind] += np.diff(starts).tolist() != list(run.emitted)
    assert differing[LayerSkip] == 0
    assert differing[SharedCache] > 0


def test_one_drafter_serves_several_requests(tiny_model, bridged):
    sampler = Sampler(temperature=0, seed=0, request="", positions=30)
    drafter = LayerSkip(bridged)

    def run(propose, prompt):
        return speculate(tiny_model, prompt, propose, sampler, draft_tokens=3, max_new_tokens=30)

    for prompt in ([4, 5, 6], [4, 5, 7, 8], [4, 5, 6]):
        assert run(drafter, prompt) == run(LayerSkip(bridged), prompt)


@pytest.mark.parametrize("gap", [(0, 2), (2, 2), (3, 2), (2, 4)])
def test_spans_that_reach_an_end_are_refused(tiny_model, gap):
    with pytest.raises(InputError, match="skipped_layers"):
        GapLlama(tiny_model, start=gap[0], stop=gap[1])
    with pytest.raises(InputError, match="skipped_layers"):
        fit_gap(tiny_model, [[1, 2]], start=gap[0], stop=gap[1], ridge=1.0)


@given(st.integers(3, 200))
def test_default_gap_fits_every_model_of_three_layers_or_more(layers):
    start, stop = default_gap(layers)
    assert 1 <= start < stop < layers


def test_default_gap_of_thirty_layers():
    assert default_gap(30) == (12, 20)
