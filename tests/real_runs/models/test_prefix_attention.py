"""A pass whose cache is split off equals one under a mask over all of it; torch's GPU kernels are
replaced by sums."""

from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from hardware_profiles.errors import InputError  # noqa: E402
from real_runs.decoding.tree import tree_mask, tree_positions  # noqa: E402
from real_runs.models import graphs, llama, prefix_attention  # noqa: E402
from real_runs.models.config import LlamaConfig  # noqa: E402
from real_runs.models.graphs import StaticPass  # noqa: E402
from real_runs.models.llama import Llama  # noqa: E402
from tests.real_runs.random_weights import random_weights  # noqa: E402

PARENTS = [-1, 0, 0, 1, 1]


def summed(query, keys, values, seen):
    """Output and log-sum-exp of [B, heads, rows, d] over [B, kv heads, S, d]."""
    group = query.shape[1] // keys.shape[1]
    keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
    scores = query @ keys.transpose(-1, -2) * query.shape[-1] ** -0.5 + seen
    return scores.softmax(-1) @ values, scores.logsumexp(-1)


@pytest.fixture
def kernels(monkeypatch):
    """The two kernels as sums, on a CPU that says it runs FlashAttention; counts their calls."""
    calls = {"flash": 0, "efficient": 0}

    def flash(query, keys, values, dropout_p=0.0, is_causal=False):
        calls["flash"] += 1
        rows, slots = query.shape[2], keys.shape[2]
        later = ~torch.ones(rows, slots, dtype=torch.bool).tril(slots - rows)
        return summed(query, keys, values, later * -1e9 if is_causal else 0.0)

    def efficient(query, keys, values, bias, compute_lse):
        calls["efficient"] += 1
        assert bias.stride(-2) % 16 == 0 and query.shape[1] == keys.shape[1]
        out, lse = summed(query, keys, values, bias)
        return out, torch.nn.functional.pad(lse, (0, -lse.shape[-1] % 32), value=float("inf"))

    aten = SimpleNamespace(
        _scaled_dot_product_flash_attention=flash, _scaled_dot_product_efficient_attention=efficient
    )
    names = ("float16", "bfloat16", "zeros", "sigmoid", "lerp")
    known = SimpleNamespace(
        ops=SimpleNamespace(aten=aten), **{name: getattr(torch, name) for name in names}
    )
    monkeypatch.setattr(prefix_attention, "torch", known)
    monkeypatch.setattr(prefix_attention, "_flash_3", lambda card: None)
    for module in (graphs, llama):
        monkeypatch.setattr(module, "runs_flash", lambda place, dtype: True)
    return calls


@pytest.fixture(scope="module")
def model():
    config = LlamaConfig(
        vocabulary=97, width=32, layers=2, heads=4, kv_heads=2, head_dim=8, ffn_width=48
    )
    return Llama(random_weights(config, seed=3, scale=0.2))


def filled(model, rows, length):
    cache = model.new_cache(length + 5, batch=rows)
    model.forward(
        [[(3 * slot + 11 * row) % 97 for slot in range(length)] for row in range(rows)], cache
    )
    cache.commit(length)
    return cache


@pytest.mark.parametrize(("rows", "tokens"), [(1, 1), (1, 5), (3, 4)])
def test_a_chain_needs_no_mask(model, kernels, monkeypatch, rows, tokens):
    ids = [[(17 * row + 5 * token) % 97 for token in range(tokens)] for row in range(rows)]
    with monkeypatch.context() as plain:
        plain.setattr(llama, "runs_flash", lambda place, dtype: False)
        cache = filled(model, rows, 7)
        expected = model.forward(ids, cache).logits
    assert kernels == {"flash": 0, "efficient": 0}
    torch.testing.assert_close(model.forward(ids, cache).logits, expected, atol=1e-4, rtol=1e-3)
    made = StaticPass(model, cache, tokens=tokens, slots=7 + tokens, settled=True, chain=True).run(
        ids
    )
    torch.testing.assert_close(made, expected, atol=1e-4, rtol=1e-3)
    assert kernels == {"flash": 4, "efficient": 0}  # two layers, two passes


def test_a_trees_tokens_are_a_part_of_their_own(model, kernels, monkeypatch):
    ids, positions = [[50, 1, 2, 3, 4]], tree_positions(PARENTS, 7)
    with monkeypatch.context() as plain:
        plain.setattr(llama, "runs_flash", lambda place, dtype: False)
        cache = filled(model, 1, 7)
        expected = model.forward(ids, cache, positions=positions, mask=tree_mask(PARENTS, 7)).logits
    split = StaticPass(model, cache, tokens=5, slots=12, settled=True)
    made = split.run(ids, positions=positions, among=tree_mask(PARENTS, 0)).clone()
    torch.testing.assert_close(made, expected, atol=1e-4, rtol=1e-3)
    assert kernels == {"flash": 2, "efficient": 2}
    assert (split.run(ids, positions=positions) - expected).abs().max() > 1e-4  # the mask is used


def test_what_was_stated_is_kept_to(model):
    cache = filled(model, 2, 7)
    split = StaticPass(model, cache, tokens=5, slots=12, settled=True, chain=True)
    with pytest.raises(InputError, match="starts: must be 7 in all rows"):
        split.load([[0] * 5] * 2, starts=[7, 6])
    with pytest.raises(InputError, match="among: must not be given for a chain"):
        split.load([[0] * 5] * 2, among=tree_mask(PARENTS, 0))
