"""Hydra heads: real loops against replay, candidates by path, the start by least squares, and
training."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings

from hardware_profiles.errors import InputError
from real_runs.decoding.tree_speculative import by_levels
from real_runs.drafters.entries.hydra import HYDRA_HEADS
from real_runs.drafters.heads.decoder_layer import embedded
from real_runs.drafters.heads.head_training import HeadTraining
from real_runs.drafters.heads.hydra_heads import HydraHeads, HydraReader, fused, path_logits
from real_runs.drafters.heads.state_heads_fit import fit_hydra_heads
from tests.property_examples import examples
from tests.real_runs.drafters.replayed import RUNS, run_and_told, tokens_per_step
from tests.real_runs.drafters.written import written_text


@pytest.fixture(scope="module")
def text(tiny_model):
    return written_text(tiny_model)


@pytest.fixture(scope="module")
def trained(tiny_model, text):
    training = HeadTraining(steps=80, rows=12, learning_rate=2e-3, vocabulary=97, others=0)
    losses = []
    heads = fit_hydra_heads(
        tiny_model, text, training, heads=3, report=lambda *told: losses.append(told[2])
    )
    assert losses[-1] < losses[0], (
        "every step reads all rows: training improves on the least-squares start"
    )
    return heads


@settings(max_examples=examples(8))
@given(**RUNS)
def test_real_loop_takes_the_steps_that_its_ranks_replay(
    tiny_model, trained, prompt, tree, temperature, length
):
    run, told = replays(tiny_model, trained)(prompt, tree, temperature=temperature, length=length)
    assert list(run.emitted) == told


def test_trained_heads_accept(tiny_model, trained):
    assert tokens_per_step(replays(tiny_model, trained)) > 1.05


def replays(model, heads):
    return partial(
        run_and_told,
        HYDRA_HEADS.observed(model, heads, parameters={}),
        by_levels(HydraReader(model, heads)),
        model,
    )


def test_candidates_follow_from_the_whole_path(tiny_model, trained):
    """Other tokens on the path make other logits; siblings of one path share them."""
    state = torch.ones(3, 32)
    logits = path_logits(tiny_model, trained, state, [(5, 1), (5, 2), (5, 1)])
    torch.testing.assert_close(logits[0], logits[2])
    assert not torch.allclose(logits[0], logits[1])
    other = path_logits(tiny_model, trained, state[:1], [(6, 1)])
    assert not torch.allclose(logits[0], other[0])


def test_heads_start_as_least_squares_maps(tiny_model, text):
    """A rate that moves nothing leaves the closed form; its residual is orthogonal to its input but
    for the penalty."""
    heads = fit_hydra_heads(tiny_model, text, HeadTraining(steps=1, learning_rate=1e-12), heads=2)
    for depth in range(2):
        inputs, wanted = [], []
        for row, tokens in zip(text.states[4], text.tokens, strict=True):
            for at in range(1, len(row) - 1 - depth):
                after = embedded(tiny_model, tokens[at + 1 : at + 2 + depth])
                inputs.append(fused(row[at].float(), after))
                wanted.append(row[at + 1 + depth].float())
        x, y, weight = torch.stack(inputs), torch.stack(wanted), heads.fuse[depth]
        torch.testing.assert_close(
            (y - x @ weight.T).T @ x / len(x), 1e-3 * weight, atol=1e-4, rtol=1e-2
        )


def test_paths_longer_than_the_heads_have_no_children(tiny_model, trained):
    logits = path_logits(tiny_model, trained, torch.ones(2, 32), [(1, 2, 3), (1, 2, 3, 4)])
    assert logits[0].any()
    assert not logits[1].any()


def test_reader_that_was_shown_nothing_says_so(tiny_model, trained):
    with pytest.raises(InputError, match="states"):
        HydraReader(tiny_model, trained).after_prefix([1, 2], tiny_model.new_cache(4))


@pytest.mark.parametrize("heads", [0, 17])
def test_numbers_of_heads_out_of_range_are_refused(tiny_config, heads):
    with pytest.raises(InputError, match="heads"):
        HydraHeads(tiny_config, heads=heads)
