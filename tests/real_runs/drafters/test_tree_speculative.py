"""The tree loop against plain decoding, against replay of recorded ranks, and without each thing it
needs."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import real_runs.decoding.tree as module
from hardware_profiles.errors import InputError
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import speculate
from real_runs.decoding.tree_speculative import (
    EarlyExitReader,
    best_first,
    by_levels,
    speculate_tree,
)
from real_runs.drafters.bridge_fit import fit_bridge
from real_runs.drafters.early_exit import EarlyExit, chain_lengths, token_ranks
from real_runs.drafters.layer_skip import GapLlama, LayerSkip, fit_gap, text_ranks
from tests.property_examples import examples
from tests.real_runs.drafters.replayed import replayed_steps, run_beside_plain
from traces.kinds.tree import Tree, chain_tree

TREE = Tree.from_paths([(0,), (1,), (3,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 0, 2)])


@st.composite
def trees(draw):
    """Random trees of ranks below 6, in any topological order, sibling-closed or not."""
    parents, ranks = [-1], [0]
    for node in range(1, draw(st.integers(1, 12))):
        parent, rank = draw(st.integers(0, node - 1)), draw(st.integers(0, 5))
        if (parent, rank) not in zip(parents, ranks, strict=True):
            parents.append(parent if parent < len(parents) else 0)
            ranks.append(rank)
    places = dict.fromkeys(zip(parents[1:], ranks[1:], strict=True))
    if len(places) < len(parents) - 1:
        return TREE
    return Tree(parents=tuple(parents), ranks=tuple(ranks))


@pytest.fixture(scope="module")
def drafters(tiny_model):
    """Per drafter: a proposer for trees, one for chains, and ranks of a text."""
    generator = torch.Generator().manual_seed(8)
    sequences = torch.randint(0, 97, (30, 60), generator=generator).tolist()
    bridge = fit_bridge(tiny_model, sequences, exit_layer=3, ridge=1e-3)
    gapped = GapLlama(
        tiny_model,
        start=1,
        stop=2,
        bridge=fit_gap(tiny_model, sequences, start=1, stop=2, ridge=1e-3),
    )

    def exit_ranks(prompt, tokens):
        text = [*prompt, *tokens[:-1]]
        hidden = tiny_model.forward(text, tiny_model.new_cache(len(text)), capture=(3,)).hidden[3][
            0
        ]
        return token_ranks(tiny_model, bridge, hidden[len(prompt) - 1 :], tokens)

    return {
        "early exit": (
            by_levels(EarlyExitReader(tiny_model, bridge)),
            EarlyExit(tiny_model, bridge),
            exit_ranks,
        ),
        "layer skip": (
            by_levels(LayerSkip(gapped)),
            LayerSkip(gapped),
            lambda prompt, tokens: text_ranks(gapped, prompt, tokens),
        ),
    }


def run_and_told(model, drafter, prompt, tree, **options):
    """A real run, checked against plain decoding, and the steps that its ranks tell."""
    run, plain = run_beside_plain(model, drafter[0], prompt, tree, **options)
    ranks = drafter[2](prompt, plain.tokens)
    return run, replayed_steps(
        {"rank": ranks, "emitted": chain_lengths(ranks)}, tree, depth_invariant=True
    )


@pytest.mark.parametrize("name", ["early exit", "layer skip"])
@settings(max_examples=examples(8))
@given(
    st.lists(st.integers(1, 96), min_size=1, max_size=12),
    st.sampled_from([0.0, 0.7]),
    trees(),
    st.integers(1, 50),
)
def test_text_equals_plain_text_and_steps_equal_replay(
    tiny_model, drafters, name, prompt, temperature, tree, length
):
    run, told = run_and_told(
        tiny_model, drafters[name], prompt, tree, temperature=temperature, length=length
    )
    assert list(run.emitted) == told
    assert set(run.drafted) <= {tree.draft_tokens}


@pytest.mark.parametrize("name", ["early exit", "layer skip"])
def test_trees_accept_and_reject_and_beat_their_own_spine(tiny_model, drafters, name):
    """The agreement is no empty one; and in total more candidates take fewer steps."""
    steps = dict.fromkeys((TREE, chain_tree(3), chain_tree(0)), 0)
    tokens = 0
    for seed in range(1, 5):
        for shape in steps:
            run, told = run_and_told(tiny_model, drafters[name], [seed, 5, 9], shape)
            assert list(run.emitted) == told
            steps[shape] += len(run.emitted)
        tokens += sum(run.emitted)
    assert tokens == steps[chain_tree(0)] > steps[chain_tree(3)] > steps[TREE] > tokens / TREE.depth


@pytest.mark.parametrize("name", ["early exit", "layer skip"])
def test_chain_tree_equals_the_chain_loop(tiny_model, drafters, name):
    for seed in range(1, 4):
        sampler = Sampler(temperature=0, seed=0, request="", positions=40)
        tree_run = speculate_tree(
            tiny_model, [seed, 5], drafters[name][0], sampler, tree=chain_tree(4), max_new_tokens=40
        )
        chain_run = speculate(
            tiny_model, [seed, 5], drafters[name][1], sampler, draft_tokens=4, max_new_tokens=40
        )
        assert tree_run == chain_run


def flat_mask(parents, length):
    return torch.ones(len(parents), length + len(parents)).tril(length).bool()


def slot_positions(parents, length):
    return torch.arange(length, length + len(parents))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("tree_mask", flat_mask), ("tree_positions", slot_positions), ("compact", None)],
)
def test_wrong_mask_positions_or_compaction_change_the_text(
    tiny_model, drafters, monkeypatch, name, wrong
):
    """The negative controls: siblings that see each other, that stand in a row, or paths that are
    not moved."""
    if name == "compact":
        monkeypatch.setattr(
            "real_runs.models.cache.KVCache.compact", lambda cache, kept: cache.commit(len(kept))
        )
    else:
        monkeypatch.setattr(module, name, wrong)
    tree = Tree.from_paths([*((rank,) for rank in range(8)), *((rank, 0) for rank in range(8))])
    differing = 0
    for seed in range(1, 6):
        sampler = Sampler(temperature=0, seed=0, request="", positions=50)
        run = speculate_tree(
            tiny_model,
            [seed, 5, 9],
            drafters["layer skip"][0],
            sampler,
            tree=tree,
            max_new_tokens=50,
        )
        differing += (
            run.tokens != generate(tiny_model, [seed, 5, 9], sampler, max_new_tokens=50).tokens
        )
    assert differing > 0


def test_a_tree_is_laid_out_once_to_draft_and_once_to_verify_whatever_the_steps(
    tiny_model, drafters, monkeypatch
):
    built, original = [], module.tree_mask
    monkeypatch.setattr(module, "tree_mask", lambda *given: built.append(1) or original(*given))
    sampler = Sampler(temperature=0, seed=0, request="", positions=40)
    run = speculate_tree(
        tiny_model, [1, 5, 9], drafters["early exit"][0], sampler, tree=TREE, max_new_tokens=40
    )
    assert len(run.emitted) > 2 and len(built) == 2


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20), st.data())
def test_candidates_stand_as_a_stable_sort_puts_them(values, data):
    count = data.draw(st.integers(1, len(values)))
    expected = sorted(range(len(values)), key=lambda token: -values[token])[:count]
    assert best_first(torch.tensor(values, dtype=torch.float32), count) == expected


def test_ranks_beyond_the_vocabulary_are_refused(tiny_model, drafters):
    sampler = Sampler(temperature=0, seed=0, request="", positions=5)
    with pytest.raises(InputError, match="ranks"):
        speculate_tree(
            tiny_model,
            [4],
            drafters["early exit"][0],
            sampler,
            tree=Tree.from_paths([(97,)]),
            max_new_tokens=5,
        )


@pytest.mark.model
@pytest.mark.heavy
def test_shipped_model_drafts_trees_as_its_ranks_tell(shipped_model):
    """One real prompt, layers 12 to 19 of 30 left out; the bridge is fitted on little text."""
    from real_runs.drafters.heads.fit_data import help_topics

    model, tokenizer = shipped_model
    ids = [token for text in help_topics(3000) for token in tokenizer.ids(text)][:250]
    bridge = fit_gap(model, [ids], start=12, stop=20, ridge=0.1)
    gapped = GapLlama(model, start=12, stop=20, bridge=bridge)
    drafter = (
        by_levels(LayerSkip(gapped)),
        None,
        lambda prompt, tokens: text_ranks(gapped, prompt, tokens),
    )
    run, told = run_and_told(
        model, drafter, tokenizer.chat_ids("Name three primary colours."), TREE, length=14
    )
    assert list(run.emitted) == told
    assert len(run.emitted) < 13
