"""The feature head: real loops against replay of its own observation, its layer, its masks and its
training."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.decoding.generate import generate
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.tree_speculative import by_levels
from real_runs.drafters.entries.feature_head import FEATURE_HEAD
from real_runs.drafters.expansion import ExpansionLimits
from real_runs.drafters.heads.decoder_layer import DecoderLayer, embedded, head_logits, rotation
from real_runs.drafters.heads.feature_head import (
    FeatureHead,
    FeatureHeadReader,
    FeatureHeadText,
    parent_slots,
)
from real_runs.drafters.heads.feature_head_fit import (
    FeatureHeadTraining,
    fit_feature_head,
    level_mask,
)
from real_runs.drafters.heads.head_data import HeadText
from tests.property_examples import examples
from tests.real_runs.drafters.replayed import replayed_steps, run_beside_plain
from traces.kinds.tree import Tree, chain_tree

TREE = Tree.from_paths([(0,), (1,), (3,), (0, 0), (0, 1), (1, 0), (0, 0, 0), (0, 0, 2)])


def random_head(config, capture):
    """Large weights, tied to the last state so that something is accepted."""
    generator = torch.Generator().manual_seed(4)
    head = FeatureHead(config, capture=capture, generator=generator)
    with torch.no_grad():
        for weight in head.parameters():
            if weight.ndim > 1:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.1)
        head.true_in[:, -32:] += torch.eye(32)
        head.own_in[:, -32:] += torch.eye(32)
    return head


def read_text(model, rows=24, length=40):
    """Random text as the target reads it."""
    tokens = torch.randint(1, 97, (rows, length), generator=torch.Generator().manual_seed(6))
    made = model.forward(tokens, model.new_cache(length, batch=rows), capture=(1, 2, 3, 4))
    best = torch.softmax(made.logits, dim=-1).topk(16)
    states = {
        k: (v * torch.rsqrt(v.square().mean(-1, keepdim=True))).half()
        for k, v in made.hidden.items()
    }
    return HeadText(
        tokens=tokens,
        states=states,
        likeliest=best.indices.int().clone(),
        probabilities=best.values.half().clone(),
    )


@pytest.fixture(scope="module", params=[(4,), (1, 2, 4)], ids=["last state", "three states"])
def head(request, tiny_config):
    return random_head(tiny_config, request.param)


@pytest.fixture(scope="module")
def trained(tiny_model):
    training = FeatureHeadTraining(
        steps=60, rows=8, learning_rate=3e-3, vocabulary=97, others=0, levels=2
    )
    losses = []
    head = fit_feature_head(
        tiny_model,
        read_text(tiny_model),
        training,
        capture=(2, 4),
        report=lambda *told: losses.append(told),
    )
    return head, losses


def run_and_observe(model, head, prompt, tree, *, reader=None, **options):
    run, plain = run_beside_plain(
        model, by_levels(reader or FeatureHeadReader(model, head)), prompt, tree, **options
    )
    return run, FEATURE_HEAD.observed(model, head, parameters={}).observe(prompt, plain)


@settings(max_examples=examples(8))
@given(
    st.lists(st.integers(1, 96), min_size=1, max_size=10),
    st.sampled_from([0.0, 0.7]),
    st.sampled_from([TREE, chain_tree(1), chain_tree(3), chain_tree(7)]),
    st.integers(1, 45),
)
def test_real_loop_takes_the_steps_that_its_ranks_replay(
    tiny_model, head, prompt, temperature, tree, length
):
    run, told = run_and_observe(
        tiny_model, head, prompt, tree, temperature=temperature, length=length
    )
    assert list(run.emitted) == replayed_steps(told, tree)


def test_trained_head_accepts_more_than_it_did_and_steps_equal_replay(tiny_model, trained):
    """The agreement is no empty one: drafts are accepted, several levels deep."""
    head, losses = trained
    assert [done for done, _, _ in losses] == list(range(1, 61))
    assert np.mean([loss for *_, loss in losses[-5:]]) < 0.95 * losses[0][2]
    steps = tokens = 0
    for seed in range(1, 5):
        run, told = run_and_observe(tiny_model, head, [seed, 5, 9], TREE)
        assert list(run.emitted) == replayed_steps(told, TREE)
        steps, tokens = steps + len(run.emitted), tokens + sum(run.emitted)
    assert tokens > 1.15 * steps


def test_levels_are_not_those_of_a_depth_invariant_drafter(tiny_model, trained):
    """Deeper levels read the head's own states: their ranks are not those of later starts."""
    made = generate(
        tiny_model,
        [3, 5],
        Sampler(temperature=0, seed=0, request="", positions=60),
        max_new_tokens=60,
    )
    rank = FEATURE_HEAD.observed(tiny_model, trained[0], parameters={}).observe([3, 5], made)[
        "rank"
    ]
    assert rank.shape == (len(made.tokens), 8)
    assert (rank[:-1, 1] != rank[1:, 0]).any()


def test_one_reader_serves_several_requests(tiny_model, trained):
    reader = FeatureHeadReader(tiny_model, trained[0])
    for prompt in ([4, 5, 6], [7], [4, 5, 7, 8], [4, 5, 6]):
        shared, _ = run_and_observe(tiny_model, trained[0], prompt, TREE, reader=reader)
        fresh, _ = run_and_observe(tiny_model, trained[0], prompt, TREE)
        assert shared.emitted == fresh.emitted


def test_expansions_hold_the_candidates_that_ranks_count(tiny_model, trained):
    """The true first token is on the tree's first level exactly where it ranks among the candidates
    looked at."""
    made = generate(
        tiny_model,
        [3, 5],
        Sampler(temperature=0, seed=0, request="", positions=20),
        max_new_tokens=20,
    )
    drafter = FEATURE_HEAD.observed(
        tiny_model, trained[0], parameters={}, limits=ExpansionLimits(nodes=12, depth=3, width=4)
    )
    arrays = drafter.observe([3, 5], made)
    trees, levels = arrays["expansions"], arrays["expansions"].levels()
    for position in range(trees.positions):
        rows = np.arange(trees.offsets[position], trees.offsets[position + 1])
        true = {int(levels[row]): int(trees.rank[row]) for row in rows if trees.on_path[row]}
        for level, rank in true.items():
            assert rank == arrays["rank"][position, level - 1]
        if 1 in true:
            assert arrays["draft_ids"][position, true[1]] == made.tokens[position]
    assert trees.on_path.sum() > 5


def test_reader_that_was_shown_nothing_says_so(tiny_model, trained):
    with pytest.raises(InputError, match="states"):
        FeatureHeadReader(tiny_model, trained[0]).after_prefix([1, 2, 3], tiny_model.new_cache(5))


@pytest.mark.parametrize("capture", [(), (2,), (4, 2), (0, 4), (2, 2, 4), (5,)])
def test_layers_that_do_not_ascend_to_the_last_are_refused(tiny_config, capture):
    with pytest.raises(InputError, match="capture"):
        FeatureHead(tiny_config, capture=capture)


def test_layer_is_the_engines_layer(tiny_model, tiny_config):
    text = [3, 9, 27, 81, 49, 50, 53]
    layer = DecoderLayer(tiny_config)
    layer.copy_from(tiny_model, 0)
    at = torch.arange(len(text))
    x = embedded(tiny_model, torch.tensor(text))[None]
    with torch.no_grad():
        q, k, v = layer.heads(x, rotation(tiny_config, at))
        made = layer.mixed(x, q, k, v, at <= at[:, None])
    hidden = tiny_model.forward(text, tiny_model.new_cache(9), capture=(0, 1, 4)).hidden
    torch.testing.assert_close(x, hidden[0])
    torch.testing.assert_close(made, hidden[1])
    words = torch.tensor([3, 50, 96])
    torch.testing.assert_close(
        head_logits(tiny_model, hidden[4], words), tiny_model.head(hidden[4])[..., words]
    )


@given(st.integers(0, 4), st.integers(1, 9))
def test_level_masks_show_the_text_up_to_the_root_and_the_steps_own_nodes(level, length):
    mask = level_mask(level, length).reshape(length, level + 1, length)
    for at in range(level, length):
        root = at - level
        assert mask[at, 0].nonzero()[:, 0].tolist() == list(range(root + 1))
        for above in range(1, level + 1):
            assert mask[at, above].nonzero()[:, 0].tolist() == [root + above]
    assert mask.reshape(length, -1).any(dim=1).all()


def test_training_levels_compute_what_drafting_computes(tiny_model, trained):
    """The states of the loss's second level, read in one pass by masks, are those of nodes read
    below a text."""
    head, _ = trained
    text = read_text(tiny_model, rows=1, length=12)
    seen = FeatureHeadText(tiny_model, head)
    tokens = text.tokens[0].tolist()
    seen.read_text(tokens, [0], 12)
    hidden = tiny_model.forward(tokens, tiny_model.new_cache(12), capture=head.capture).hidden
    with torch.no_grad():
        states = [
            torch.nn.functional.pad(hidden[layer][:, :-1], (0, 0, 1, 0)) for layer in head.capture
        ]
        fused = [head.fused_true(embedded(tiny_model, text.tokens), states)]
        turned, keys, values, made = rotation(head.config, torch.arange(12)), [], [], []
        for level in range(2):
            q, k, v = head.layer.heads(fused[-1], turned)
            keys, values = [*keys, k], [*values, v]
            mask = level_mask(level, 12)
            made.append(
                head.layer.mixed(fused[-1], q, torch.cat(keys, 2), torch.cat(values, 2), mask)[0]
            )
            before = torch.nn.functional.pad(made[-1][None, :-1], (0, 0, 1, 0))
            fused.append(head.fused_own(embedded(tiny_model, text.tokens), before))
    torch.testing.assert_close(seen._slots.results[:12], made[0], atol=1e-4, rtol=1e-4)
    for root in (2, 6, 10):
        mask = torch.zeros(1, 13, dtype=torch.bool)
        mask[0, [*range(root + 1), 12]] = True
        parents, at = torch.tensor([root]), torch.tensor([root + 1])
        node = seen._slots.read_nodes(text.tokens[0, root + 1 : root + 2], parents, 12, at, mask)
        torch.testing.assert_close(node[0], made[1][root + 1], atol=1e-4, rtol=1e-4)


def test_parents_are_read_off_masks():
    from real_runs.decoding.tree import tree_mask

    tree = Tree.from_paths([(0,), (1,), (0, 0), (1, 0), (1, 1), (1, 1, 0)])
    mask = tree_mask(tree.parents, 5)
    assert parent_slots(mask[1:], 6).tolist() == [5 + parent for parent in tree.parents[1:]]


@pytest.mark.model
@pytest.mark.heavy
def test_shipped_model_drafts_as_its_observation_tells(shipped_model):
    """A real prompt; the head is the closed-form start and a few steps on little text."""
    model, tokenizer = shipped_model
    ids = tokenizer.ids(
        "The harbour was dredged last spring. Larger ferries can now dock at low tide. " * 4
    )[:48]
    tokens = torch.tensor([ids])
    made = model.forward(tokens, model.new_cache(48), capture=(10, 20, 29, 30))
    best = torch.softmax(made.logits, dim=-1).topk(16)
    states = {
        k: (v * torch.rsqrt(v.square().mean(-1, keepdim=True))).half()
        for k, v in made.hidden.items()
    }
    text = HeadText(
        tokens=tokens,
        states=states,
        likeliest=best.indices.int().clone(),
        probabilities=best.values.half().clone(),
    )
    training = FeatureHeadTraining(steps=1, rows=1, vocabulary=512, others=64)
    head = fit_feature_head(model, text, training, capture=(10, 20, 30))
    prompt = tokenizer.chat_ids("Name three primary colours.")
    run, told = run_and_observe(model, head, prompt, chain_tree(4), length=24)
    assert list(run.emitted) == replayed_steps(told, chain_tree(4))
    assert sum(run.emitted) > len(run.emitted)
