"""A model that keeps some layers: its tensors and logits are the whole model's, and the engine
drafts with it."""

from dataclasses import replace

import gguf
import numpy as np
import pytest
import torch

from hardware_profiles.errors import InputError
from real_runs.drafters.bridge_fit import fit_bridge
from real_runs.drafters.layer_skip import GapLlama
from real_runs.models.llama import Llama
from real_runs.models.loading.weights import find_model, load_weights
from real_runs.servers.llama_cpp.cut_draft import LAYERS_KEY, cut_draft, read_layers
from real_runs.servers.llama_cpp.fitted_head import RIDGE, head_after
from real_runs.servers.llama_cpp.launch import launched
from tests.real_runs.servers.llama_cpp.asked import greedy


def small_model(path, *, layers=4, changed=(), **tensors):
    """A Llama of a few layers in mixed formats, and what its tensors hold."""
    generator = np.random.default_rng(5)
    writer = gguf.GGUFWriter(path, "llama")
    for add, value in {
        "block_count": layers,
        "embedding_length": 64,
        "feed_forward_length": 96,
        "head_count": 4,
        "head_count_kv": 2,
        "layer_norm_rms_eps": 1e-5,
        "rope_freq_base": 1e4,
        "context_length": 128,
        "name": "small",
        **dict(changed),
    }.items():
        getattr(writer, f"add_{add}")(value)
    shapes = {
        "attn_norm": (64,),
        "ffn_norm": (64,),
        "attn_q": (64, 64),
        "attn_k": (32, 64),
        "attn_v": (32, 64),
        "attn_output": (64, 64),
        "ffn_gate": (96, 64),
        "ffn_up": (96, 64),
        "ffn_down": (64, 96),
    }
    held = {"token_embd.weight": (50, 64), "output_norm.weight": (64,)}
    held |= {
        f"blk.{layer}.{name}.weight": shape
        for layer in range(layers)
        for name, shape in shapes.items()
    }
    for name, shape in held.items():
        array = generator.normal(size=shape).astype(np.float32)
        if len(shape) == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quants.quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def logits(model, ids):
    return model.forward(ids, model.new_cache(len(ids))).logits


def test_what_is_left_are_the_whole_models_own_tensors(tmp_path):
    whole = small_model(tmp_path / "whole.gguf")
    made = cut_draft(whole, tmp_path / "made" / "draft.gguf", (0, 3))
    before, after = (gguf.GGUFReader(file) for file in (whole, made.path))
    old = {tensor.name: tensor for tensor in before.tensors}
    for tensor in after.tensors:
        name = tensor.name.replace("blk.1.", "blk.3.")
        assert tensor.tensor_type == old[name].tensor_type and (tensor.data == old[name].data).all()
    assert len(after.tensors) == 2 + 2 * 9
    assert after.fields["llama.block_count"].contents() == 2 and list(
        after.fields[LAYERS_KEY].contents()
    ) == [0, 3]
    kept = set(before.fields) - {
        "llama.block_count",
        "general.name",
        "GGUF.tensor_count",
        "GGUF.kv_count",
    }
    assert all(before.fields[name].contents() == after.fields[name].contents() for name in kept)
    assert (made.tensor_bytes, made.whole_tensor_bytes) == (
        sum(tensor.n_bytes for tensor in after.tensors),
        sum(tensor.n_bytes for tensor in before.tensors),
    )
    model, draft = (Llama(load_weights(find_model(file))) for file in (whole, made.path))
    torch.testing.assert_close(
        logits(draft, [1, 7, 4]), logits(GapLlama(model, start=1, stop=3), [1, 7, 4])
    )
    again = cut_draft(made.path, tmp_path / "again.gguf", (1,))
    assert again.whole_layers == 2 and list(
        gguf.GGUFReader(again.path).fields[LAYERS_KEY].contents()
    ) == [1]


def test_a_fitted_head_reads_what_the_bridge_carries(tmp_path):
    whole = small_model(tmp_path / "whole.gguf")
    weights = load_weights(find_model(whole))
    texts = np.random.default_rng(1).integers(0, 50, size=(30, 20)).tolist()
    head = head_after(weights, texts, 2)
    made = cut_draft(whole, tmp_path / "draft.gguf", (0, 1), head=head)
    draft = load_weights(find_model(made.path))
    assert (draft.tensors["model.norm.weight"] == 1).all() and not draft.config.tied_head
    stored = draft.tensors["lm_head.weight"]
    assert (stored - torch.from_numpy(head)).abs().max() <= stored.abs().max() / 100
    model = Llama(weights)
    bridge = fit_bridge(model, texts, exit_layer=2, ridge=RIDGE)
    cache = model.new_cache(5)
    state = model.forward([3, 1, 4, 1, 5], cache, logits="none", capture=[2]).hidden[2]
    carried = (
        replace(bridge, bias=torch.zeros_like(bridge.bias))(state)
        * weights.tensors["model.norm.weight"]
    )
    wanted = carried @ weights.tensors["model.embed_tokens.weight"].T
    found = logits(Llama(draft), [3, 1, 4, 1, 5])
    assert torch.corrcoef(torch.stack([wanted.flatten(), found.flatten()]))[0, 1] > 0.999
    assert made.tensor_bytes == sum(tensor.n_bytes for tensor in gguf.GGUFReader(made.path).tensors)


@pytest.mark.parametrize(
    ("layers", "changed", "message"),
    [
        ((), {}, "layers: must be some of 0..3, ascending, and not all"),
        ((0, 1, 2, 3), {}, "and not all"),
        ((2, 1), {}, "ascending"),
        ((0, 4), {}, r"must be some of 0\.\.3"),
        ((0,), {"block_count": 5}, "block_count: must hold tensors of all 5 layers"),
        ((0,), {"expert_count": 8}, "mixtures of experts"),
    ],
)
def test_what_cannot_be_cut_is_refused_and_leaves_nothing(tmp_path, layers, changed, message):
    whole = small_model(tmp_path / "whole.gguf", changed=changed)
    with pytest.raises(InputError, match=message):
        cut_draft(whole, tmp_path / "draft.gguf", layers)
    assert [file.name for file in tmp_path.iterdir()] == ["whole.gguf"]


def test_a_foreign_file_and_the_model_itself_are_refused(tmp_path):
    whole = small_model(tmp_path / "whole.gguf")
    with pytest.raises(InputError, match="must be another file"):
        cut_draft(whole, whole, (0,))
    for size in (0, 10, 400, whole.stat().st_size // 2):
        cut = tmp_path / "cut.gguf"
        cut.write_bytes(whole.read_bytes()[:size])
        with pytest.raises(InputError, match=r"cut\.gguf: (cannot be read as GGUF|must hold)"):
            cut_draft(cut, tmp_path / "draft.gguf", (0,))
    with pytest.raises(InputError, match="cannot be read as GGUF"):
        cut_draft(tmp_path / "none.gguf", tmp_path / "draft.gguf", (0,))


@pytest.mark.parametrize(
    ("text", "layers"), [("3", (0, 1, 2)), ("0-1,5", (0, 1, 5)), ("4,6-7", (4, 6, 7))]
)
def test_layers_are_a_number_or_a_list(text, layers):
    assert read_layers(text) == layers


@pytest.mark.parametrize("text", ["", "-1", "1-", "a", "1,,2", "1-2-3", "99999"])
def test_other_forms_of_layers_are_refused(text):
    with pytest.raises(InputError, match="layers: must be a number of layers, or a list such as"):
        read_layers(text)


@pytest.mark.model
def test_the_engine_drafts_with_what_is_left(shipped, cut, few_layers, tmp_path):
    arguments = [
        "--model",
        str(shipped),
        "--ctx-size",
        "256",
        "--parallel",
        "1",
        "--spec-type",
        "draft-simple",
        "--spec-draft-model",
        str(cut),
        "--spec-draft-n-max",
        "3",
    ]
    prompt = "The quick brown fox jumps over the lazy dog. The quick brown"
    with launched(arguments, folder=tmp_path) as running:
        drafting = greedy(running, prompt, 16, ignore_eos=True)
    with launched(["--model", str(few_layers), "--ctx-size", "256"], folder=tmp_path) as running:
        alone = greedy(running, [1, 504, 2365], 1)
    assert 0 < drafting["timings"]["draft_n_accepted"] < drafting["timings"]["draft_n"]
    ours = Llama(load_weights(find_model(few_layers)))
    best = logits(ours, [1, 504, 2365])[0, -1].topk(2).indices.tolist()
    assert alone["tokens"][0] in best
