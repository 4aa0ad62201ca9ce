"""Requests decoded together against the same requests one by one, token for token and step for
step."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.decoding import batch_speculative as module
from real_runs.decoding.batch_speculative import (
    BatchEarlyExit,
    batch_mask,
    per_request,
    speculate_batch,
)
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import speculate
from real_runs.decoding.tree import ancestors, tree_mask
from real_runs.decoding.tree_speculative import by_levels, speculate_tree
from real_runs.drafters.prompt_lookup import PromptLookup
from real_runs.drafters.suffix_automaton import SuffixAutomaton
from tests.property_examples import examples
from traces.kinds.tree import Tree, chain_tree

TREE = Tree.from_paths([(0,), (1,), (3,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 0, 2)])

batches = st.lists(
    st.tuples(st.lists(st.integers(1, 96), min_size=1, max_size=12), st.integers(1, 40)),
    min_size=1,
    max_size=5,
)


def samplers_of(batch, temperature):
    return [
        Sampler(temperature=temperature, seed=2, request=str(request), positions=limit)
        for request, (_, limit) in enumerate(batch)
    ]


def together(model, batch, propose, tree, temperature):
    return speculate_batch(
        model,
        [prompt for prompt, _ in batch],
        propose,
        samplers_of(batch, temperature),
        tree=tree,
        max_new_tokens=[limit for _, limit in batch],
    )


@settings(max_examples=examples(12))
@given(
    batches,
    st.sampled_from([0.0, 0.7]),
    st.integers(0, 6),
    st.sampled_from([PromptLookup, SuffixAutomaton]),
)
def test_chains_of_the_host_equal_requests_one_by_one(
    tiny_model, batch, temperature, draft_tokens, drafter
):
    runs = together(
        tiny_model,
        batch,
        per_request([drafter() for _ in batch]),
        chain_tree(draft_tokens),
        temperature,
    )
    samplers = samplers_of(batch, temperature)
    for (prompt, limit), sampler, run in zip(batch, samplers, runs, strict=True):
        alone = speculate(
            tiny_model, prompt, drafter(), sampler, draft_tokens=draft_tokens, max_new_tokens=limit
        )
        assert run == alone


@settings(max_examples=examples(12))
@given(batches, st.sampled_from([0.0, 0.7]), st.sampled_from([TREE, chain_tree(3), chain_tree(0)]))
def test_early_exit_trees_equal_requests_one_by_one(
    tiny_model, tiny_bridge, readers, batch, temperature, tree
):
    runs = together(tiny_model, batch, BatchEarlyExit(tiny_model, tiny_bridge), tree, temperature)
    alone = by_levels(readers["early exit"])
    samplers = samplers_of(batch, temperature)
    for (prompt, limit), sampler, run in zip(batch, samplers, runs, strict=True):
        assert run == speculate_tree(
            tiny_model, prompt, alone, sampler, tree=tree, max_new_tokens=limit
        )


RAGGED = [([5, 9], 30), ([4] * 11, 12), ([7, 3, 2, 8, 1], 40), ([6], 1)]


def test_batches_share_passes_accept_and_reject(tiny_model, tiny_bridge, monkeypatch):
    passes = []
    original = type(tiny_model).forward

    def counted(model, tokens, cache, **options):
        passes.append((cache.batch, options.get("stop_after")))
        return original(model, tokens, cache, **options)

    monkeypatch.setattr(type(tiny_model), "forward", counted)
    runs = together(tiny_model, RAGGED, BatchEarlyExit(tiny_model, tiny_bridge), TREE, 0.0)
    steps = [len(run.emitted) for run in runs]
    assert [batch for batch, layers in passes if layers is None] == [4] + [
        sum(count > step for count in steps) for step in range(max(steps))
    ]
    assert len([batch for batch, layers in passes if layers]) == max(steps) * (TREE.depth - 1)
    emitted = [count for run in runs for count in run.emitted]
    assert min(emitted) == 1
    assert max(emitted) > 1


@pytest.mark.parametrize("wrong", ["everything", "the longest row's text"])
def test_a_wrong_mask_changes_the_text(tiny_model, tiny_bridge, monkeypatch, wrong):
    right = together(tiny_model, RAGGED, BatchEarlyExit(tiny_model, tiny_bridge), TREE, 0.0)

    def mask(seen, lengths):
        if wrong == "everything":
            return torch.ones_like(batch_mask(seen, lengths))
        return batch_mask(seen, [max(lengths)] * len(lengths))

    monkeypatch.setattr(module, "batch_mask", mask)
    made = together(tiny_model, RAGGED, BatchEarlyExit(tiny_model, tiny_bridge), TREE, 0.0)
    assert [run.tokens for run in made] != [run.tokens for run in right]


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=4),
    st.lists(st.integers(0, 99), max_size=6).map(
        lambda ns: [-1, *(n % (i + 1) for i, n in enumerate(ns))]
    ),
)
def test_every_rows_mask_is_its_own_trees(lengths, parents):
    mask = batch_mask(torch.from_numpy(ancestors(parents)), lengths)
    for row, length in enumerate(lengths):
        own = length + len(parents)
        assert torch.equal(mask[row, :, :own], tree_mask(parents, length))
        assert not mask[row, :, own:].any()


@pytest.mark.parametrize(
    ("prompts", "samplers", "limits", "key"),
    [
        ([], 0, 4, "samplers"),
        ([[3]], 2, 4, "samplers"),
        ([[3]], 1, [4, 4], "max_new_tokens"),
        ([[]], 1, 4, "prompt"),
    ],
)
def test_batches_that_do_not_fit_are_refused(tiny_model, prompts, samplers, limits, key):
    given_samplers = [Sampler(temperature=0, seed=0, request="", positions=4)] * samplers
    with pytest.raises(InputError) as caught:
        speculate_batch(
            tiny_model,
            prompts,
            per_request([]),
            given_samplers,
            tree=chain_tree(2),
            max_new_tokens=limits,
        )
    assert caught.value.key == key


def test_host_chains_refuse_trees(tiny_model):
    with pytest.raises(InputError, match="chain"):
        together(tiny_model, RAGGED[:1], per_request([PromptLookup()]), TREE, 0.0)
