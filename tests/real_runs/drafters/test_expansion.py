"""Best-first trees against plain enumeration, ranks level by level against ranks of the text, and
limits."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.drafters.early_exit import token_ranks
from real_runs.drafters.expansion import (
    ExpansionLimits,
    LlamaReader,
    best_candidates,
    expansions,
    path_ranks,
    true_ranks,
)
from real_runs.drafters.layer_skip import GapLlama, text_ranks
from real_runs.models.bridge import Bridge
from tests.property_examples import examples

PROMPT = [4, 9, 17]


@pytest.fixture(scope="module")
def output(tiny_model):
    sampler = Sampler(temperature=0, seed=0, request="", positions=24)
    return list(generate(tiny_model, PROMPT, sampler, max_new_tokens=24).tokens)


@pytest.fixture(scope="module")
def skipping(tiny_model):
    return GapLlama(tiny_model, start=1, stop=2)


def probabilities(model, text):
    """The distribution after a text, read from scratch."""
    return torch.softmax(
        model.forward(text, model.new_cache(len(text)), logits="last").logits[0, 0], dim=-1
    )


def enumerated(model, text, *, nodes, depth, width):
    """Every path of ranks within the limits with its probability, likeliest first, cut to the
    tree's size."""
    found = []
    for levels in range(1, depth + 1):
        for path in itertools.product(range(width), repeat=levels):
            known, total = list(text), 1.0
            for rank in path:
                best = probabilities(model, known).topk(width)
                total *= float(best.values[rank])
                known.append(int(best.indices[rank]))
            found.append((total, path, tuple(known[len(text) :])))
    return sorted(found, reverse=True)[:nodes]


def paths_of(trees, position):
    """Rank path -> (probability along it, whether it spells the text) of one position's tree."""
    rows = slice(trees.offsets[position], trees.offsets[position + 1])
    paths, totals, made = [], [], {}
    for parent, rank, own, true in zip(
        trees.parents[rows],
        trees.rank[rows],
        trees.draft_prob[rows],
        trees.on_path[rows],
        strict=True,
    ):
        paths.append((*(paths[parent] if parent >= 0 else ()), int(rank)))
        totals.append((totals[parent] if parent >= 0 else 1.0) * float(own))
        made[paths[-1]] = (totals[-1], bool(true))
    return made


def test_trees_are_the_likeliest_of_all_and_spell_the_text_where_they_say_so(
    tiny_model, skipping, output
):
    limits = {"nodes": 9, "depth": 3, "width": 3}
    trees, _ = expansions(LlamaReader(skipping), PROMPT, output[:12], ExpansionLimits(**limits))
    on_path = 0
    for position in (0, 1, 5, 10, 11):
        wanted = enumerated(skipping, [*PROMPT, *output[:position]], **limits)
        made = paths_of(trees, position)
        assert set(made) == {path for _, path, _ in wanted}
        for total, path, tokens in wanted:
            assert made[path][0] == pytest.approx(total, rel=5e-3)
            assert made[path][1] == (list(tokens) == output[:12][position : position + len(tokens)])
            on_path += made[path][1]
    assert on_path > 0
    assert (trees.nodes, trees.depth, trees.width) == (9, 3, 3)


@settings(max_examples=examples(6))
@given(st.integers(1, 20), st.integers(1, 4), st.integers(1, 6))
def test_a_smaller_budget_keeps_the_first_nodes_of_a_larger_one(
    skipping, output, nodes, depth, width
):
    """What lets one recording answer for every smaller tree."""
    reader = LlamaReader(skipping)
    few, _ = expansions(
        reader, PROMPT, output[:6], ExpansionLimits(nodes=nodes, depth=depth, width=width)
    )
    many, _ = expansions(
        reader, PROMPT, output[:6], ExpansionLimits(nodes=nodes + 7, depth=depth, width=width)
    )
    for position in range(6):
        kept = paths_of(few, position)
        assert list(paths_of(many, position))[: len(kept)] == list(kept)
        assert len(kept) <= nodes


def test_trees_do_not_depend_on_those_grown_beside_them(skipping, output):
    """Positions are grown in groups; the later ones of a text come out as if they were alone."""
    limits = ExpansionLimits(nodes=6, depth=3, width=4)
    whole, _ = expansions(LlamaReader(skipping), PROMPT, output, limits)
    text = [*PROMPT, *output]
    for position in (3, 16, 20):
        alone, _ = expansions(
            LlamaReader(skipping), text[: 3 + position], output[position:], limits
        )
        assert list(paths_of(alone, 0)) == list(paths_of(whole, position))


def test_ranks_by_level_of_a_drafter_that_reads_true_tokens_are_those_of_the_text(
    tiny_model, skipping, output
):
    """Depth invariance, found without being built in: level d at position i is level 0 at position
    i + d."""
    bridge = Bridge(exit_layer=2, weight=torch.eye(32), bias=torch.zeros(32))
    hidden = tiny_model.forward(
        [*PROMPT, *output[:-1]], tiny_model.new_cache(40), capture=(2,)
    ).hidden[2][0]
    for reader, known in (
        (LlamaReader(skipping), text_ranks(skipping, PROMPT, output)),
        (
            LlamaReader(tiny_model, bridge),
            token_ranks(tiny_model, bridge, hidden[len(PROMPT) - 1 :], output),
        ),
    ):
        ranks, logits = path_ranks(reader, PROMPT, output, depth=5)
        assert true_ranks(logits, output).tolist() == known.tolist()
        n = len(output)
        for level in range(5):
            assert ranks[: n - level, level].tolist() == known[level:].tolist()
            assert (ranks[n - level :, level] == -1).all()
    assert (known == 0).any()
    assert (known != 0).any()


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6), min_size=1, max_size=5),
    st.integers(1, 6),
)
def test_candidates_and_ranks_stand_as_a_stable_sort_puts_them(rows, width):
    logits = torch.tensor(rows, dtype=torch.float32)
    ids, chances = best_candidates(logits, width)
    every = best_candidates(logits, 6)[0]
    for row, values in enumerate(rows):
        order = sorted(range(6), key=lambda token: -values[token])
        assert every[row].tolist() == order
        assert [values[token] for token in ids[row]] == [values[token] for token in order[:width]]
        for token in range(6):
            rank = true_ranks(logits[row : row + 1], [token], width=width)[0]
            assert rank == (order.index(token) if order.index(token) < width else -1)
    np.testing.assert_allclose(
        chances, torch.softmax(logits, -1).gather(1, torch.tensor(ids).long()), rtol=1e-5
    )


@pytest.mark.parametrize("key", ["nodes", "depth", "width"])
def test_limits_of_nothing_are_refused(key):
    with pytest.raises(InputError, match=key):
        ExpansionLimits(**{key: 0})
