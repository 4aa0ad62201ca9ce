"""Stand-ins for every shipped architecture: counts, forwards against plain loops, caches against
whole passes."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional

from costmodel.architectures.architecture import Architecture, Block, FeedForward
from costmodel.architectures.attention import Attention
from costmodel.architectures.library import load_model, model_names
from hardware_profiles.errors import InputError
from real_runs.models.config import LlamaConfig
from real_runs.models.feed_forward import Experts
from real_runs.models.layers import layer_of
from real_runs.models.llama import Llama
from real_runs.models.loading.weights import LoadedWeights
from real_runs.models.loading.weights_like import config_like, weights_like
from real_runs.models.projection import Projection
from tests.every import every

MLA = Attention(
    heads=4,
    kv_heads=1,
    head_dim=12,
    kv_lora_rank=16,
    q_lora_rank=20,
    rope_dim=4,
    nope_dim=8,
    value_dim=6,
)


def shrunk(architecture):
    """The same kinds of layers, one of each, at a sixteenth of the size or less."""
    blocks = []
    for block, _ in architecture.blocks:
        a, f = block.attention, block.feed_forward
        group = a.heads // a.kv_heads
        heads = 4 if a.is_mla else 2 * min(group, 2)
        window = None if a.window is None else 6
        attention = (
            replace(MLA, q_lora_rank=20 * (a.q_lora_rank > 0))
            if a.is_mla
            else replace(
                a, heads=heads, kv_heads=2 if group > 1 else heads, head_dim=8, window=window
            )
        )
        experts = min(f.experts, 6)
        feed_forward = replace(
            f,
            width=24,
            experts=experts,
            experts_per_token=min(f.experts_per_token, 3),
            shared_width=24 * (f.shared_width > 0),
        )
        blocks.append((replace(block, attention=attention, feed_forward=feed_forward), 1))
    positions = 64 if architecture.learned_positions else 0
    return replace(
        architecture,
        hidden=32,
        vocab=61,
        blocks=tuple(blocks),
        max_context=64,
        learned_positions=positions,
    )


def enlarged(weights, factor=8.0):
    """Values large enough for attention, routing and sinks to matter."""
    tensors = {
        name: value if "norm" in name else value * factor for name, value in weights.tensors.items()
    }
    return LoadedWeights(config=weights.config, tensors=tensors, sha256=weights.sha256)


RECURRENT = [name for name in model_names() if load_model(name).is_recurrent]
# indexers, norms over all heads, one norm a layer, or layers whose heads differ: costed, but not
# run
NOT_RUN = [
    "command-r7b",
    "deepseek-v3.2",
    "gemma-4-26b-a4b",
    "gemma-4-31b",
    "glm-5",
    "glm-5.2",
    "minimax-m2",
    "olmo-2-32b",
    "olmo-2-7b",
]
ENCODING = [name for name in model_names() if load_model(name).encoder is not None]
RUNNING = [name for name in model_names() if name not in (*RECURRENT, *NOT_RUN, *ENCODING)]


@every("name", RUNNING)
def test_every_shipped_model_has_the_parameters_that_its_architecture_counts(name):
    architecture = load_model(name)
    weights = weights_like(architecture, device="meta")
    assert sum(tensor.numel() for tensor in weights.tensors.values()) == architecture.parameters
    model = Llama(weights, device="meta", dtype=torch.bfloat16)
    assert model.weight_bytes == 2 * (
        architecture.weight_values - (architecture.final_norm - 1) * architecture.hidden
    )
    assert (
        model.new_cache(3).keys.numel() + model.new_cache(3).values.numel()
        == 3 * architecture.kv_values_per_token
    )


@every("name", [*RECURRENT, *NOT_RUN])
def test_models_with_layers_that_cannot_be_run_are_refused(name):
    with pytest.raises(InputError, match="cannot be run"):
        weights_like(load_model(name), device="meta")


def kinds():
    """Shipped models by what is left of them once they are shrunk: most are one of a few."""
    return {replace(shrunk(load_model(name)), name="shrunk"): name for name in RUNNING}.items()


@every("small, name", kinds)
def test_every_kind_of_shipped_model_runs_shrunk_and_its_cache_equals_whole_passes(small, name):
    model = Llama(enlarged(weights_like(small, dtype=torch.float32, seed=3)))
    tokens = [5, 9, 2, 44, 13, 6, 17, 33, 50, 21, 8, 40]
    whole = model.forward(tokens, model.new_cache(12)).logits[0]
    assert torch.isfinite(whole).all()
    cache, parts = model.new_cache(12), []
    for start, stop in ((0, 5), (5, 6), (6, 9), (9, 10), (10, 12)):
        parts.append(model.forward(tokens[start:stop], cache).logits[0])
        cache.commit(stop - start)
    torch.testing.assert_close(torch.cat(parts), whole, atol=1e-4, rtol=1e-3)
    changed = model.forward([6, *tokens[1:]], model.new_cache(12)).logits[0]
    assert (changed[2] - whole[2]).abs().max() > 1e-3


def tiny(attention=None, feed_forward=None, **changes):
    attention = attention or Attention(heads=4, kv_heads=2, head_dim=8)
    block = Block(attention=attention, feed_forward=feed_forward or FeedForward(width=24), norms=2)
    values = {
        "name": "tiny",
        "hidden": 32,
        "vocab": 61,
        "tied": True,
        "blocks": ((block, 2),),
        "max_context": 64,
    }
    return Architecture(**{**values, **changes})


def test_a_window_hides_what_lies_further_back_by_position():
    """A change before all windows' reach is unseen; one inside is seen; siblings of a tree share a
    position."""
    model = Llama(
        enlarged(
            weights_like(
                tiny(Attention(heads=4, kv_heads=2, head_dim=8, window=3)), dtype=torch.float32
            )
        )
    )
    tokens = [5, 9, 2, 44, 13, 6, 17, 33]

    def last(changed_at=None, **tree):
        text = [*tokens]
        if changed_at is not None:
            text[changed_at] = 60
        return model.forward(text, model.new_cache(8), **tree).logits[0, -1]

    assert torch.equal(
        last(), last(changed_at=2)
    )  # two layers with windows of 3 reach back 4 positions
    assert (last() - last(changed_at=3)).abs().max() > 1e-3
    positions = torch.tensor(
        [0, 1, 2, 3, 4, 5, 5, 6]
    )  # token 6 is a sibling of token 5 and hides it
    mask = torch.ones(8, 8, dtype=torch.bool).tril()
    mask[6, 5] = mask[7, 5] = False
    tree = last(positions=positions, mask=mask)
    path = model.forward([5, 9, 2, 44, 13, 17, 33], model.new_cache(8)).logits[0, -1]
    torch.testing.assert_close(tree, path, atol=1e-4, rtol=1e-3)


def routed(bias, tokens=9):
    generator = torch.Generator().manual_seed(6)

    def numbers(*shape):
        return torch.randn(shape, generator=generator) * 0.4

    experts = Experts(
        router=Projection(numbers(5, 16)),
        first=numbers(5, 48, 16),
        down=numbers(5, 16, 24),
        first_bias=numbers(5, 48) if bias else None,
        down_bias=numbers(5, 16) if bias else None,
        shared=None,
        per_token=2,
    )
    return experts, numbers(1, tokens, 16)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("tokens", [1, 9])
def test_experts_equal_a_plain_loop_over_tokens(bias, tokens):
    experts, x = routed(bias, tokens)
    expected = torch.zeros_like(x[0])
    for row, token in enumerate(x[0]):
        logits = experts.router.weight @ token
        best = logits.argsort(descending=True)[:2]
        shares = logits[best].exp() / logits[best].exp().sum()
        for share, expert in zip(shares, best, strict=True):
            made = experts.first[expert] @ token + (experts.first_bias[expert] if bias else 0)
            inner = functional.silu(made[:24]) * made[24:]
            expected[row] += share * (
                experts.down[expert] @ inner + (experts.down_bias[expert] if bias else 0)
            )
    torch.testing.assert_close(experts(x)[0], expected, atol=1e-5, rtol=1e-4)
    logits, chosen = experts.router(x[0]).topk(2)
    shares = torch.softmax(logits, dim=-1)
    torch.testing.assert_close(
        experts.grouped(x[0], chosen, shares), expected, atol=1e-5, rtol=1e-4
    )
    wrong = experts.grouped(x[0], (chosen + 1) % 5, shares)
    assert (wrong - expected).abs().max() > 0.1


def test_latent_attention_equals_its_expanded_form():
    weights = enlarged(weights_like(tiny(MLA), dtype=torch.float32, seed=2))
    model, at = Llama(weights), "model.layers.0.self_attn."
    x = torch.randn(1, 7, 32, generator=torch.Generator().manual_seed(3))
    get = {
        name.removeprefix(at): value
        for name, value in weights.tensors.items()
        if name.startswith(at)
    }
    angles = model._rotary.angles(torch.arange(7)[None], 6)
    cos, signed = angles

    def turned(part):
        return part * cos + part.roll(2, -1) * signed

    query = (
        functional.rms_norm(x @ get["q_a_proj.weight"].T, (20,), eps=1e-5)
        @ get["q_b_proj.weight"].T
    )
    query = query.view(1, 7, 4, 12)
    stored = x @ get["kv_a_proj_with_mqa.weight"].T
    up = (functional.rms_norm(stored[..., :16], (16,), eps=1e-5) @ get["kv_b_proj.weight"].T).view(
        1, 7, 4, 14
    )
    shared = turned(stored[..., None, 16:]).expand(-1, -1, 4, -1)
    query = torch.cat([query[..., :8], turned(query[..., 8:])], dim=-1).transpose(1, 2)
    key = torch.cat([up[..., :8], shared], dim=-1).transpose(1, 2)
    made = functional.scaled_dot_product_attention(
        query, key, up[..., 8:].transpose(1, 2), is_causal=True
    )
    expected = made.transpose(1, 2).reshape(1, 7, -1) @ get["o_proj.weight"].T
    seen = model._visible([0], 7, torch.arange(7)[None], None)
    layer = layer_of(model.config, 0, weights.tensors)
    found = layer.attention(
        0, x, model.new_cache(7), start=0, angles=angles, visible=seen, residual=None
    )
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_sinks_take_weight_as_one_more_key_would():
    attention = Attention(heads=4, kv_heads=2, head_dim=8, sinks=True)
    weights = enlarged(weights_like(tiny(attention), dtype=torch.float32))
    without = {name: value for name, value in weights.tensors.items() if "sinks" not in name}
    never = without | {
        name: torch.full_like(v, -1e9) for name, v in weights.tensors.items() if "sinks" in name
    }

    def logits(tensors):
        model = Llama(LoadedWeights(config=weights.config, tensors=tensors, sha256=""))
        return model.forward([5, 9, 2, 44], model.new_cache(4)).logits

    torch.testing.assert_close(logits(never), logits(without), atol=1e-5, rtol=1e-4)
    assert (logits(weights.tensors) - logits(without)).abs().max() > 1e-2


def test_weights_are_made_once_and_follow_the_seed():
    architecture = tiny()
    first, again, other = (weights_like(architecture, seed=seed) for seed in (1, 1, 2))
    name = "model.layers.1.mlp.down_proj.weight"
    assert torch.equal(first.tensors[name], again.tensors[name])
    assert not torch.equal(first.tensors[name], other.tensors[name])
    assert first.sha256 == again.sha256 != other.sha256
    assert float(first.tensors["model.embed_tokens.weight"].float().std()) == pytest.approx(
        0.02, rel=0.05
    )
    model = Llama(first, dtype=torch.bfloat16)
    stored = {tensor.data_ptr() for tensor in first.tensors.values()}
    used = {model._embedding.data_ptr(), *(layer.qkv.data_ptr() for layer in model._layers)}
    assert used | {layer.down.data_ptr() for layer in model._layers} <= stored


def test_a_number_of_layers_and_what_cannot_run():
    deep = load_model("deepseek-v3")
    assert isinstance(config_like(deep, layers=5), LlamaConfig)
    assert [block.feed_forward.is_moe for block in config_like(deep, layers=5).blocks] == [
        False
    ] * 3 + [True] * 2
    with pytest.raises(InputError, match=r"layers: must lie in 1\.\.61"):
        weights_like(deep, layers=62, device="meta")
    block = tiny().blocks[0][0]
    for wrong, message in (
        (replace(block, norms=1), "a layer with 1 norms"),
        (
            replace(block, attention=replace(block.attention, heads=0)),
            "linear attention, state space",
        ),
        (
            replace(
                block,
                feed_forward=FeedForward(width=8, gated=False, experts=2, experts_per_token=1),
            ),
            "without gates",
        ),
        (
            replace(block, attention=replace(block.attention, kv_heads=4)),
            "different key/value heads",
        ),
    ):
        with pytest.raises(InputError, match=message):
            weights_like(tiny(blocks=((block, 1), (wrong, 1))), device="meta")
