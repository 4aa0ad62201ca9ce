"""What does a GGUF file of the Llama family hold, in Hugging Face names and row order?

Dequantises every tensor to float32. GGUF stores the query and key rows of the `llama` architecture
for a rotary embedding of neighbouring pairs; they are put back for the half-split form here. Leaves
out the tokenizer.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from numpy.typing import NDArray

from costmodel.architectures.gguf.header import TensorInfo, read_header
from hardware_profiles.errors import InputError
from real_runs.models.config import LlamaConfig, from_gguf

_WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
    "rope_freqs.weight": "rope_frequency_divisors",
}
_IN_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_LONGROPE = {"short": "rope_factors_short.weight", "long": "rope_factors_long.weight"}
_LAYER_TENSOR = re.compile(r"blk\.(\d{1,4})\.(\w+)\.(weight|bias)")


def read_gguf(path: Path) -> tuple[LlamaConfig, dict[str, torch.Tensor]]:
    """Configuration and float32 tensors of a GGUF file.

    Raises:
        InputError: not a GGUF file, a truncated one, or an architecture that is not supported.
    """
    header = read_header(path)
    try:
        stored = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
        arrays = {
            info.name: _float32(stored[header.data_at + info.offset_bytes :], info)
            for info in header.tensors
        }
    # the last for quantisations that cannot be undone
    except (ValueError, IndexError, KeyError, OSError, NotImplementedError) as error:
        raise InputError(f"cannot be read as GGUF ({error})", file=path) from None
    if "token_embd.weight" not in arrays:
        raise InputError("tensor is missing", file=path, key="token_embd.weight")
    config = from_gguf(
        dict(header.metadata),
        tied_head="output.weight" not in arrays,
        vocabulary=int(arrays["token_embd.weight"].shape[0]),
        file=str(path),
        rope_factors={
            side: arrays.pop(name).tolist() for side, name in _LONGROPE.items() if name in arrays
        },
    )
    interleaved = header.metadata["general.architecture"] in ("llama", "mistral")
    tensors: dict[str, torch.Tensor] = {}
    for name, stored in arrays.items():
        target = hugging_face_name(name)
        if target is None:
            raise InputError("tensor is not part of the Llama family", file=path, key=name)
        array = stored
        if interleaved and (".q_proj" in target or ".k_proj" in target):
            array = half_split_rows(
                stored, config.heads if ".q_proj" in target else config.kv_heads
            )
        # a copy, since torch wants to own what it may write to
        tensors[target] = torch.from_numpy(np.array(array, dtype=np.float32, order="C"))
    return config, tensors


def _float32(stored: NDArray[np.uint8], info: TensorInfo) -> NDArray[Any]:
    """A tensor's values, the outermost size first, from the bytes that begin with it."""
    kind = gguf.GGMLQuantizationType(info.kind)
    block_values, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    row_bytes, *rows = info.sizes[0] // block_values * block_bytes, *reversed(info.sizes[1:])
    values: NDArray[Any] = gguf.dequantize(
        stored[: math.prod(rows) * row_bytes].reshape(*rows, row_bytes), kind
    )
    return values


def hugging_face_name(name: str) -> str | None:
    """Hugging Face's name of a GGUF tensor; None where there is none."""
    if name in _WHOLE:
        return _WHOLE[name]
    match = _LAYER_TENSOR.fullmatch(name)
    if match is None or match[2] not in _IN_LAYER:
        return None
    return f"model.layers.{int(match[1])}.{_IN_LAYER[match[2]]}.{match[3]}"


def half_split_rows(array: NDArray[Any], heads: int) -> NDArray[Any]:
    """Undo the interleaving of each head's rotary pairs: rows 0, 2, 4, … then 1, 3, 5, … of
    each.
    """
    rows = array.shape[0]
    return (
        array.reshape(heads, rows // heads // 2, 2, *array.shape[1:])
        .swapaxes(1, 2)
        .reshape(array.shape)
    )
