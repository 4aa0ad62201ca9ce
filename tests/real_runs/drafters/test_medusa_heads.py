"""Medusa heads: real loops against replay, candidates by depth alone, the start by least squares,
and training."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings

from hardware_profiles.errors import InputError
from real_runs.decoding.dynamic_tree import DynamicPolicy, speculate_dynamic
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.tree_speculative import by_levels
from real_runs.drafters.entries.medusa_heads import MEDUSA_HEADS
from real_runs.drafters.heads.head_training import HeadTraining
from real_runs.drafters.heads.medusa_heads import MedusaHeads, MedusaReader, read_out
from real_runs.drafters.heads.state_heads_fit import fit_medusa_heads
from tests.property_examples import examples
from tests.real_runs.drafters.replayed import RUNS, run_and_told, tokens_per_step
from tests.real_runs.drafters.written import written_text


@pytest.fixture(scope="module")
def trained(tiny_model):
    training = HeadTraining(steps=80, rows=12, learning_rate=2e-3, vocabulary=97, others=0)
    losses = []
    text = written_text(tiny_model)
    heads = fit_medusa_heads(
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


@pytest.mark.parametrize("cost_ratio", [0.0, 0.05])
def test_a_block_of_heads_drafts_the_trees_of_level_after_level(tiny_model, trained, cost_ratio):
    """In one pass instead of one a level, with the same text and steps."""
    sampler = Sampler(temperature=0, seed=0, request="", positions=30)
    runs = [
        speculate_dynamic(
            tiny_model,
            [7, 5],
            MedusaReader(tiny_model, trained),
            sampler,
            policy=DynamicPolicy(
                order=order, draft_tokens=9, depth=3, width=4, cost_ratio=cost_ratio
            ),
            max_new_tokens=30,
        )
        for order in ("block", "levels")
    ]
    assert runs[0] == runs[1]
    assert runs[0].tokens == generate(tiny_model, [7, 5], sampler, max_new_tokens=30).tokens
    assert max(runs[0].drafted) <= 9 and (cost_ratio == 0.0 or min(runs[0].drafted) < 9)


def test_trained_heads_accept(tiny_model, trained):
    assert tokens_per_step(replays(tiny_model, trained)) > 1.05


def replays(model, heads):
    return partial(
        run_and_told,
        MEDUSA_HEADS.observed(model, heads, parameters={}),
        by_levels(MedusaReader(model, heads)),
        model,
    )


def test_candidates_follow_from_depth_alone(tiny_model, trained):
    """Whatever tokens the nodes hold, and whoever their parents are."""
    reader, cache = MedusaReader(tiny_model, trained), tiny_model.new_cache(20)
    made = tiny_model.forward([3, 9, 27], cache, capture=(4,))
    reader.watch([3, 9, 27], {4: made.hidden[4][0]}, [0, 1, 2])
    root = reader.after_prefix([3, 9, 27, 5], cache)
    positions, mask = torch.tensor([4, 4, 5]), torch.ones(3, 7, dtype=torch.bool)
    nodes = [
        reader.after_nodes(tokens, cache, start=4, positions=positions, mask=mask)
        for tokens in ([1, 2, 3], [9, 9, 9])
    ]
    assert torch.equal(nodes[0], nodes[1])
    torch.testing.assert_close(nodes[0][0], nodes[0][1])
    assert not torch.allclose(nodes[0][0], nodes[0][2])
    assert not torch.allclose(nodes[0][0], root)


def test_heads_start_as_least_squares_maps(tiny_model):
    """A rate that moves nothing leaves the closed form; its residual is orthogonal to its input but
    for the penalty."""
    text = written_text(tiny_model, rows=6)
    heads = fit_medusa_heads(tiny_model, text, HeadTraining(steps=1, learning_rate=1e-12), heads=2)
    for depth in range(2):
        x = torch.cat([row[1 : -(depth + 1)].float() for row in text.states[4]])
        y = torch.cat([row[depth + 2 :].float() for row in text.states[4]])
        weight = heads.across[depth]
        torch.testing.assert_close(
            (y - x @ weight.T).T @ x / len(x), 1e-3 * weight, atol=1e-4, rtol=1e-2
        )


def test_nodes_deeper_than_the_heads_know_nothing(tiny_model, trained):
    logits = read_out(tiny_model, trained, torch.ones(2, 32), [2, 3])
    assert logits[0].any()
    assert not logits[1].any()


def test_reader_that_was_shown_nothing_says_so(tiny_model, trained):
    with pytest.raises(InputError, match="states"):
        MedusaReader(tiny_model, trained).after_prefix([1, 2], tiny_model.new_cache(4))


@pytest.mark.parametrize("heads", [0, 33])
def test_numbers_of_heads_out_of_range_are_refused(tiny_config, heads):
    with pytest.raises(InputError, match="heads"):
        MedusaHeads(tiny_config, heads=heads)
