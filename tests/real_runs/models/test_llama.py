"""The forward against Transformers, against itself without a cache, and against paths where it
checks a tree."""

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.decoding.tree import node_depths, tree_mask, tree_positions
from real_runs.models.config import from_hf
from real_runs.models.llama import Llama
from real_runs.models.loading.weights import LoadedWeights
from tests.real_runs.accepted_path import accepted_path
from tests.real_runs.random_weights import random_weights

SHAPE = {
    "vocab_size": 61,
    "hidden_size": 32,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 40,
    "max_position_embeddings": 128,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
    "rope_theta": 10000.0,
}
FAMILIES = {
    "llama": ("Llama", {}),
    "tied": ("Llama", {"tie_word_embeddings": True}),
    "linear": (
        "Llama",
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 5000.0}},
    ),
    "llama3": ("Llama", {"rope_parameters": LLAMA3}),
    "mistral": ("Mistral", {"sliding_window": None, "head_dim": 8}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {"head_dim": 16}),
}
PARENTS = [-1, 0, 0, 0, 1, 1, 2, 4, 4, 6, 9]


def oracle(family):
    """A random Transformers model, and ours with the same weights."""
    import transformers

    kind, changes = FAMILIES[family]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(1)
        config = getattr(transformers, f"{kind}Config")(**{**SHAPE, **changes})
        theirs = getattr(transformers, f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            parameter.normal_(0, 0.3).add_(1.0 if "norm" in name else 0.0)
    weights = LoadedWeights(
        config=from_hf(config.to_dict()), tensors=dict(theirs.state_dict()), sha256=""
    )
    return theirs, Llama(weights)


@pytest.mark.parametrize("family", FAMILIES)
def test_logits_equal_transformers(family):
    theirs, ours = oracle(family)
    tokens = torch.randint(0, 61, (2, 48), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        expected = theirs(tokens)
        states = theirs(tokens, output_hidden_states=True).hidden_states
    made = ours.forward(tokens, ours.new_cache(48, batch=2), capture=(0, 1, 2))
    torch.testing.assert_close(made.logits, expected.logits, atol=2e-4, rtol=1e-4)
    for layer in (0, 1, 2):
        torch.testing.assert_close(made.hidden[layer], states[layer], atol=2e-4, rtol=1e-4)


def test_rotary_scaling_and_head_norms_matter():
    """Without them the comparison above fails: it does see them."""
    for family, change in (("llama3", {"rope_parameters": {"rope_theta": 10000.0}}), ("qwen3", {})):
        theirs, ours = oracle(family)
        config = from_hf({**theirs.config.to_dict(), **change})
        tensors = dict(theirs.state_dict())
        if family == "qwen3":
            tensors = {
                name: torch.ones_like(x) if "q_norm" in name else x for name, x in tensors.items()
            }
        wrong = Llama(LoadedWeights(config=config, tensors=tensors, sha256=""))
        tokens = list(range(48))
        right_logits = ours.forward(tokens, ours.new_cache(48)).logits
        wrong_logits = wrong.forward(tokens, wrong.new_cache(48)).logits
        assert (right_logits - wrong_logits).abs().max() > 0.1


@given(st.lists(st.integers(1, 7), min_size=1, max_size=8), st.integers(0, 2**31))
def test_cached_decoding_equals_one_full_pass(tiny_model, pieces, seed):
    tokens = torch.randint(
        0, 97, (sum(pieces),), generator=torch.Generator().manual_seed(seed)
    ).tolist()
    full = tiny_model.forward(tokens, tiny_model.new_cache(len(tokens))).logits[0]
    cache, start = tiny_model.new_cache(len(tokens)), 0
    for count in pieces:
        part = tiny_model.forward(tokens[start : start + count], cache).logits[0]
        torch.testing.assert_close(part, full[start : start + count], atol=1e-4, rtol=1e-4)
        cache.commit(count)
        start += count


def test_last_logits_and_early_stop_agree_with_the_full_pass(tiny_model):
    tokens = [5, 9, 2, 44, 13]
    full = tiny_model.forward(tokens, tiny_model.new_cache(5), capture=(2, 4))
    last = tiny_model.forward(tokens, tiny_model.new_cache(5), logits="last").logits
    torch.testing.assert_close(last[0, 0], full.logits[0, -1])
    early = tiny_model.forward(
        tokens, tiny_model.new_cache(5), logits="none", capture=(2,), stop_after=2
    )
    torch.testing.assert_close(early.hidden[2], full.hidden[2])
    torch.testing.assert_close(tiny_model.head(full.hidden[4]), full.logits)
    assert early.logits is None


def tree_case(model, *, mask=None, positions=None):
    """One pass over a tree after a prompt; its tokens, logits and cache."""
    prompt, tokens = [7, 3, 88, 21, 60, 4], [50, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    cache = model.new_cache(64)
    model.forward(prompt, cache, logits="none")
    cache.commit(len(prompt))
    mask = tree_mask(PARENTS, len(prompt)) if mask is None else mask
    positions = tree_positions(PARENTS, len(prompt)) if positions is None else positions
    logits = model.forward(tokens, cache, positions=positions, mask=mask).logits[0]
    return prompt, tokens, logits, cache


def path_logits(model, prompt, tokens):
    """Logits at every node, each decoded along its own path."""
    rows = []
    for node in range(len(tokens)):
        path, at = [], node
        while at >= 0:
            path.append(tokens[at])
            at = PARENTS[at]
        sequence = prompt + path[::-1]
        rows.append(
            model.forward(sequence, model.new_cache(len(sequence)), logits="last").logits[0, 0]
        )
    return torch.stack(rows)


def test_tree_pass_equals_path_by_path_decoding(tiny_model):
    prompt, tokens, logits, _ = tree_case(tiny_model)
    torch.testing.assert_close(
        logits, path_logits(tiny_model, prompt, tokens), atol=1e-4, rtol=1e-4
    )


def test_wrong_mask_and_wrong_positions_are_caught(tiny_model):
    """Negative controls: a causal mask, or positions by slot, gives other logits."""
    causal = torch.ones(11, 17, dtype=torch.bool).tril(6)
    by_slot = torch.arange(6, 17)
    for changes in ({"mask": causal}, {"positions": by_slot}):
        prompt, tokens, logits, _ = tree_case(tiny_model, **changes)
        assert (logits - path_logits(tiny_model, prompt, tokens)).abs().max() > 0.1


def test_compaction_keeps_the_accepted_path(tiny_model):
    prompt, tokens, _, cache = tree_case(tiny_model)
    path = [0, 2, 6, 9]
    assert node_depths(PARENTS)[9] == 3
    expected_text = prompt + [tokens[node] for node in path] + [33]
    expected = tiny_model.forward(expected_text, tiny_model.new_cache(64), logits="last").logits
    cache.compact(path)
    assert cache.length == len(prompt) + len(path)
    kept = tiny_model.forward([33], cache, logits="last").logits
    torch.testing.assert_close(kept, expected, atol=1e-4, rtol=1e-4)
    _, _, _, uncompacted = tree_case(tiny_model)
    uncompacted.commit(len(path))
    assert (tiny_model.forward([33], uncompacted).logits - expected).abs().max() > 0.1


def test_accepted_path_follows_the_targets_answers():
    tokens = [50, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    answers = [2, 0, 6, 0, 0, 0, 9, 0, 0, 77, 0]
    assert accepted_path(PARENTS, tokens, answers) == [0, 2, 6, 9]
    assert accepted_path(PARENTS, tokens, [99] * 11) == [0]


@pytest.mark.parametrize("parents", [[0], [-1, 2, 0], [-1, -1]])
def test_trees_that_are_not_topological_are_refused(parents):
    with pytest.raises(ValueError, match="parents must come first"):
        node_depths(parents)


def test_half_precision_runs_close_to_single(tiny_config):
    weights = random_weights(tiny_config, seed=3, scale=0.2)
    half = Llama(weights, dtype=torch.bfloat16)
    made = half.forward([1, 2, 3], half.new_cache(3)).logits
    single = Llama(weights)
    expected = single.forward([1, 2, 3], single.new_cache(3)).logits
    assert made.dtype == torch.float32
    assert torch.nn.functional.cosine_similarity(made.flatten(), expected.flatten(), dim=0) > 0.99


def test_misuse_is_refused(tiny_model):
    cache = tiny_model.new_cache(4)
    with pytest.raises(InputError, match="holds 4 tokens"):
        tiny_model.forward([1, 2, 3, 4, 5], cache)
    with pytest.raises(InputError, match="must not exceed the layers"):
        tiny_model.forward([1], cache, stop_after=2)
    with pytest.raises(InputError, match=r"shape \(2, 2\)"):
        tiny_model.forward([1, 2], cache, mask=torch.ones(2, 3, dtype=torch.bool))
    with pytest.raises(InputError, match=r"0\.\.4"):
        cache.commit(5)
    with pytest.raises(InputError, match="ascend"):
        cache.compact([0, 2, 1])
