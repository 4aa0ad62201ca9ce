"""The table of successors against a plain dictionary, and runs: lossless, better when warm, told by
their walk."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import SpeculativeRun
from real_runs.decoding.tree_speculative import speculate_tree
from real_runs.drafters.token_recycling import TokenRecycling, default_tree, walked_trace
from traces.kinds.acceptance import Provenance
from traces.kinds.tree import Tree, chain_tree
from traces.replay.walk import replay_chain

TREE = Tree.from_paths([(0,), (1,), (2,), (0, 0), (0, 1), (1, 0), (0, 0, 0)])


@given(
    st.lists(st.lists(st.integers(0, 11), min_size=1, max_size=8), max_size=5), st.integers(0, 1000)
)
def test_table_keeps_the_last_answer_after_every_token(reads, seed):
    table, expected = TokenRecycling(12, candidates=3), {}
    generator = torch.Generator().manual_seed(seed)
    for tokens in reads:
        logits = torch.randn(len(tokens), 12, generator=generator)
        table.learn(tokens, logits)
        for token, row in zip(tokens, logits.tolist(), strict=True):
            expected[token] = sorted(range(12), key=lambda each: -row[each])[:3]
    for token in range(12):
        assert table.successors[token].tolist() == expected.get(token, [0, 0, 0])


def test_tree_is_filled_from_each_nodes_own_token():
    table = TokenRecycling(10, candidates=3)
    table.successors[1], table.successors[4], table.successors[7] = [4, 7, 2], [5, 1, 0], [9, 8, 3]
    #                                       root  0  1  2  00 01 10 000
    assert table([6, 1], None, TREE) == [1, 4, 7, 2, 5, 1, 9, 0]


def test_ranks_that_are_not_kept_are_refused(tiny_model):
    with pytest.raises(InputError, match="ranks"):
        TokenRecycling(97, candidates=2)([5], None, TREE)
    for candidates in (0, 98):
        with pytest.raises(InputError, match="candidates"):
            TokenRecycling(97, candidates=candidates)


def run_with(model, table, prompt, *, temperature=0.0, tree=TREE, length=60):
    sampler = Sampler(temperature=temperature, seed=2, request="r", positions=length)
    run = speculate_tree(model, prompt, table, sampler, tree=tree, max_new_tokens=length)
    assert run.tokens == generate(model, prompt, sampler, max_new_tokens=length).tokens
    return run


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_real_runs_are_lossless_and_recycling_helps(tiny_model, temperature):
    """The second time round the table knows the text: never does a run take more steps for it."""
    first = second = tokens = 0
    for seed in range(1, 6):
        table = TokenRecycling(97)
        first += len(run_with(tiny_model, table, [seed, 5, 9], temperature=temperature).emitted)
        again = run_with(tiny_model, table, [seed, 5, 9], temperature=temperature)
        second += len(again.emitted)
        tokens += len(again.tokens) - 1
    assert second < first < tokens


def test_prompt_is_learnt_before_the_first_step(tiny_model):
    table = TokenRecycling(97)
    prompt = [3, 14, 15, 92, 65]
    run_with(tiny_model, table, prompt, length=1)
    logits = tiny_model.forward(prompt, tiny_model.new_cache(8)).logits[0]
    for token, row in zip(prompt, logits, strict=True):
        assert table.successors[token].tolist() == row.topk(8).indices.tolist()
    assert np.count_nonzero(table.successors.any(axis=1)) == len(prompt)


def trace_of(*runs):
    return walked_trace(runs, Provenance(drafter="token recycling", notes="A test."))


def test_walk_replays_the_runs_it_was_taken_from(tiny_model):
    runs = [run_with(tiny_model, TokenRecycling(97), [seed, 5, 9]) for seed in range(1, 5)]
    trace = trace_of(*runs)
    replay = replay_chain(trace, TREE.draft_tokens)
    assert replay.steps.tolist() == [len(run.emitted) for run in runs]
    assert replay.drafted_tokens.tolist() == [sum(run.drafted) for run in runs]
    assert replay.tokens_per_step > 1
    assert "recorded tree alone" in trace.provenance.notes
    assert trace.provenance.notes.endswith("A test.")


def test_another_tree_takes_steps_that_the_walk_does_not_tell(tiny_model):
    """Why no recording of it is offered: what one tree's run leaves is not what another tree's run
    does."""
    told = real = 0
    for seed in range(1, 5):
        run = run_with(tiny_model, TokenRecycling(97), [seed, 5, 9])
        told += int(replay_chain(trace_of(run), 1).steps[0])
        real += len(
            run_with(tiny_model, TokenRecycling(97), [seed, 5, 9], tree=chain_tree(1)).emitted
        )
    assert told != real


def test_walk_of_a_text_without_steps():
    trace = trace_of(SpeculativeRun(tokens=(7,), ended="length", drafted=(), emitted=()))
    assert trace.emitted.tolist() == [1]
    assert trace.drafted.tolist() == [0]


def test_default_tree_has_eighty_nodes_of_eight_candidates():
    tree = default_tree()
    assert (tree.nodes, max(tree.ranks)) == (80, 7)
    assert tree.depth <= 7
    assert tree.is_sibling_closed
