"""The reading and checking of configs: both generations of spellings, and files that nobody should
trust."""

import json
import os
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures import library as model_library
from costmodel.architectures.architecture import Architecture
from costmodel.architectures.hf.config import MODEL_TYPES, architecture_from_config, read_hf_config
from hardware_profiles.errors import CollectedError, InputError, UnknownNameError
from tests.costmodel.architectures.family_samples import LLAMA as LLAMA_LIKE
from tests.costmodel.architectures.family_samples import SAMPLES

LLAMA = {"model_type": "llama"} | {
    key: LLAMA_LIKE[key] for key in LLAMA_LIKE if key != "num_key_value_heads"
}


def shipped_configs():
    """A config of each model type that a shipped model has, the smallest file first."""
    files = sorted(
        model_library._FOLDER.glob("*.toml"), key=lambda path: path.stat().st_size, reverse=True
    )
    configs = (tomllib.loads(path.read_text())["config"] for path in files)
    return {config["model_type"]: config for config in configs}


CONFIGS = SAMPLES | shipped_configs() | {"llama": LLAMA}


def build(config, file="config.json"):
    return architecture_from_config(config, name="any", file=file, source="test")


def test_spellings_of_both_generations_mean_the_same():
    old = LLAMA | {"torch_dtype": "float16", "rope_scaling": None, "rope_theta": 1e4}
    new = LLAMA | {
        "dtype": "float16",
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
    }
    assert build(old) == build(new)
    assert build(old).dtype == "fp16"
    deepseek = CONFIGS["deepseek_v3"] | {"num_nextn_predict_layers": 2}
    renamed = {**deepseek, "num_local_experts": deepseek["n_routed_experts"], "num_mtp_layers": 2}
    del renamed["n_routed_experts"], renamed["num_nextn_predict_layers"]
    assert build(deepseek) == build(renamed)
    assert build(deepseek).mtp_layers == 2
    gpt2 = CONFIGS["gpt2"]
    spelled_out = {
        "hidden_size": gpt2["n_embd"],
        "num_hidden_layers": gpt2["n_layer"],
        "num_attention_heads": gpt2["n_head"],
        "max_position_embeddings": gpt2["n_positions"],
    }
    kept = {key: gpt2[key] for key in ("model_type", "vocab_size", "torch_dtype")}
    assert build(gpt2) == build(kept | spelled_out)


def test_yarn_stretches_the_context_unless_the_file_already_says_so():
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    qwen = CONFIGS["qwen2"] | {"max_position_embeddings": 32768}
    assert build(qwen).max_context == 32768
    assert build(qwen | {"rope_scaling": yarn}).max_context == 131072
    assert build(qwen | {"rope_parameters": yarn | {"rope_type": "yarn"}}).max_context == 131072
    assert (
        build(qwen | {"max_position_embeddings": 163840, "rope_scaling": yarn}).max_context
        == 163840
    )
    assert build(qwen | {"rope_scaling": yarn | {"type": "llama3"}}).max_context == 32768


def test_dtype_is_that_of_the_stored_matrices():
    assert build(LLAMA).dtype == "bf16"
    assert build(LLAMA | {"torch_dtype": "torch.float32"}).dtype == "fp32"
    fp8 = {"quantization_config": {"quant_method": "fp8"}, "torch_dtype": "bfloat16"}
    assert build(LLAMA | fp8).dtype == "fp8"
    assert build(LLAMA | {"quantization_config": {"quant_method": "awq"}}).dtype == "bf16"


BAD = [
    ("llama", "hidden_size", -64, "whole number from 1"),
    ("llama", "hidden_size", 0, "whole number from 1"),
    ("llama", "hidden_size", float("nan"), "whole number"),
    ("llama", "hidden_size", 64.0, "whole number"),
    ("llama", "hidden_size", True, "whole number"),
    ("llama", "hidden_size", "64", "whole number"),
    ("llama", "vocab_size", 10**7 + 1, "to 10000000"),
    ("llama", "num_hidden_layers", 10**5, "to 10000"),
    ("llama", "num_hidden_layers", None, "missing"),
    ("llama", "num_key_value_heads", 3, "must divide num_attention_heads (4)"),
    ("llama", "num_attention_heads", 6, "must divide hidden_size (64)"),
    ("llama", "tie_word_embeddings", "yes", "true or false"),
    ("llama", "attention_bias", 1, "true or false"),
    ("llama", "torch_dtype", "int3", "must be one of"),
    ("llama", "rope_scaling", [1], "must be an object"),
    (
        "llama",
        "rope_scaling",
        {"type": "yarn", "original_max_position_embeddings": 4, "factor": -1},
        "factor",
    ),
    ("llama", "quantization_config", "fp8", "must be an object"),
    ("llama", "word_embed_proj_dim", 512, "only embeddings as wide as the layers"),
    ("mixtral", "num_experts_per_tok", 9, "from 1 to 8"),
    ("deepseek_v3", "moe_layer_freq", 2, "only 1 is supported"),
    ("deepseek_v3", "first_k_dense_replace", 62, "from 0 to 61"),
    ("deepseek_v3", "kv_lora_rank", 0, "whole number from 1"),
    ("qwen3_moe", "mlp_only_layers", [99], "layer numbers from 0 to "),
    ("qwen3_moe", "mlp_only_layers", "1", "must be a list"),
    ("gemma2", "layer_types", ["full_attention"], "one entry per layer"),
    (
        "gemma2",
        "layer_types",
        ["mamba"] * CONFIGS["gemma2"]["num_hidden_layers"],
        "must hold only full_attention",
    ),
    ("opt", "do_layer_norm_before", False, "only True is supported"),
    ("llada", "block_type", "sequential", "only 'llama' is supported"),
]


@pytest.mark.parametrize(("model_type", "key", "value", "rule"), BAD)
def test_a_wrong_value_is_named_with_file_key_and_rule(model_type, key, value, rule):
    with pytest.raises(InputError) as caught:
        build(CONFIGS[model_type] | {key: value}, file="some/config.json")
    assert caught.value.exit_code == 2
    assert caught.value.key == key
    assert str(caught.value).startswith(f"some/config.json: {key}: ")
    assert rule in str(caught.value)


@pytest.mark.parametrize("key", sorted(set(LLAMA) - {"model_type"}))
def test_a_missing_key_is_an_error_and_not_a_default(key):
    with pytest.raises(InputError, match="missing") as caught:
        build({name: value for name, value in LLAMA.items() if name != key})
    assert caught.value.key == key


def test_everything_that_is_wrong_with_a_file_is_reported_at_once():
    bad = LLAMA | {
        "hidden_size": -1,
        "vocab_size": "many",
        "torch_dtype": "int3",
        "tie_word_embeddings": 1,
    }
    del bad["num_hidden_layers"]
    with pytest.raises(CollectedError) as caught:
        build(bad, file="some/config.json")
    keys = {error.key for error in caught.value.errors}
    assert keys == {
        "hidden_size",
        "vocab_size",
        "torch_dtype",
        "tie_word_embeddings",
        "num_hidden_layers",
    }
    assert str(caught.value).startswith("some/config.json: 5 things are wrong")
    assert all(f"{key}: " in str(caught.value) for key in keys)
    assert caught.value.exit_code == 2


def test_an_error_about_several_keys_waits_until_each_is_right():
    """One wrong head count is one error, not a second one that heads do not divide the width."""
    with pytest.raises(InputError) as caught:
        build(LLAMA | {"num_attention_heads": "four", "num_key_value_heads": 3})
    assert caught.value.key == "num_attention_heads"


def test_unknown_types_are_answered_with_the_nearest():
    with pytest.raises(
        UnknownNameError, match=r"config.json: model_type: .*'qwen3_mo'.*nearest: qwen3_moe"
    ):
        build(LLAMA | {"model_type": "qwen3_mo"})
    with pytest.raises(InputError, match="must name a model type"):
        build({"hidden_size": 64})
    with pytest.raises(UnknownNameError):
        build({"model_type": "llava", "text_config": {**LLAMA, "model_type": "x" * 10**6}})


def test_keys_of_a_wrapper_are_blamed_where_they_stand():
    with pytest.raises(InputError) as caught:
        build({"model_type": "gemma3", "text_config": {"hidden_size": -1}})
    assert caught.value.key == "text_config.hidden_size"


JUNK = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.lists(st.integers() | st.none(), max_size=7)
    | st.dictionaries(
        st.sampled_from(("type", "rope_type", "factor", "quant_method")),
        st.integers() | st.just("yarn"),
    )
    | st.sampled_from(
        ([{}], {"original_max_position_embeddings": "x", "type": "yarn"}, 10**400, -(10**400))
    )
)
KEYS = sorted(
    {
        "sliding_window",
        "layer_types",
        "head_dim",
        "rope_scaling",
        "text_config",
        "use_sliding_window",
    }
    | {
        "mlp_only_layers",
        "decoder_sparse_step",
        "first_k_dense_replace",
        "q_lora_rank",
        "torch_dtype",
    }
    | {
        "quantization_config",
        "num_nextn_predict_layers",
        "n_shared_experts",
        "max_position_embeddings",
    }
    | {key for name in MODEL_TYPES for key in CONFIGS[name]}
)


@given(st.sampled_from(MODEL_TYPES), st.data())
def test_fuzzed_configs_give_an_architecture_or_an_input_error(model_type, data):
    config = dict(CONFIGS[model_type])
    for key in data.draw(st.sets(st.sampled_from(KEYS), max_size=3)):
        config.pop(key, None)
    config |= data.draw(st.dictionaries(st.sampled_from(KEYS), JUNK, max_size=4))
    try:
        model = build(config)
    except InputError as error:
        assert "config.json" in str(error)
    else:
        assert isinstance(model, Architecture)
        assert 0 < model.active_parameters <= model.parameters


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_fuzzed_files_give_an_input_error(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("fuzz") / "config.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"config\.json"):
        read_hf_config(path)


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        (b"", "not valid JSON"),
        (json.dumps(LLAMA).encode()[:-10], "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"hidden_size": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b"\xff\xfe\x00", "not valid JSON"),
        (b"[1, 2]", "must hold a JSON object"),
        (b" " * (1 << 20) + json.dumps(LLAMA).encode(), "at most 1048576 bytes"),
    ],
)
def test_foreign_truncated_and_oversized_files_are_refused(tmp_path, content, rule):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=rule) as caught:
        read_hf_config(path)
    assert caught.value.file == str(path)


def test_paths_that_hold_no_regular_file_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, rule in (
        (tmp_path, "regular"),
        (tmp_path / "pipe", "regular"),
        (tmp_path / "none", "no such file"),
    ):
        with pytest.raises(InputError, match=rule):
            read_hf_config(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_hf_config("nul\0byte")


def test_a_model_is_named_by_its_place(tmp_path):
    places = {
        "my-model/config.json": "my-model",
        "other.json": "other",
        "models--meta-llama--Llama-3.1-8B/snapshots/0e9e39f/config.json": "Llama-3.1-8B",
    }
    for place, name in places.items():
        path = tmp_path / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\xef\xbb\xbf" + json.dumps(LLAMA).encode())
        model = read_hf_config(path).architecture
        assert (model.name, model.source) == (name, str(path))
