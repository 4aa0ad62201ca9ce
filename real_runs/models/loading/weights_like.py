"""How would a model of this architecture run, whatever it might say?

Random weights in the shapes of any architecture that `costmodel` knows, made where they will lie
and in the number format they will have: what a pass costs depends on shapes, not on values. Such a
stand-in has SiLU gates (GELU where there is no gate), plain rotary positions or learned ones, and
no scaling or capping of logits; layers follow each other in the order that the architecture lists
its blocks. Leaves out weights that mean something.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch

from costmodel.architectures.architecture import Architecture, Block, FeedForward
from costmodel.architectures.attention import Attention
from hardware_profiles.errors import InputError
from real_runs.models.config import LlamaConfig
from real_runs.models.layers import norm_names
from real_runs.models.loading.weights import LoadedWeights

_SCALE = 0.02
_VALUES_AT_ONCE = 1 << 26
Shapes = dict[str, tuple[int, ...]]


def config_like(architecture: Architecture, *, layers: int | None = None) -> LlamaConfig:
    """Shape and conventions of a stand-in.

    Args:
        architecture: what to stand in for.
        layers: the first so many layers alone; None: all.

    Raises:
        InputError: a number of layers that it does not have, or a layer that the forward cannot
            run; the message names the kind of layer.
    """
    blocks = tuple(block for block, count in architecture.blocks for _ in range(count))
    if layers is not None and not 1 <= layers <= len(blocks):
        raise InputError(f"must lie in 1..{len(blocks)}", key="layers", value=layers)
    blocks = blocks[:layers]
    for block in dict.fromkeys(blocks):
        reason = _refusal(block, blocks[0])
        if reason:
            raise InputError(f"{reason} cannot be run", key="model", value=architecture.name)
    attention = blocks[0].attention
    return LlamaConfig(
        vocabulary=architecture.vocab,
        width=architecture.hidden,
        layers=len(blocks),
        heads=attention.heads,
        kv_heads=attention.kv_heads,
        head_dim=attention.kv_width if attention.is_mla else attention.head_dim,
        ffn_width=blocks[0].feed_forward.width,
        tied_head=architecture.tied,
        qk_norm=attention.qk_norm,
        attention_bias=attention.bias,
        max_positions=architecture.max_context,
        blocks=blocks,
        learned_positions=architecture.learned_positions,
    )


def weights_like(
    architecture: Architecture,
    *,
    seed: int = 0,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    layers: int | None = None,
) -> LoadedWeights:
    """Normal random weights for a stand-in; `Llama` of the same device and number format uses them
    in place.

    Args:
        architecture: what to stand in for.
        seed: of the values; they differ between kinds of device.
        device: where they are made; on "meta" they have shapes alone.
        dtype: number format; None: bfloat16.
        layers: the first so many layers alone; None: all.

    Raises:
        InputError: as `config_like`.
    """
    config = config_like(architecture, layers=layers)
    place, kind = torch.device(device), dtype or torch.bfloat16
    generator = None if place.type == "meta" else torch.Generator(device=place).manual_seed(seed)
    tensors = {}
    for name, shape in shapes_like(architecture, config).items():
        tensor = torch.empty(shape, device=place, dtype=kind)
        if "norm" in name and name.endswith("weight"):
            tensor.fill_(1.0)
        elif generator is not None:
            # in pieces, since some kernels keep random numbers in a wider format beside them
            for piece in torch.split(tensor.view(-1), _VALUES_AT_ONCE):
                piece.normal_(0.0, _SCALE, generator=generator)
        tensors[name] = tensor
    digest = hashlib.sha256(f"random seed={seed} scale={_SCALE} {config}".encode()).hexdigest()
    return LoadedWeights(config=config, tensors=tensors, sha256=digest)


def shapes_like(architecture: Architecture, config: LlamaConfig) -> Shapes:
    """Shape of every tensor of a stand-in, projections that share their input joined."""
    width = architecture.hidden
    shapes: Shapes = {
        "model.embed_tokens.weight": (architecture.vocab, width),
        "model.norm.weight": (width,),
    }
    if architecture.learned_positions:
        shapes["model.embed_positions.weight"] = (architecture.learned_positions, width)
    if architecture.final_norm > 1:
        shapes["model.norm.bias"] = (width,)
    if not architecture.tied:
        shapes["lm_head.weight"] = (architecture.vocab, width)
    for layer, block in enumerate(config.blocks):
        named = {
            f"model.layers.{layer}.{name}": shape
            for name, shape in _block_shapes(block, width).items()
        }
        shapes |= named
    return shapes


def _block_shapes(block: Block, width: int) -> Shapes:
    shapes: Shapes = {}
    for name in norm_names(block):
        shapes |= _matrix(name, (width,), (width,) if block.norm_bias else None)
    attention = _latent_shapes if block.attention.is_mla else _grouped_shapes
    shapes |= {
        f"self_attn.{name}": shape for name, shape in attention(block.attention, width).items()
    }
    return shapes | {
        f"mlp.{name}": shape
        for name, shape in _feed_forward_shapes(block.feed_forward, width).items()
    }


def _grouped_shapes(attention: Attention, width: int) -> Shapes:
    joined = attention.query_width + 2 * attention.kv_width
    rank = attention.q_lora_rank
    if rank:
        shapes: Shapes = {"q_a_proj.weight": (rank, width), "q_a_layernorm.weight": (rank,)}
        shapes |= {
            "q_b_proj.weight": (attention.query_width, rank),
            "kv_proj.weight": (2 * attention.kv_width, width),
        }
    else:
        shapes = _matrix("qkv_proj", (joined, width), (joined,) if attention.bias else None)
    shapes |= _matrix(
        "o_proj", (width, attention.output_width), (width,) if attention.output_bias else None
    )
    if attention.qk_norm:
        shapes |= {f"{side}_norm.weight": (attention.head_dim,) for side in "qk"}
    return shapes | ({"sinks": (attention.heads,)} if attention.sinks else {})


def _latent_shapes(attention: Attention, width: int) -> Shapes:
    rank, kv_rank = attention.q_lora_rank, attention.kv_lora_rank
    up_width = attention.heads * (attention.nope_dim + attention.value_dim)
    if rank:
        shapes = _matrix("q_a_proj", (rank, width), (rank,) if attention.bias else None)
        shapes |= {
            "q_a_layernorm.weight": (rank,),
            "q_b_proj.weight": (attention.query_width, rank),
        }
    else:
        shapes = {"q_proj.weight": (attention.query_width, width)}
    bias = (attention.kv_width,) if attention.bias else None
    shapes |= _matrix("kv_a_proj_with_mqa", (attention.kv_width, width), bias)
    shapes |= {"kv_a_layernorm.weight": (kv_rank,), "kv_b_proj.weight": (up_width, kv_rank)}
    return shapes | _matrix(
        "o_proj", (width, attention.output_width), (width,) if attention.output_bias else None
    )


def _feed_forward_shapes(shape: FeedForward, width: int) -> Shapes:
    if not shape.is_moe:
        return _dense_shapes(shape, shape.width, width)
    experts, inner = shape.experts, shape.width
    shapes = _matrix("router", (experts, width), (experts,) if shape.bias else None)
    shapes |= {
        "experts.gate_up_proj": (experts, 2 * inner, width),
        "experts.down_proj": (experts, width, inner),
    }
    if shape.bias:
        shapes |= {
            "experts.gate_up_proj_bias": (experts, 2 * inner),
            "experts.down_proj_bias": (experts, width),
        }
    if shape.shared_width:
        shared = _dense_shapes(shape, shape.shared_width, width)
        shapes |= {f"shared_experts.{name}": shared_shape for name, shared_shape in shared.items()}
    return shapes


def _dense_shapes(shape: FeedForward, inner: int, width: int) -> Shapes:
    name, rows = ("gate_up_proj", 2 * inner) if shape.gated else ("up_proj", inner)
    shapes = _matrix(name, (rows, width), (rows,) if shape.bias else None)
    return shapes | _matrix("down_proj", (width, inner), (width,) if shape.bias else None)


def _matrix(name: str, shape: tuple[int, ...], bias: tuple[int, ...] | None) -> Shapes:
    return {f"{name}.weight": shape} | ({f"{name}.bias": bias} if bias else {})


def _refusal(block: Block, first: Block) -> str:
    """The kind of layer that the forward cannot run; "" where it can."""
    attention, feed_forward = block.attention, block.feed_forward
    reasons: Mapping[str, bool] = {
        "a layer without attention (linear attention, state space)": attention.heads < 1,
        "a recurrent layer": block.state is not None,
        "a gated attention output": attention.gated,
        "a layer that reads another's keys and values": attention.shares_kv,
        "layers with different key/value heads": (attention.kv_heads, attention.kv_width)
        != (first.attention.kv_heads, first.attention.kv_width),
        f"a layer with {block.norms} norms": block.norms not in (2, 4),
        "an indexer that chooses what is attended to": attention.index_tokens > 0,
        "norms over all heads together": attention.qk_norm_joint,
        "adapters, shared layers or inputs of their own": bool(block.extra)
        or attention.input_ratio > 1,
        "values made from keys": attention.value_is_key,
        "experts on a narrower vector": feed_forward.latent > 0,
        "a mixture of experts without gates": feed_forward.is_moe and not feed_forward.gated,
        "latent attention with head norms or sinks": attention.is_mla
        and (attention.qk_norm or attention.sinks),
    }
    return next((reason for reason, applies in reasons.items() if applies), "")
