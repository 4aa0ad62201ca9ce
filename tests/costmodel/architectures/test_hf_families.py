"""Families against the model classes themselves, and the traps of each, one by one."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.hf.config import architecture_from_config, read_hf_config
from costmodel.architectures.hf.families import FAMILIES

# Published code that transformers does not carry; Kimi-K2 and Dream have the layers of the type named here.
# Llama 4 is compared whole, as shipped, in `test_model_library`; hybrids in `test_hf_hybrids`.
STANDS_FOR = {"kimi_k2": "deepseek_v3", "Dream": "qwen2", "llada": None, "step3_text": None, "llama4_text": None}
COMPARED = [name for name, family in FAMILIES.items() if name not in STANDS_FOR and not family.hybrid]

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "vocab_size": 50,
}
MOE = {
    "moe_intermediate_size": 24,
    "num_experts": 6,
    "num_local_experts": 6,
    "n_routed_experts": 6,
    "num_experts_per_tok": 2,
}
GPT2 = {"n_embd": 64, "n_layer": 6, "n_head": 4, "vocab_size": 50}
OPT = {"hidden_size": 64, "ffn_dim": 96, "num_hidden_layers": 6, "num_attention_heads": 4, "vocab_size": 50}
LLADA = {
    "model_type": "llada",
    "block_type": "llama",
    "layer_norm_type": "rms",
    "include_bias": False,
    "n_layers": 6,
    "d_model": 64,
    "n_heads": 4,
    "mlp_hidden_size": 96,
    "embedding_size": 50,
    "weight_tying": False,
    "torch_dtype": "bfloat16",
}
MOE_KEYS = {
    "mixtral": ("num_local_experts", "num_experts_per_tok"),
    "gpt_oss": ("num_local_experts", "num_experts_per_tok"),
    "qwen3_moe": ("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
    "deepseek_v2": ("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"),
    "deepseek_v3": ("n_routed_experts", "num_experts_per_tok", "moe_intermediate_size"),
}


def minimal(model_type):
    """A config with only the keys that every file of the type carries."""
    core = {"gpt2": GPT2, "opt": OPT, "llada": LLADA}.get(model_type, LLAMA)
    heads = {} if model_type in ("gpt2", "opt", "llada") else {"num_key_value_heads": 2}
    extra = {key: MOE[key] for key in MOE_KEYS.get(STANDS_FOR.get(model_type, model_type), ())}
    return {**core, **heads, **extra, "model_type": model_type}


def build(config):
    return architecture_from_config(config, name="any", file="config.json", source="test")


def windows(model):
    return sorted((block.attention.window or 0) for block, count in model.blocks for _ in range(count))


def reference(config):
    """The class that transformers makes of a config, its exact parameter count and its windows per layer."""
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
        config |= {"head_dim": draw(st.sampled_from((4, 8, 24))), "attention_bias": draw(st.booleans())}
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
        config["mlp_only_layers"] = draw(st.none() | st.lists(st.integers(0, layers - 1), max_size=3))
    if model_type in ("deepseek_v2", "deepseek_v3"):
        config["q_lora_rank"] = draw(st.none() | st.integers(1, 16))
        config["first_k_dense_replace"] = draw(st.integers(0, layers))
        config["n_shared_experts"] = draw(st.integers(1, 3))
        config |= {name: 2 * draw(st.integers(1, 8)) for name in ("qk_rope_head_dim", "qk_nope_head_dim")}
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
    made = hf.CONFIG_MAPPING[config["model_type"]](**{k: v for k, v in config.items() if k != "model_type"})
    made.save_pretrained(folder)
    model = read_hf_config(folder / "config.json")
    assert model.blocks == build(config).blocks
    assert model.parameters == build(config).parameters


def test_multimodal_gemma3_is_read_through_its_text_config(tmp_path):
    hf = pytest.importorskip("transformers")
    made = hf.Gemma3Config(text_config={"hidden_size": 64, "num_hidden_layers": 12, "sliding_window": 128})
    made.save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())["text_config"]
    hub = {
        "model_type": "gemma3",
        "text_config": {"hidden_size": 64, "num_hidden_layers": 12, "sliding_window": 128},
    }
    text = made.text_config
    for model in (read_hf_config(tmp_path / "config.json"), build(hub)):
        (block, _), *_ = model.blocks
        assert (model.vocab, model.tied, model.layers) == (262208, True, text.num_hidden_layers)
        assert (block.attention.heads, block.attention.kv_heads, block.attention.head_dim) == (8, 4, 256)
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
    layers = {block.feed_forward.is_moe: (n, block.feed_forward.width) for block, n in build(config).blocks}
    assert layers == {False: (4, 96), True: (2, 24)}


def test_llada_and_dream_have_the_layers_of_their_relatives():
    llada = build(LLADA)
    llama = build(LLAMA | {"torch_dtype": "bfloat16"})
    assert (llada.blocks, llada.parameters) == (llama.blocks, llama.parameters)
    dream = minimal("Dream")
    assert build(dream).blocks == build(dream | {"model_type": "qwen2"}).blocks
    kimi = minimal("kimi_k2")
    assert build(kimi).blocks == build(kimi | {"model_type": "deepseek_v3"}).blocks
