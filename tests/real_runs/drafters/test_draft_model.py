"""Draft models: real loops against replay, the folder that is written against the layers trained,
and refusals."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.decoding.tree_speculative import by_levels
from real_runs.drafters.draft_model import DraftModelReader, check_vocabulary, load_draft_model
from real_runs.drafters.entries.draft_model import observed_draft_model
from real_runs.drafters.heads.decoder_layer import embedded
from real_runs.drafters.heads.draft_model_fit import (
    DraftStack,
    fit_draft_model,
    hf_config,
    is_draft_model,
    save_draft_model,
)
from real_runs.drafters.heads.head_data import HeadText
from real_runs.drafters.heads.head_training import HeadRecipe, HeadTraining
from real_runs.models.config import LlamaConfig, RopeScaling, from_hf
from real_runs.models.llama import Llama
from tests.property_examples import examples
from tests.real_runs.drafters.replayed import replayed_steps, run_beside_plain
from tests.real_runs.random_weights import random_weights
from traces.kinds.tree import Tree, chain_tree

TREE = Tree.from_paths([(0,), (1,), (3,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 0, 2)])
TRAINING = HeadTraining(steps=30, rows=8, learning_rate=3e-3, vocabulary=97, others=0)
RECIPE = HeadRecipe(
    model_sha256="m",
    dtype="float32",
    kind="draft-model",
    shape={"layers": 2},
    training=TRAINING,
    data="d",
    data_sha256="s",
)


@pytest.fixture(scope="module")
def stack(tiny_model):
    tokens = torch.randint(1, 97, (24, 40), generator=torch.Generator().manual_seed(6))
    made = tiny_model.forward(tokens, tiny_model.new_cache(40, batch=24), capture=(4,))
    best, state = torch.softmax(made.logits, dim=-1).topk(16), made.hidden[4]
    text = HeadText(
        tokens=tokens,
        states={4: (state * torch.rsqrt(state.square().mean(-1, keepdim=True))).half()},
        likeliest=best.indices.int().clone(),
        probabilities=best.values.half().clone(),
    )
    losses = []
    made = fit_draft_model(
        tiny_model, text, TRAINING, layers=2, report=lambda *told: losses.append(told[2])
    )
    assert np.mean(losses[-5:]) < 0.9 * losses[0]
    return made


@pytest.fixture(scope="module")
def folder(tiny_model, stack, tmp_path_factory):
    place = tmp_path_factory.mktemp("drafts") / "tiny--draft-model"
    save_draft_model(tiny_model, stack, RECIPE, place)
    return place


@pytest.fixture(scope="module")
def draft(tiny_model, folder):
    return load_draft_model(folder, tiny_model)


def run_and_told(model, draft, prompt, tree, *, reader=None, **options):
    run, plain = run_beside_plain(
        model, by_levels(reader or DraftModelReader(draft)), prompt, tree, **options
    )
    arrays = observed_draft_model(draft, title="draft", parameters={}).observe(prompt, plain)
    return run, replayed_steps(arrays, tree, depth_invariant=True)


@settings(max_examples=examples(8))
@given(
    st.lists(st.integers(1, 96), min_size=1, max_size=10),
    st.sampled_from([0.0, 0.7]),
    st.sampled_from([TREE, chain_tree(1), chain_tree(6)]),
    st.integers(1, 45),
)
def test_real_loop_takes_the_steps_that_its_ranks_replay(
    tiny_model, draft, prompt, temperature, tree, length
):
    run, told = run_and_told(
        tiny_model, draft, prompt, tree, temperature=temperature, length=length
    )
    assert list(run.emitted) == told


def test_target_as_its_own_draft_is_always_right(tiny_model):
    run, told = run_and_told(tiny_model, tiny_model, [4, 5, 6], chain_tree(3))
    assert list(run.emitted) == told
    assert len(told) > 3
    assert set(told[:-1]) == {4}


def test_distilled_model_accepts_and_one_reader_serves_several_requests(tiny_model, draft):
    reader, steps, tokens = DraftModelReader(draft), 0, 0
    for prompt in ([4, 5, 6], [7], [4, 5, 7, 8], [4, 5, 6]):
        run, told = run_and_told(tiny_model, draft, prompt, TREE, reader=reader)
        assert list(run.emitted) == told
        steps, tokens = steps + len(run.emitted), tokens + sum(run.emitted)
    assert tokens > 1.1 * steps


def test_loaded_folder_computes_what_was_trained(tiny_model, stack, draft):
    tokens = torch.randint(1, 97, (1, 30), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        wanted = tiny_model.head(stack(embedded(tiny_model, tokens)))
    made = draft.forward(tokens, draft.new_cache(30)).logits
    torch.testing.assert_close(made, wanted, atol=0.05, rtol=0.02)
    assert (made.argmax(-1) == wanted.argmax(-1)).float().mean() > 0.9
    assert (draft.config.layers, tiny_model.config.layers) == (2, 4)


def test_folder_is_used_again_for_its_own_recipe_alone(folder, tmp_path):
    assert is_draft_model(folder, RECIPE)
    assert not is_draft_model(folder, replace(RECIPE, data_sha256="other"))
    assert not is_draft_model(folder, replace(RECIPE, training=replace(TRAINING, steps=31)))
    assert not is_draft_model(tmp_path, RECIPE)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"cut")
    assert not is_draft_model(tmp_path, RECIPE)


@pytest.mark.parametrize(
    "scaling",
    [RopeScaling(), RopeScaling(kind="linear", factor=2.0), RopeScaling(kind="llama3", factor=8.0)],
)
def test_written_configuration_reads_back(tiny_config, scaling):
    config = replace(
        tiny_config, rope_scaling=scaling, tied_head=False, rope_theta=5e5, max_positions=777
    )
    back = from_hf(json.loads(json.dumps(hf_config(config))))
    if scaling.kind == "default":
        config = replace(config, rope_scaling=back.rope_scaling)
        assert back.rope_scaling.kind == "default"
    if scaling.kind == "linear":
        config = replace(config, rope_scaling=back.rope_scaling)
        assert back.rope_scaling.factor == 2.0
    assert back == config


def test_other_vocabularies_and_ends_are_refused(tiny_model, tiny_config):
    def model(**changes):
        return Llama(random_weights(replace(tiny_config, layers=1, **changes)))

    check_vocabulary(tiny_model, model())
    check_vocabulary(tiny_model, model(eos_ids=()))
    with pytest.raises(InputError, match="vocabulary"):
        check_vocabulary(tiny_model, model(vocabulary=96))
    with pytest.raises(InputError, match="eos_ids"):
        check_vocabulary(tiny_model, model(eos_ids=(5,)))


@pytest.mark.parametrize("layers", [0, 4])
def test_drafts_as_deep_as_the_target_are_refused(tiny_model, layers):
    with pytest.raises(InputError, match="layers"):
        DraftStack(tiny_model, layers=layers)


def test_families_with_query_norms_are_refused():
    config = LlamaConfig(
        vocabulary=20,
        width=16,
        layers=3,
        heads=2,
        kv_heads=1,
        head_dim=8,
        ffn_width=16,
        qk_norm=True,
    )
    with pytest.raises(InputError, match="query norms"):
        DraftStack(Llama(random_weights(config)), layers=1)
