"""Which shape and which conventions does a Llama-family model have?

Reads them from a Hugging Face `config.json` or from GGUF metadata. Files of families whose forward
differs (mixtures of experts, sliding windows) are refused by name instead of being run wrongly;
such layers run with random weights alone (`weights_like`). Leaves out the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from costmodel.architectures.architecture import Block, FeedForward
from costmodel.architectures.attention import Attention
from hardware_profiles.errors import InputError
from real_runs.models.rope import RopeScaling, gguf_rope, hf_rope

__all__ = ["FAMILIES", "LlamaConfig", "RopeScaling", "from_gguf", "from_hf", "token_ids"]

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
_PLAIN = RopeScaling()


@dataclass(frozen=True, kw_only=True, slots=True)
class LlamaConfig:
    """Shape and conventions of one decoder-only model.

    Attributes:
        vocabulary: rows of the embedding.
        width: hidden size.
        layers: decoder layers.
        heads: query heads.
        kv_heads: key/value heads; divides `heads`.
        head_dim: width of one head, even.
        ffn_width: inner width of the gated feed-forward.
        norm_eps: added to the mean square in RMSNorm.
        rope_theta: base of the rotary frequencies.
        rope_scaling: stretch of those frequencies.
        tied_head: the output head is the embedding.
        qk_norm: RMSNorm on every query and key head (Qwen3).
        attention_bias: biases on the query, key and value projections (Qwen2).
        max_positions: longest sequence the model was made for.
        eos_ids: tokens that end a generation.
        blocks: what every layer is made of; empty: all are what the fields above say.
        learned_positions: rows of a learned position embedding, which stands in for rotation; 0:
            none.
    """

    vocabulary: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_width: int
    norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    rope_scaling: RopeScaling = _PLAIN
    tied_head: bool = True
    qk_norm: bool = False
    attention_bias: bool = False
    max_positions: int = 8192
    eos_ids: tuple[int, ...] = ()
    blocks: tuple[Block, ...] = ()
    learned_positions: int = 0

    def __post_init__(self) -> None:
        for name in ("vocabulary", "width", "layers", "heads", "kv_heads", "head_dim", "ffn_width"):
            if not 1 <= getattr(self, name) <= 2**24:
                raise InputError("must lie in 1..2^24", key=name, value=getattr(self, name))
        if self.heads % self.kv_heads:
            raise InputError(
                f"must divide the {self.heads} query heads", key="kv_heads", value=self.kv_heads
            )
        if self.head_dim % 2:
            raise InputError(
                "must be even for rotary embedding", key="head_dim", value=self.head_dim
            )
        self.rope_scaling.check(self.head_dim)

    def block(self, layer: int) -> Block:
        """What a layer is made of."""
        if self.blocks:
            return self.blocks[layer]
        attention = Attention(
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            bias=self.attention_bias,
            qk_norm=self.qk_norm,
        )
        return Block(attention=attention, feed_forward=FeedForward(width=self.ffn_width), norms=2)

    @property
    def value_dim(self) -> int:
        """Values stored per token and key/value head beside the key; 0 with latent attention, whose
        key is both.
        """
        return 0 if self.blocks and self.blocks[0].attention.is_mla else self.head_dim

    @property
    def rotated_dim(self) -> int:
        """Width of the part of a head that positions turn."""
        return self.blocks[0].attention.rope_dim if not self.value_dim else self.head_dim


def from_hf(values: Mapping[str, Any], *, file: str | None = None) -> LlamaConfig:
    """Read a Hugging Face `config.json`; keys that are not needed are ignored.

    Raises:
        InputError: another family, a missing key, a sliding window or a rotary scaling that is not
            supported.
    """
    family = values.get("model_type")
    if family not in FAMILIES:
        raise InputError(
            f"must be one of {', '.join(FAMILIES)}", file=file, key="model_type", value=family
        )
    if values.get("sliding_window") and values.get("use_sliding_window", family == "mistral"):
        raise InputError(
            "sliding windows are not supported",
            file=file,
            key="sliding_window",
            value=values["sliding_window"],
        )
    if values.get("hidden_act", "silu") != "silu" or values.get("mlp_bias"):
        raise InputError(
            "only the SiLU-gated feed-forward without biases is supported",
            file=file,
            key="hidden_act",
            value=values.get("hidden_act"),
        )
    if family in ("llama", "mistral", "qwen3") and values.get("attention_bias"):
        raise InputError(
            "attention biases are supported for qwen2 alone",
            file=file,
            key="attention_bias",
            value=True,
        )
    try:
        heads, width = int(values["num_attention_heads"]), int(values["hidden_size"])
        positions = int(values.get("max_position_embeddings", 8192))
        theta, scaling = hf_rope(values, positions)
        return LlamaConfig(
            vocabulary=int(values["vocab_size"]),
            width=width,
            layers=int(values["num_hidden_layers"]),
            heads=heads,
            kv_heads=int(values.get("num_key_value_heads") or heads),
            head_dim=int(values.get("head_dim") or width // heads),
            ffn_width=int(values["intermediate_size"]),
            norm_eps=float(values.get("rms_norm_eps", 1e-6)),
            rope_theta=theta,
            rope_scaling=scaling,
            tied_head=bool(values.get("tie_word_embeddings", False)),
            qk_norm=family == "qwen3",
            attention_bias=family == "qwen2",
            max_positions=positions,
            eos_ids=token_ids(values.get("eos_token_id")),
        )
    except KeyError as error:
        raise InputError("is missing", file=file, key=str(error.args[0])) from None
    except (TypeError, ValueError, ZeroDivisionError) as error:
        raise InputError(f"holds a value of the wrong type ({error})", file=file) from None
    except InputError as error:
        raise InputError(error.message, file=file, key=error.key, value=error.value) from None


def from_gguf(
    metadata: Mapping[str, Any],
    *,
    tied_head: bool,
    vocabulary: int,
    file: str | None = None,
    rope_factors: Mapping[str, Sequence[float]] | None = None,
) -> LlamaConfig:
    """Read GGUF metadata (`key -> value`).

    Args:
        metadata: scalar metadata of the file.
        tied_head: the file holds no tensor `output.weight`.
        vocabulary: rows of the embedding tensor.
        file: named in errors.
        rope_factors: the file's LongRoPE factors, "short" and "long", where it has them.

    Raises:
        InputError: another architecture, a missing key or a rotary scaling that is not supported.
    """
    family = metadata.get("general.architecture")
    if family not in FAMILIES:
        raise InputError(
            f"must be one of {', '.join(FAMILIES)}",
            file=file,
            key="general.architecture",
            value=family,
        )
    if metadata.get(f"{family}.expert_count"):
        raise InputError(
            "mixtures of experts are not supported", file=file, key=f"{family}.expert_count"
        )
    if metadata.get(f"{family}.attention.sliding_window"):
        raise InputError(
            "sliding windows are not supported", file=file, key=f"{family}.attention.sliding_window"
        )
    try:
        heads, width = (
            int(metadata[f"{family}.attention.head_count"]),
            int(metadata[f"{family}.embedding_length"]),
        )
        positions = int(metadata.get(f"{family}.context_length", 8192))
        return LlamaConfig(
            vocabulary=vocabulary,
            width=width,
            layers=int(metadata[f"{family}.block_count"]),
            heads=heads,
            kv_heads=int(metadata.get(f"{family}.attention.head_count_kv", heads)),
            head_dim=int(metadata.get(f"{family}.attention.key_length", width // heads)),
            ffn_width=int(metadata[f"{family}.feed_forward_length"]),
            norm_eps=float(metadata[f"{family}.attention.layer_norm_rms_epsilon"]),
            rope_theta=float(metadata.get(f"{family}.rope.freq_base", 10000.0)),
            rope_scaling=gguf_rope(metadata, str(family), positions, rope_factors or {}),
            tied_head=tied_head,
            qk_norm=family == "qwen3",
            attention_bias=family == "qwen2",
            max_positions=positions,
            eos_ids=token_ids(metadata.get("tokenizer.ggml.eos_token_id")),
        )
    except KeyError as error:
        raise InputError("is missing", file=file, key=str(error.args[0])) from None
    except InputError as error:
        raise InputError(error.message, file=file, key=error.key, value=error.value) from None


def token_ids(value: object) -> tuple[int, ...]:
    """A token id, a list of them or nothing, as a tuple.

    Raises:
        InputError: anything else.
    """
    if value is None:
        return ()
    if isinstance(value, (list, tuple)):
        return tuple(int(item) for item in value)
    if isinstance(value, int):
        return (value,)
    raise InputError("must be a token id or a list of them", key="eos_token_id", value=value)
