"""Families against the model classes themselves, and the traps of each, one by one."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.hf.config import architecture_from_config, read_hf_config
from costmodel.architectures.hf.families import FAMILIES
from tests.costmodel.architectures.family_samples import LLADA as LLADA_KEYS
from tests.costmodel.architectures.family_samples import SAMPLES, sample

pytestmark = pytest.mark.heavy

# Published code that transformers does not carry, or only beneath a vision model. Llama 4 is
# compared whole, as it is shipped, in `test_library`; layers of several kinds in `test_hf_hybrids`.
NOT_COMPARED = {
    "kimi_k2",
    "Dream",
    "llada",
    "step3_text",
    "llama4_text",
    "qwen3_vl_text",
    "qwen3_vl_moe_text",
    "llada2_moe",
}
# Encoder-decoders are compared in `test_encoder_decoder`.
COMPARED = [
    name
    for name, family in FAMILIES.items()
    if name not in NOT_COMPARED and not family.hybrid and not family.encoder
]
minimal = sample


def build(config):
    return architecture_from_config(config, name="any", file="config.json", source="test")


def windows(model):
    return sorted(
        (block.attention.window or 0) for block, count in model.blocks for _ in range(count)
    )


def reference(config):
    """The class that transformers makes of a config, its exact parameter count and its windows per
    layer."""
    torch, hf = pytest.importorskip("torch"), pytest.importorskip("transformers")
    given = {key: value for key, value in config.items() if key != "model_type"}
    made = hf.CONFIG_MAPPING[config["model_type"]](**given, pad_token_id=None)
    with torch.device("meta"):
        model = hf.AutoModelForCausalLM.from_config(made)
    text = made.get_text_config()
    kinds = getattr(text, "layer_types", None) or ["sliding_attention"] * text.num_hidden_layers
    window = getattr(text, "sliding_window", None) or 0
    per_layer = sorted(window if kind == "sliding_attention" else 0 for kind in kinds)
    return text, sum(parameter.numel() for parameter in model.parameters()), per_layer


def assert_agrees(config):
    made, parameters, per_layer = reference(config)
    model = build(config)
    assert model.parameters == parameters
    assert windows(model) == per_layer
    assert model.layers == made.num_hidden_layers
    assert model.tied == made.tie_word_embeddings
    assert model.max_context == made.max_position_embeddings


@pytest.mark.parametrize("model_type", COMPARED)
def test_class_defaults_and_counts_equal_transformers(model_type):
    assert_agrees(minimal(model_type))


@st.composite
def drawn_configs(draw):
    model_type = draw(st.sampled_from(COMPARED))
    heads = draw(st.sampled_from((4, 8)))
    layers = draw(st.integers(1, 7))
    config = minimal(model_type) | {"vocab_size": draw(st.integers(8, 64))}
    config["tie_word_embeddings"] = draw(st.booleans())
    width = draw(st.sampled_from((32, 64)))
    if model_type == "gpt2":
        return config | {
            "n_embd": width,
            "n_layer": layers,
            "n_head": heads,
            "n_inner": draw(st.none() | st.just(40)),
        }
    config |= {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    if model_type == "opt":
        return config | {"enable_bias": draw(st.booleans()), "ffn_dim": draw(st.integers(8, 64))}
    config |= {"num_key_value_heads": draw(st.sampled_from((1, 2, 4)))}
    config["intermediate_size"] = draw(st.integers(8, 64))
    if model_type in ("llama", "qwen3", "gemma", "gemma2", "gemma3_text", "qwen3_moe", "gpt_oss"):
        config |= {
            "head_dim": draw(st.sampled_from((4, 8, 24))),
            "attention_bias": draw(st.booleans()),
        }
    if model_type == "llama":
        config["mlp_bias"] = draw(st.booleans())
    if model_type in (
        "mistral",
        "mixtral",
        "phi3",
        "gemma2",
        "gemma3_text",
        "gpt_oss",
        "qwen2",
        "qwen3",
        "qwen3_moe",
    ):
        config["sliding_window"] = draw(st.integers(1, 300))
    if model_type in ("mistral", "mixtral", "phi3") and draw(st.booleans()):
        config["sliding_window"] = None
    if model_type in ("qwen2", "qwen3", "qwen3_moe"):
        config["use_sliding_window"] = draw(st.booleans())
        config["max_window_layers"] = draw(st.integers(0, 8))
    if model_type in ("qwen2", "qwen3", "gemma2", "gemma3_text", "gpt_oss") and draw(st.booleans()):
        kinds = st.sampled_from(("full_attention", "sliding_attention"))
        config["layer_types"] = draw(st.lists(kinds, min_size=layers, max_size=layers))
    if model_type == "gemma3_text" and draw(st.booleans()):
        config["sliding_window_pattern"] = draw(st.integers(1, 4))
    if model_type == "qwen3_moe":
        config["decoder_sparse_step"] = draw(st.integers(1, 3))
        config["mlp_only_layers"] = draw(
            st.none() | st.lists(st.integers(0, layers - 1), max_size=3)
        )
    return config | draw(_drawn_experts(model_type, layers))


@st.composite
def _drawn_experts(draw, model_type, layers):
    config = {}
    if model_type == "glm4_moe":
        return {
            "use_qk_norm": draw(st.booleans()),
            "first_k_dense_replace": draw(st.integers(0, layers)),
        }
    if model_type == "glm_moe_dsa":
        frequency, offset = st.integers(1, 4), st.integers(0, 4)
        config = {
            "indexer_types": None,
            "index_topk_freq": draw(frequency),
            "index_skip_topk_offset": draw(offset),
        }
    if FAMILIES[model_type].mla:
        factored = st.integers(1, 16)
        config["q_lora_rank"] = draw(
            factored if FAMILIES[model_type].indexer else st.none() | factored
        )
        if model_type == "glm4_moe_lite":  # its class reads the list alone
            kinds = st.sampled_from(("dense", "sparse"))
            config["mlp_layer_types"] = draw(st.lists(kinds, min_size=layers, max_size=layers))
        else:
            config["first_k_dense_replace"] = draw(st.integers(0, layers))
        config["n_shared_experts"] = draw(st.integers(1, 3))
        config |= {
            name: 2 * draw(st.integers(1, 8)) for name in ("qk_rope_head_dim", "qk_nope_head_dim")
        }
        config |= {"v_head_dim": draw(st.integers(1, 16)), "kv_lora_rank": draw(st.integers(1, 32))}
        config["attention_bias"] = draw(st.booleans())
    return config


@given(drawn_configs())
def test_any_tiny_model_is_counted_exactly_as_transformers_builds_it(config):
    assert_agrees(config)


@given(drawn_configs())
def test_files_as_transformers_writes_them_read_the_same(tmp_path_factory, config):
    hf = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("written")
    made = hf.CONFIG_MAPPING[config["model_type"]](
        **{k: v for k, v in config.items() if k != "model_type"}
    )
    made.save_pretrained(folder)
    model = read_hf_config(folder / "config.json").architecture
    assert model.blocks == build(config).blocks
    assert model.parameters == build(config).parameters


@pytest.mark.parametrize("width", [0, 4096, None])
def test_a_window_that_is_switched_off_has_no_width(width):
    """Transformers writes a width of 0 there."""
    config = {
        "model_type": "qwen2",
        "vocab_size": 8,
        "hidden_size": 32,
        "intermediate_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "use_sliding_window": False,
        "sliding_window": width,
    }
    assert {block.attention.window for block, _ in build(config).blocks} == {None}


def test_multimodal_gemma3_is_read_through_its_text_config(tmp_path):
    hf = pytest.importorskip("transformers")
    made = hf.Gemma3Config(
        text_config={"hidden_size": 64, "num_hidden_layers": 12, "sliding_window": 128}
    )
    made.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())["text_config"]
    hub = {
        "model_type": "gemma3",
        "text_config": {"hidden_size": 64, "num_hidden_layers": 12, "sliding_window": 128},
    }
    text = made.text_config
    for model in (read_hf_config(tmp_path / "config.json").architecture, build(hub)):
        (block, _), *_ = model.blocks
        assert (model.vocab, model.tied, model.layers) == (262208, True, text.num_hidden_layers)
        assert (block.attention.heads, block.attention.kv_heads, block.attention.head_dim) == (
            8,
            4,
            256,
        )
        assert block.feed_forward.width == text.intermediate_size
        assert windows(model) == [0] * 2 + [128] * 10
        assert model.model_type == "gemma3_text"
    assert written["num_hidden_layers"] == 12


def test_latent_attention_ignores_head_dim_and_kv_heads():
    config = minimal("deepseek_v3")
    misleading = config | {"head_dim": 64, "num_key_value_heads": 128}
    assert build(misleading) == build(config)
    attention = build(config).blocks[0][0].attention
    assert attention.kv_values_per_token == 512 + 64
    assert (attention.kv_heads, attention.head_dim) == (1, 128 + 64)


def test_first_layers_of_deepseek_are_dense():
    routed = {b.feed_forward.is_moe: n for b, n in build(minimal("deepseek_v3")).blocks}
    assert routed == {False: 3, True: 3}
    model = build(minimal("deepseek_v2"))
    assert [block.feed_forward.shared_width for block, _ in model.blocks] == [2 * 24]


def test_qwen2_has_biases_that_its_file_does_not_mention_and_qwen3_has_none():
    qwen2 = build(minimal("qwen2")).blocks[0][0].attention
    qwen3 = build(minimal("qwen3")).blocks[0][0].attention
    assert (qwen2.bias, qwen2.output_bias, qwen2.qk_norm) == (True, False, False)
    assert (qwen3.bias, qwen3.output_bias, qwen3.qk_norm) == (False, False, True)
    assert (qwen2.head_dim, qwen3.head_dim) == (16, 128)


def test_experts_of_mixtral_are_as_wide_as_intermediate_size_says():
    (block, count), *rest = build(minimal("mixtral")).blocks
    assert (count, rest, block.feed_forward.width, block.feed_forward.experts) == (6, [], 96, 6)


def test_layers_named_dense_or_skipped_by_the_step_have_no_experts():
    config = minimal("qwen3_moe") | {"decoder_sparse_step": 2, "mlp_only_layers": [1]}
    layers = {
        block.feed_forward.is_moe: (n, block.feed_forward.width)
        for block, n in build(config).blocks
    }
    assert layers == {False: (4, 96), True: (2, 24)}


def reading_alike(model):
    """The blocks of a masked model, were it causal."""
    return tuple(
        (replace(block, attention=replace(block.attention, block_tokens=1)), count)
        for block, count in model.blocks
    )


def test_llada_and_dream_have_the_layers_of_their_relatives():
    llada = build(LLADA_KEYS | {"model_type": "llada"})
    llama = build(sample("llama") | {"num_key_value_heads": 4, "torch_dtype": "bfloat16"})
    assert (reading_alike(llada), llada.parameters) == (llama.blocks, llama.parameters)
    dream = minimal("Dream")
    assert reading_alike(build(dream)) == build(dream | {"model_type": "qwen2"}).blocks
    assert {
        block.attention.block_tokens for model in (llada, build(dream)) for block, _ in model.blocks
    } == {0}
    kimi = minimal("kimi_k2")
    assert build(kimi).blocks == build(kimi | {"model_type": "deepseek_v3"}).blocks


def test_every_family_reads_its_sample():
    for model_type, config in SAMPLES.items():
        model = build(config)
        assert model.model_type == model_type
        assert 0 < model.active_parameters <= model.parameters


def test_a_sparse_model_caches_a_key_beside_the_latent_vector_only_where_it_chooses():
    model = build(sample("glm_moe_dsa"))
    kept = {
        block.attention.index_heads: block.attention.index_bytes_per_token
        for block, _ in model.blocks
    }
    assert kept == {32: 128 + 4, 0: 0}  # 8-bit values and a scale
    for block, _ in model.blocks:
        assert (block.attention.kv_values_per_token, block.attention.index_tokens) == (
            512 + 64,
            2048,
        )
    assert build(sample("deepseek_v3")).blocks[0][0].attention.index_tokens == 0
