"""Which architecture does a GGUF file hold, and in which number formats are its weights?

Keys of the file's metadata become those of a Hugging Face config, so that one reader judges both.
The number format is read tensor by tensor: one, or a mix, for every part. Leaves out families whose
keys say other things (latent attention, hybrids): for those name the model and state `--dtype
q4_k_m`.
"""

from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

from costmodel.architectures.gguf.header import TYPES, Header, TensorInfo, read_header
from costmodel.architectures.hf.config import Reading, read_config
from costmodel.architectures.part_formats import PartFormats, mixed
from hardware_profiles.errors import InputError, UnknownNameError

_FAMILIES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3moe": "qwen3_moe"}
_KEYS = {
    "block_count": "num_hidden_layers",
    "embedding_length": "hidden_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
}
_EMBEDDING, _HEAD = "token_embd.weight", "output.weight"
_EXPERTS = (
    "ffn_gate_exps.weight",
    "ffn_up_exps.weight",
    "ffn_down_exps.weight",
    "ffn_gate_up_exps.weight",
)


def read_gguf_model(path: Path) -> tuple[Reading, list[str]]:
    """The architecture of a GGUF file, with its weights' format, and names it may be known by, the
    likeliest first.

    Args:
        path: file; only its header is read.

    Raises:
        InputError: not such a file, a family that is not read from GGUF, or a key that is missing
            or out of range.
    """
    header = read_header(path)
    family = header.metadata.get("general.architecture")
    if family not in _FAMILIES:
        error = UnknownNameError("architecture", str(family)[:80], list(_FAMILIES), file=path)
        error.message += "; name the model and give its format with --dtype instead"
        raise error
    if family == "llama" and header.metadata.get("llama.expert_count"):
        raise InputError(
            "mixtures of experts of this family are not read from GGUF",
            file=path,
            key="expert_count",
        )
    shapes = {info.name: info.sizes for info in header.tensors}
    if len(shapes.get(_EMBEDDING, ())) != 2:
        raise InputError(
            "must be a matrix", file=path, key=_EMBEDDING, value=shapes.get(_EMBEDDING)
        )
    config: dict[str, object] = {
        "model_type": _FAMILIES[str(family)],
        "vocab_size": shapes[_EMBEDDING][1],
        "tie_word_embeddings": _HEAD not in shapes,
    }
    for key, name in _KEYS.items():
        value = header.metadata.get(f"{family}.{key}")
        if value is not None:
            config[name] = value
    if "intermediate_size" not in config:
        config["intermediate_size"] = config.get("moe_intermediate_size")
    reading = read_config(config, name=path.stem, file=str(path), source=str(path))
    own = replace(
        reading, architecture=replace(reading.architecture, dtype=weight_format(header, path))
    )
    parts = [str(header.metadata.get(f"general.{key}", "")) for key in ("basename", "size_label")]
    names = "-".join(filter(None, parts)), str(header.metadata.get("general.name", "")), path.stem
    return own, [name for name in names if name]


def weight_format(header: Header, file: Path) -> str:
    """The number formats of the matrices, part by part, each one format or the mix with the share
    of the weights.

    Norms and biases, some ten thousandths of the weights, count as if they were in it. A head that
    is the embedding has its format.

    Args:
        header: of the file.
        file: name for messages.

    Raises:
        InputError: a type of tensor that stands for no number format.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for info in header.tensors:
        if len(info.sizes) > 1:
            counts[_part(info.name)][_format(info, file)] += info.values
    if not counts:
        raise InputError("holds no matrices", file=file)
    form = {part: mixed(values) for part, values in counts.items()}
    embedding = form.get("embedding", "")
    head = form.get("head", embedding)
    matrices = form.get("matrices") or form.get("experts") or head
    parts = {"experts": form.get("experts"), "head": head, "embedding": embedding}
    return PartFormats(
        matrices, **{part: name for part, name in parts.items() if name and name != matrices}
    ).word


def _part(tensor: str) -> str:
    if tensor == _HEAD:
        return "head"
    if tensor.endswith(_EXPERTS):
        return "experts"
    return "embedding" if tensor == _EMBEDDING else "matrices"


def _format(info: TensorInfo, file: Path) -> str:
    if info.kind not in TYPES:
        formats = ", ".join(f"{name} ({kind})" for kind, name in TYPES.items())
        raise InputError(
            f"must have one of the types {formats}", file=file, key=info.name[:80], value=info.kind
        )
    return TYPES[info.kind]
