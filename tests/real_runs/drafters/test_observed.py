"""What observed drafters hand to a recording: ranks, candidates, probabilities and trees that
agree."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.drafters.early_exit import chain_lengths, token_ranks
from real_runs.drafters.entries.draft_model import observed_draft_model
from real_runs.drafters.entries.early_exit import observed_early_exit
from real_runs.drafters.entries.feature_head import FEATURE_HEAD
from real_runs.drafters.entries.layer_skip import observed_layer_skip
from real_runs.drafters.entries.medusa_heads import MEDUSA_HEADS
from real_runs.drafters.expansion import ExpansionLimits
from real_runs.drafters.heads.feature_head import FeatureHead
from real_runs.drafters.heads.medusa_heads import MedusaHeads
from real_runs.drafters.layer_skip import GapLlama, text_ranks
from real_runs.drafters.observed import started_lengths
from real_runs.drafters.registry import load_drafter
from real_runs.models.bridge import Bridge

LIMITS = ExpansionLimits(nodes=10, depth=3, width=4)
PROMPT = [4, 9]


@pytest.fixture(scope="module")
def made(tiny_model):
    sampler = Sampler(temperature=0, seed=0, request="", positions=25)
    return generate(tiny_model, PROMPT, sampler, max_new_tokens=25, capture_layer=2)


@pytest.fixture(scope="module")
def bridge():
    return Bridge(exit_layer=2, weight=torch.eye(32), bias=torch.zeros(32))


@pytest.fixture(scope="module")
def drafters(tiny_model, tiny_config, bridge):
    def makers(limits):
        given = {"parameters": {"made": "for a test"}, "limits": limits}
        return {
            "early-exit": observed_early_exit(tiny_model, bridge, **given),
            "layer-skip": observed_layer_skip(tiny_model, (1, 2), None, **given),
            "draft-model": observed_draft_model(tiny_model, title="itself", **given),
            "feature-head": FEATURE_HEAD.observed(
                tiny_model,
                FeatureHead(
                    tiny_config, capture=(2, 4), generator=torch.Generator().manual_seed(5)
                ),
                **given,
            ),
            "medusa-heads": MEDUSA_HEADS.observed(
                tiny_model, MedusaHeads(tiny_config, heads=4), **given
            ),
        }

    return makers


NAMES = ["early-exit", "layer-skip", "draft-model", "feature-head", "medusa-heads"]


@pytest.mark.parametrize("name", NAMES)
def test_arrays_agree_with_one_another(drafters, made, name):
    drafter, plain = drafters(LIMITS)[name], drafters(None)[name]
    arrays, n = drafter.observe(PROMPT, made), len(made.tokens)
    assert load_drafter(name).records == "probabilities"
    assert drafter.parameters["made"] == "for a test"
    assert set(arrays) == {"emitted", "rank", "draft_ids", "draft_probs", "expansions"}
    without = plain.observe(PROMPT, made)
    assert set(without) == set(arrays) - {"expansions"}
    for key, values in without.items():
        np.testing.assert_array_equal(values, arrays[key])
    first = arrays["rank"] if drafter.trace_fields["depth_invariant"] else arrays["rank"][:, 0]
    assert (arrays["draft_ids"].shape, arrays["draft_ids"].dtype) == ((n, 8), np.int32)
    assert (arrays["draft_probs"].shape, arrays["draft_probs"].dtype) == ((n, 8), np.float16)
    assert (np.diff(arrays["draft_probs"].astype(float), axis=1) <= 0).all()
    for position, token in enumerate(made.tokens):
        ids = arrays["draft_ids"][position].tolist()
        assert first[position] == (ids.index(token) if token in ids else first[position])
        assert (token in ids) == (0 <= first[position] < 8)
    trees = arrays["expansions"]
    assert trees.positions == n
    roots = trees.parents == -1
    owner = np.repeat(np.arange(n), trees.sizes)
    named = arrays["draft_probs"][owner[roots], trees.rank[roots]]
    np.testing.assert_array_equal(trees.draft_prob[roots], named)


def test_early_exit_and_layer_skip_rank_as_they_do_without_trees(
    tiny_model, drafters, bridge, made
):
    every = drafters(None)
    exits = every["early-exit"].observe(PROMPT, made)
    assert (
        exits["rank"].tolist() == token_ranks(tiny_model, bridge, made.hidden, made.tokens).tolist()
    )
    assert exits["emitted"].tolist() == chain_lengths(exits["rank"]).tolist()
    skips = every["layer-skip"].observe(PROMPT, made)["rank"]
    assert (
        skips.tolist()
        == text_ranks(GapLlama(tiny_model, start=1, stop=2), PROMPT, made.tokens).tolist()
    )


def test_target_as_its_own_draft_ranks_every_greedy_token_first(drafters, made):
    arrays = drafters(LIMITS)["draft-model"].observe(PROMPT, made)
    assert not arrays["rank"].any()
    trees, n = arrays["expansions"], len(made.tokens)
    first_level = trees.on_path & (trees.parents == -1)
    assert first_level.sum() == n
    assert not trees.rank[trees.on_path].any()


@given(st.lists(st.lists(st.integers(-1, 2), min_size=3, max_size=3), min_size=1, max_size=8))
def test_lengths_count_leading_zeros_of_a_start(rows):
    made = started_lengths(np.array(rows, dtype=np.int8))
    for position, row in enumerate(rows):
        run = next((depth for depth, rank in enumerate(row) if rank != 0), 3)
        assert made[position] == min(run + 1, len(rows) - position)
