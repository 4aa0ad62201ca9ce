"""What does one trainable decoder layer do?

A layer of a Llama's shape as a torch module: the same function as the engine's, split where keys
and values meet a cache, and with gradients. Leaves out stacks of layers, query/key norms and
attention biases.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional

from hardware_profiles.errors import InputError
from real_runs.models.config import LlamaConfig, RopeScaling
from real_runs.models.llama import Llama, rope_frequencies

Rotation = tuple[torch.Tensor, torch.Tensor]
_INITIAL_SCALE = 0.02
_ROPE_KINDS = ("default", "linear", "llama3")
_WEIGHTS = ("input_norm", "ffn_norm", "qkv", "output", "gate_up", "down")


class DecoderLayer(nn.Module):
    """Attention and gated feed-forward around one residual stream.

    Args:
        config: shape and conventions.
        generator: of the initial weights; both outputs start at zero, so that the layer starts as
            the identity.
    """

    def __init__(self, config: LlamaConfig, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.config = config
        width, head_dim = config.width, config.head_dim
        self.input_norm = nn.Parameter(torch.ones(width))
        self.ffn_norm = nn.Parameter(torch.ones(width))
        self.qkv = initial((config.heads + 2 * config.kv_heads) * head_dim, width, generator)
        self.output = nn.Parameter(torch.zeros(width, config.heads * head_dim))
        self.gate_up = initial(2 * config.ffn_width, width, generator)
        self.down = nn.Parameter(torch.zeros(width, config.ffn_width))

    def heads(
        self, x: torch.Tensor, rotation: Rotation
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries [B, heads, T, head dim], keys and values [B, kv heads, T, head dim] of x [B, T,
        width].
        """
        config = self.config
        qkv = functional.linear(self._norm(x, self.input_norm), self.qkv)
        qkv = qkv.view(*x.shape[:2], config.heads + 2 * config.kv_heads, config.head_dim).transpose(
            1, 2
        )
        q, k, v = torch.split(qkv, [config.heads, config.kv_heads, config.kv_heads], dim=1)
        return rotated(q, rotation), rotated(k, rotation), v

    def mixed(
        self,
        x: torch.Tensor,
        q: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """The layer's result [B, T, width]; keys and values [B, kv heads, S, head dim], mask bool
        [T, S].
        """
        batch, count = x.shape[:2]
        group = self.config.heads // self.config.kv_heads
        packed = q.reshape(batch, self.config.kv_heads, group * count, self.config.head_dim)
        attended = functional.scaled_dot_product_attention(
            packed, keys, values, attn_mask=mask.repeat(group, 1)
        )
        attended = (
            attended.reshape(batch, self.config.heads, count, -1)
            .transpose(1, 2)
            .reshape(batch, count, -1)
        )
        x = x + functional.linear(attended, self.output)
        gate, up = functional.linear(self._norm(x, self.ffn_norm), self.gate_up).chunk(2, dim=-1)
        return x + functional.linear(functional.silu(gate) * up, self.down)

    def copy_from(self, model: Llama, index: int) -> None:
        """Take over the weights of one of a model's layers."""
        source = model._layers[index]
        with torch.no_grad():
            for name in _WEIGHTS:
                getattr(self, name).copy_(getattr(source, name))

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, (weight.shape[0],), weight, self.config.norm_eps)


def layer_config(config: LlamaConfig, layers: int) -> LlamaConfig:
    """The shape of `layers` trainable layers beside a target of any shape: plain ones of its sizes.

    Rotary scalings that change with the length of a text are left out; such layers are trained as
    they run.
    """
    kept = config.rope_scaling.kind in _ROPE_KINDS
    return replace(
        config,
        layers=layers,
        rope_scaling=config.rope_scaling if kept else RopeScaling(),
        qk_norm=False,
        attention_bias=False,
        blocks=(),
        learned_positions=0,
    )


def has_plain_layers(config: LlamaConfig) -> bool:
    """Whether a target's layers are of the one kind that can be trained here, so that they can be
    copied.
    """
    return not (
        config.blocks or config.qk_norm or config.attention_bias or config.learned_positions
    )


def frozen_layers(model: Llama) -> list[DecoderLayer]:
    """A target's own layers as modules that pass gradients on and take none; float32 weights on a
    CPU are shared.

    Raises:
        InputError: a family whose layers cannot run here.
    """
    if not has_plain_layers(model.config) or model.config.rope_scaling.kind not in _ROPE_KINDS:
        raise InputError(
            "only plain Llama layers, without query norms or biases, pass gradients on", key="model"
        )
    layers = []
    for source in model._layers:
        layer = DecoderLayer(model.config)
        for name in _WEIGHTS:
            setattr(
                layer, name, nn.Parameter(getattr(source, name).float().cpu(), requires_grad=False)
            )
        layers.append(layer)
    return layers


def initial(rows: int, columns: int, generator: torch.Generator | None) -> nn.Parameter:
    """Small normal weights [rows, columns], standard deviation `_INITIAL_SCALE`."""
    return nn.Parameter(torch.randn(rows, columns, generator=generator) * _INITIAL_SCALE)


def rotation(config: LlamaConfig, positions: torch.Tensor) -> Rotation:
    """Cosines and sines [T, head dim] of positions [T]."""
    angles = positions.double()[:, None] * rope_frequencies(config)
    both = torch.cat([angles, angles], dim=-1)
    return both.cos().float(), both.sin().float()


def rotated(x: torch.Tensor, by: Rotation) -> torch.Tensor:
    """Rotary embedding of x [..., T, head dim] by the cosines and sines of `rotation`."""
    first, second = x.chunk(2, dim=-1)
    return x * by[0] + torch.cat([-second, first], dim=-1) * by[1]


def embedded(model: Llama, tokens: torch.Tensor) -> torch.Tensor:
    """The target's embedding of ids [...], float32 [..., width]."""
    return functional.embedding(tokens.to(model.device), model._embedding).float().cpu()


def head_logits(model: Llama, states: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """The target's norm and some rows of its head: states [..., width] to logits [..., ids], with
    gradients.
    """
    normed = model._final_norm(states.to(model.device, model.dtype)).float().cpu()
    return functional.linear(normed, model._head[ids.to(model.device)].float().cpu())
