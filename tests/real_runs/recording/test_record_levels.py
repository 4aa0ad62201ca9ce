"""Recordings with probabilities and draft trees, of heads and models, and of a drafter that decodes
by itself."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from hardware_profiles.errors import InputError
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.drafters.registry import load_drafter
from real_runs.models.llama import Llama
from real_runs.models.loading.tokenizer import Tokenizer
from real_runs.models.loading.weights import find_model, load_weights
from real_runs.recording.options import RecordOptions
from real_runs.recording.record import record
from tests.real_runs.recording.two_prompts import PROMPTS
from traces.replay.dynamic import best_first, walk_policy
from traces.replay.sampled import accepted_probabilities, replay_sampled
from traces.replay.walk import replay_chain, step_starts
from traces.storage.acceptance_file import read_acceptance

TEMPERATURES = (0.0, 1.0)


@pytest.fixture(scope="module")
def options(tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("levels")
    (folder / "prompts.toml").write_text(PROMPTS)
    return RecordOptions(
        out=folder / "all",
        model=tiny_folder,
        prompts=folder / "prompts.toml",
        drafters=(
            "prompt-lookup",
            "layer-skip",
            "draft-model",
            "feature-head",
            "medusa-heads",
            "token-recycling",
        ),
        temperatures=TEMPERATURES,
        level=3,
        candidates=5,
        expansion_nodes=6,
        skip_bridge=False,
        draft_model=tiny_folder,
        recycling_nodes=9,
        head_steps=2,
        head_rows=4,
        head_row_tokens=24,
        max_new_tokens=20,
        threads=1,
    )


@pytest.fixture(scope="module")
def made(options):
    return {
        (file.drafter, file.temperature): read_acceptance(file.path)
        for file in record(options).files
    }


@pytest.fixture(scope="module")
def target(tiny_folder):
    source = find_model(tiny_folder)
    return Llama(load_weights(source)), Tokenizer(source.path)


def test_levels_and_limits(made):
    levels = {drafter: made[drafter, 1.0].level for drafter, _ in made}
    assert levels == {
        "prompt-lookup": 1,
        "layer-skip": 3,
        "draft-model": 3,
        "feature-head": 3,
        "medusa-heads": 3,
        "token-recycling": 1,
    }
    for (drafter, _), trace in made.items():
        if levels[drafter] == 3:
            assert trace.draft_ids.shape == (trace.positions, 5)
            assert (trace.expansions.nodes, trace.expansions.width) == (6, 10)
        else:
            assert trace.expansions is None


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_target_probabilities_are_those_of_its_own_logits(options, made, target, temperature):
    """At the recording's temperature, and at 1 where it was greedy."""
    model, tokenizer = target
    trace = made["layer-skip", temperature]
    for request, (name, text) in enumerate((("a", "abc abc abc"), ("b", PROMPTS.split('"')[-2]))):
        sampler = Sampler(temperature=temperature, seed=0, request=name, positions=20)
        run = generate(
            model, tokenizer.chat_ids(text), sampler, max_new_tokens=20, keep_logits=True
        )
        law = torch.softmax(run.logits.double() / (temperature or 1), dim=-1).numpy()
        rows = slice(*trace.offsets[request : request + 2])
        wanted = np.take_along_axis(law, trace.draft_ids[rows].astype(int), axis=1)
        np.testing.assert_allclose(trace.target_probs[rows], wanted, atol=1e-3)
        own = law[np.arange(len(run.tokens)), list(run.tokens)]
        np.testing.assert_allclose(trace.emitted_target_prob[rows], own, atol=1e-3)
        np.testing.assert_allclose(trace.residual_mass[rows], 1 - wanted.sum(axis=1), atol=1e-3)


def test_ranks_candidates_and_trees_tell_the_same(made):
    """The true token's rank is its place among the candidates, and the child of the root that is on
    the path."""
    for (_, temperature), trace in made.items():
        if trace.level < 3:
            continue
        rank = trace.rank if trace.rank.ndim == 1 else trace.rank[:, 0]
        assert np.all(np.diff(trace.draft_probs.astype(float), axis=1) <= 0)
        trees = trace.expansions
        position = np.repeat(np.arange(trace.positions), trees.sizes)
        first = trees.on_path & (trees.parents < 0)
        assert np.array_equal(trees.rank[first], rank[position[first]])
        seen = (rank >= 0) & (rank < 5)
        picked = np.take_along_axis(
            trace.target_probs, np.maximum(rank, 0)[:, None].clip(max=4), axis=1
        )[:, 0]
        assert np.array_equal(picked[seen], trace.emitted_target_prob[seen])
        assert 1 <= walk_policy(trace, best_first(4))[0].tokens_per_step <= 5
        if temperature:
            assert np.all(accepted_probabilities(trace, 2).sum(axis=1) <= 1 + 1e-6)
            assert 1 < replay_sampled(trace, 1).tokens_per_step < 2


def test_a_model_that_drafts_for_itself_is_always_right(made):
    trace = made["draft-model", 0.0]
    assert not trace.rank.any()
    assert trace.provenance.extra["parameters"]["sha256"]
    sampled = made["draft-model", 1.0]
    # what is outside the five likeliest is never drafted; of the rest all would be kept but for
    # that
    assert replay_sampled(sampled, 3).tokens_per_step > replay_chain(sampled, 3).tokens_per_step
    assert walk_policy(trace, best_first(5))[0].tokens_per_step > 1.5


def test_heads_are_kept_and_named(options, made):
    names = {path.name for path in options.out.glob("*.safetensors")}
    assert names == {"tiny-llama--feature-head.safetensors", "tiny-llama--medusa-heads.safetensors"}
    for drafter in ("feature-head", "medusa-heads"):
        trace = made[drafter, 0.0]
        assert not trace.depth_invariant and trace.rank.ndim == 2
        assert len(trace.provenance.extra["parameters"]["head_sha256"]) == 64


def test_traces_hold_what_the_entries_of_their_drafters_say(made):
    for (name, _), trace in made.items():
        records = load_drafter(name).records
        assert (trace.rank is not None) == (records != "lengths"), name
        assert (trace.draft_probs is not None) == (records == "probabilities"), name


def test_token_recycling_is_known_by_its_own_steps(options, made, target, tmp_path):
    from real_runs.drafters.entries.token_recycling import token_recycling_drafter

    model, tokenizer = target
    trace = made["token-recycling", 1.0]
    policy = trace.provenance.extra["policy_draft_tokens"]
    assert policy == 8
    for request, (name, text) in enumerate((("a", "abc abc abc"), ("b", PROMPTS.split('"')[-2]))):
        sampler = Sampler(temperature=1.0, seed=0, request=name, positions=20)
        run = token_recycling_drafter(model, 9).decode(tokenizer.chat_ids(text), sampler, 20)
        replay = replay_chain(trace.select([request]), policy)
        assert replay.steps.tolist() == [len(run.emitted)]
        assert replay.drafted_tokens.tolist() == [sum(run.drafted)]
        assert trace.extra_columns["ended"][request] == run.ended
    for ask in (lambda: replay_chain(trace, 3), lambda: step_starts(trace, 3)):
        with pytest.raises(InputError, match="drafted 8 tokens each"):
            ask()
    assert replay_chain(trace, 0).tokens_per_step == 1.0
    assert list(trace.provenance.extra["results"]["all"]["tokens_per_step"]) == ["8"]
    alone = replace(
        options, out=tmp_path, drafters=("token-recycling",), temperatures=(1.0,), level=2
    )
    again = read_acceptance(record(alone).files[0].path)
    assert np.array_equal(again.emitted, trace.emitted), "no request or drafter before it has a say"


def test_phases_are_timed(made):
    for (drafter, _), trace in made.items():
        columns = trace.extra_columns
        if drafter == "token-recycling":
            assert "prefill_wall_s" not in columns
            continue
        for request in range(trace.requests):
            parts = columns["prefill_wall_s"][request] + columns["decode_wall_s"][request]
            assert 0 < parts <= columns["wall_s"][request]
            assert columns["observe_wall_s"][request] > 0
            assert columns["observe_cpu_s"][request] >= 0


def test_a_draft_model_is_made_where_none_is_given(options, tmp_path):
    alone = replace(
        options, out=tmp_path, drafters=("draft-model",), temperatures=(0.0,), draft_model=None
    )
    trace = read_acceptance(record(alone).files[0].path)
    assert "trained on the target's own text" in trace.provenance.drafter
    assert trace.level == 3 and trace.rank.any()


def test_levels_out_of_range_are_refused(options):
    for changes in (
        {"level": 4},
        {"candidates": 9},
        {"expansion_nodes": -1},
        {"recycling_nodes": 0},
    ):
        with pytest.raises(InputError, match=next(iter(changes))):
            replace(options, **changes)
