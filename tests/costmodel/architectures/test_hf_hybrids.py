"""Hybrid families against the model classes, and where each layer stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.hf.config import architecture_from_config
from costmodel.architectures.hf.families import FAMILIES
from costmodel.architectures.library import load_model
from hardware_profiles.errors import InputError
from tests.costmodel.architectures.family_samples import sample

pytestmark = pytest.mark.heavy

QWEN, JAMBA, MAMBA2, NEMOTRON, FLASH, GRANITE, FALCON, ZAMBA, GEMMA = (
    sample(name)
    for name in (
        "qwen3_next",
        "jamba",
        "mamba2",
        "nemotron_h",
        "phi4flash",
        "granitemoehybrid",
        "falcon_h1",
        "zamba2",
        "gemma4_text",
    )
)
HYBRIDS = [name for name, family in FAMILIES.items() if family.hybrid and name != "phi4flash"]


def build(config):
    return architecture_from_config(config, name="any", file="config.json", source="test")


def counted_by_transformers(config):
    torch, hf = pytest.importorskip("torch"), pytest.importorskip("transformers")
    made = hf.CONFIG_MAPPING[config["model_type"]](
        **{k: v for k, v in config.items() if k != "model_type"}
    )
    with torch.device("meta"):
        return sum(
            parameter.numel()
            for parameter in hf.AutoModelForCausalLM.from_config(made).parameters()
        )


@pytest.mark.parametrize("model_type", HYBRIDS)
def test_hybrids_are_counted_as_transformers_builds_them(model_type):
    config = sample(model_type)
    assert build(config).parameters == counted_by_transformers(config)


@given(
    heads=st.sampled_from((2, 4, 8)),
    groups=st.sampled_from((1, 2)),
    size=st.integers(1, 16),
    inner=st.booleans(),
    norm=st.booleans(),
)
def test_any_tiny_falcon_h1_is_counted_exactly(heads, groups, size, inner, norm):
    config = FALCON | {
        "mamba_n_heads": heads,
        "mamba_n_groups": groups,
        "mamba_d_state": size,
        "mamba_rms_norm": norm,
    }
    if inner:
        config["mamba_d_ssm"] = None
    assert build(config).parameters == counted_by_transformers(config)


@given(latent=st.none() | st.integers(8, 48), listed=st.booleans(), shared=st.integers(8, 48))
def test_any_tiny_nemotron_with_experts_is_counted_exactly(latent, listed, shared):
    config = NEMOTRON | {
        "hybrid_override_pattern": "ME*E-E",
        "n_routed_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 24,
        "moe_shared_expert_intermediate_size": shared,
        "moe_latent_size": latent,
    }
    if listed:
        del config["num_hidden_layers"], config["hybrid_override_pattern"]
        config["layers_block_type"] = ["mamba", "moe", "attention", "moe", "mlp", "moe"]
    model = build(config)
    assert model.parameters == counted_by_transformers(config)
    assert {b.feed_forward.expert_input(64) for b, _ in model.blocks if b.feed_forward.is_moe} == {
        latent or 64
    }


@given(data=st.data(), experts=st.sampled_from((0, 4)), shared=st.integers(8, 48))
def test_any_tiny_granite_hybrid_is_counted_exactly(data, experts, shared):
    kinds = data.draw(st.lists(st.sampled_from(("mamba", "attention")), min_size=6, max_size=6))
    config = GRANITE | {
        "layer_types": kinds,
        "num_local_experts": experts,
        "shared_intermediate_size": shared,
        "num_experts_per_tok": min(2, experts),
    }
    assert build(config).parameters == counted_by_transformers(config)
    assert build(config).is_moe == bool(experts)


@given(
    per_layer=st.sampled_from((0, 8)),
    experts=st.booleans(),
    joined_kv=st.booleans(),
    wide=st.booleans(),
    shared=st.integers(0, 6),
)
def test_any_tiny_gemma_4_is_counted_exactly(per_layer, experts, joined_kv, wide, shared):
    config = GEMMA | {
        "num_hidden_layers": 12,
        "hidden_size_per_layer_input": per_layer,
        "enable_moe_block": experts,
        "attention_k_eq_v": joined_kv,
        "num_kv_shared_layers": shared,
        "use_double_wide_mlp": wide,
    }
    if experts:
        config |= {"num_experts": 6, "top_k_experts": 2, "moe_intermediate_size": 24}
    if joined_kv:
        config["num_global_key_value_heads"] = 1
    model = build(config)
    assert model.parameters == counted_by_transformers(config)
    reading = sum(count for block, count in model.blocks if block.attention.shares_kv)
    assert reading == shared
    full = [block.attention.head_dim for block, _ in model.blocks if block.attention.window is None]
    assert set(full) == {32}


@pytest.mark.parametrize(("blocks", "hybrids"), [(1, 1), (1, 4), (2, 3), (3, 2)])
def test_shared_layers_of_zamba2_are_held_once_and_read_whenever_they_run(blocks, hybrids):
    kinds = ["hybrid"] * hybrids + ["mamba"] * (6 - hybrids)
    config = ZAMBA | {"num_mem_blocks": blocks, "layers_block_type": kinds}
    model = build(config)
    assert model.parameters == counted_by_transformers(config)
    once = build(config | {"num_mem_blocks": 6})
    assert model.weight_values == once.weight_values
    assert (model.repeated_parameters > 0) == (hybrids > blocks)


@given(
    layers=st.integers(1, 9),
    interval=st.integers(1, 5),
    heads=st.sampled_from((2, 4, 8)),
    key=st.integers(1, 16),
    value=st.integers(1, 16),
    kernel=st.integers(1, 5),
    shared=st.integers(8, 64),
)
def test_any_tiny_qwen3_next_is_counted_exactly(
    layers, interval, heads, key, value, kernel, shared
):
    config = QWEN | {
        "num_hidden_layers": layers,
        "full_attention_interval": interval,
        "linear_num_value_heads": heads,
        "linear_key_head_dim": key,
        "linear_value_head_dim": value,
        "linear_conv_kernel_dim": kernel,
        "shared_expert_intermediate_size": shared,
    }
    model = build(config)
    assert model.parameters == counted_by_transformers(config)
    attending = sum(count for block, count in model.blocks if block.attention.heads)
    assert attending == layers // interval


@given(
    period=st.integers(1, 4),
    expert_period=st.integers(1, 3),
    size=st.integers(1, 20),
    kernel=st.integers(1, 5),
    bias=st.booleans(),
    data=st.data(),
)
def test_any_tiny_jamba_is_counted_exactly(period, expert_period, size, kernel, bias, data):
    config = JAMBA | {
        "attn_layer_period": period,
        "attn_layer_offset": data.draw(st.integers(0, period - 1)),
        "expert_layer_period": expert_period,
        "expert_layer_offset": data.draw(st.integers(0, expert_period - 1)),
        "mamba_d_state": size,
        "mamba_d_conv": kernel,
        "mamba_conv_bias": bias,
        "mamba_proj_bias": bias,
    }
    assert build(config).parameters == counted_by_transformers(config)


def test_a_period_of_one_is_a_plain_transformer():
    """With attention in every layer nothing recurrent is left, and only the family's extras differ
    from Qwen3."""
    hybrid = build(QWEN | {"full_attention_interval": 1})
    assert not hybrid.is_recurrent
    assert hybrid.state_values == 0
    plain_keys = (
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "vocab_size",
        "head_dim",
        "num_experts",
        "num_experts_per_tok",
        "moe_intermediate_size",
        "intermediate_size",
    )
    plain = build({key: QWEN[key] for key in plain_keys} | {"model_type": "qwen3_moe"})
    assert hybrid.kv_values_per_token == plain.kv_values_per_token
    gate = 64 * 4 * 16  # the query projection's second half
    shared = 3 * 64 * 40 + 64
    assert hybrid.parameters - plain.parameters == 6 * (gate + shared)
    jamba = build(
        JAMBA | {"attn_layer_period": 1, "attn_layer_offset": 0, "expert_layer_period": 2}
    )
    assert not jamba.is_recurrent


def test_layer_lists_and_patterns_say_the_same():
    kinds = [
        "linear_attention",
        "mlp",
        "linear_attention",
        "full_attention",
        "linear_attention",
        "mlp",
    ]
    listed = {key: value for key, value in NEMOTRON.items() if key != "hybrid_override_pattern"}
    assert build(listed | {"layer_types": kinds}).blocks == build(NEMOTRON).blocks
    old = ["mamba", "mlp", "mamba", "attention", "mamba", "mlp"]
    assert build(listed | {"layers_block_type": old}).blocks == build(NEMOTRON).blocks


def test_the_second_half_of_sambay_stores_nothing():
    model = build(FLASH)
    assert model.layers == 8
    assert sum(n for b, n in model.blocks if b.cross_decoder) == 2
    attending = [(b, n) for b, n in model.blocks if b.attention.heads]
    assert sum(n for b, n in attending if b.attention.window == 32) == 2
    assert sum(n for b, n in attending if b.attention.window is None and not b.cross_decoder) == 1
    assert all(b.attention.kv_values_per_token == 0 for b, _ in attending if b.cross_decoder)
    assert all(
        b.state is None or b.state.kind == "memory" for b, _ in model.blocks if b.cross_decoder
    )
    shipped = load_model("phi-4-mini-flash")
    assert shipped.kv_values_per_token == 9 * 2 * 20 * 64  # eight windows and one full layer of 32


def test_shipped_hybrids_attend_where_their_makers_say():
    attending = {
        name: sum(n for b, n in load_model(name).blocks if b.attention.heads)
        for name in (
            "qwen3-next-80b-a3b",
            "jamba-1.5-mini",
            "nemotron-h-8b",
            "mamba2-2.7b",
            "mamba-2.8b",
        )
    }
    assert attending == {
        "qwen3-next-80b-a3b": 12,
        "jamba-1.5-mini": 4,
        "nemotron-h-8b": 4,
        "mamba2-2.7b": 0,
        "mamba-2.8b": 0,
    }


@pytest.mark.parametrize(
    ("config", "change", "key"),
    [
        (QWEN, {"layer_types": ["full_attention"]}, "layer_types"),
        (QWEN, {"layer_types": ["sliding_attention"] * 6}, "layer_types"),
        (QWEN, {"full_attention_interval": 0}, "full_attention_interval"),
        (JAMBA, {"attn_layer_offset": 3}, "attn_layer_offset"),
        (JAMBA, {"mamba_dt_rank": "wide"}, "mamba_dt_rank"),
        (NEMOTRON, {"hybrid_override_pattern": "M-M"}, "hybrid_override_pattern"),
        (NEMOTRON, {"hybrid_override_pattern": "M-X*M-"}, "hybrid_override_pattern"),
        (NEMOTRON, {"hybrid_override_pattern": 7}, "hybrid_override_pattern"),
        (MAMBA2, {"num_heads": 7}, "num_heads"),
        (FLASH, {"mb_per_layer": 3}, "mb_per_layer"),
        (GRANITE, {"mamba_n_heads": 7}, "mamba_n_heads"),
        (ZAMBA, {"layers_block_type": None}, "layers_block_type"),
        (ZAMBA, {"add_bias_linear": True}, "add_bias_linear"),
        (GEMMA, {"per_layer_config": {"0": {"head_dim": -1}}}, "per_layer_config"),
    ],
)
def test_contradictions_are_named(config, change, key):
    with pytest.raises(InputError) as caught:
        build(config | change)
    assert caught.value.key == key
