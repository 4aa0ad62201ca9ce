"""What does a Llama-family model say comes next, and what did it think after layer E?

One small forward: RMSNorm, rotary embedding, grouped-query attention over a static cache, SiLU-gated
feed-forward. Tokens may form a chain (causal) or a tree (explicit positions and mask), and a pass may stop
after any layer, which is what an early exit needs. Leaves out training, quantised weights and batches of
unequal length.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch.nn import functional

from hardware_profiles.errors import InputError
from real_runs.models.cache import KVCache
from real_runs.models.config import LlamaConfig
from real_runs.models.weights import LoadedWeights


@dataclass(frozen=True, kw_only=True, slots=True)
class PassOutput:
    """Result of one pass over T tokens.

    Attributes:
        logits: float32 [B, T or 1, vocabulary]; None where none were asked for.
        hidden: hidden states [B, T, width] by the number of layers run before them.
    """

    logits: torch.Tensor | None
    hidden: dict[int, torch.Tensor] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Layer:
    input_norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    output: torch.Tensor
    ffn_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


class Llama:
    """A model ready to run.

    Args:
        weights: configuration and tensors.
        device: where to run.
        dtype: number format of weights, activations and cache.
    """

    def __init__(
        self,
        weights: LoadedWeights,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.config = weights.config
        self.device, self.dtype = torch.device(device), dtype
        tensors = {name: value.to(self.device, dtype) for name, value in weights.tensors.items()}
        self._embedding = tensors["model.embed_tokens.weight"]
        self._norm = tensors["model.norm.weight"]
        self._head = self._embedding if self.config.tied_head else tensors["lm_head.weight"]
        self._layers = [_fused_layer(tensors, f"model.layers.{i}") for i in range(self.config.layers)]
        self._frequencies = rope_frequencies(self.config)
        if "rope_frequency_divisors" in weights.tensors:
            self._frequencies = self._frequencies / weights.tensors["rope_frequency_divisors"].double()
        self._cos, self._sin = self._rope_table(1024)

    def new_cache(self, capacity: int, *, batch: int = 1) -> KVCache:
        """An empty cache of this model's shape and number format."""
        return KVCache(self.config, capacity, batch=batch, device=self.device, dtype=self.dtype)

    @torch.inference_mode()
    def forward(
        self,
        tokens: torch.Tensor | Sequence[int],
        cache: KVCache,
        *,
        start: int | None = None,
        positions: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
        logits: Literal["all", "last", "none"] = "all",
        capture: Sequence[int] = (),
        stop_after: int | None = None,
    ) -> PassOutput:
        """One pass. Writes the cache's slots from `start` on and commits none of them.

        Args:
            tokens: ids [B, T], or T ids for a batch of one.
            cache: keys and values of the tokens before them.
            start: first slot to write; the cache's length by default.
            positions: position of every token [T]; slots by default. Siblings of a tree share one.
            mask: bool [T, start + T], True where a token sees a slot; causal by default.
            logits: for all tokens, the last one, or none.
            capture: layer counts whose hidden states to return (0 = embedding, `layers` = before the final
                norm).
            stop_after: run this many layers only; needs `logits="none"`.
        """
        ids = torch.as_tensor(tokens, device=self.device)
        ids = ids[None] if ids.ndim == 1 else ids
        first = cache.length if start is None else start
        layers = self.config.layers if stop_after is None else stop_after
        if not 0 <= layers <= self.config.layers or (layers < self.config.layers and logits != "none"):
            rule = "must not exceed the layers; logits need all of them"
            raise InputError(rule, key="stop_after", value=layers)
        rotation = self._rotation(first, ids.shape[1], positions)
        seen = self._attention_mask(first, ids.shape[1], mask)
        x = functional.embedding(ids, self._embedding)  # [B, T, width]
        hidden = {0: x} if 0 in capture else {}
        for index in range(layers):
            x = self._layer(index, x, cache, start=first, rotation=rotation, mask=seen)
            if index + 1 in capture:
                hidden[index + 1] = x
        if logits == "none":
            return PassOutput(logits=None, hidden=hidden)
        return PassOutput(logits=self.head(x if logits == "all" else x[:, -1:]), hidden=hidden)

    @torch.inference_mode()
    def head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Final norm and output head: hidden states [..., width] to float32 logits [..., vocabulary]."""
        return functional.linear(self._rms_norm(hidden, self._norm), self._head).float()

    def _layer(
        self,
        index: int,
        x: torch.Tensor,
        cache: KVCache,
        *,
        start: int,
        rotation: tuple[torch.Tensor, torch.Tensor],
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        layer, config = self._layers[index], self.config
        batch, count = x.shape[:2]
        stop = start + count
        qkv = functional.linear(self._rms_norm(x, layer.input_norm), layer.qkv, layer.qkv_bias)
        heads = qkv.view(batch, count, config.heads + 2 * config.kv_heads, config.head_dim).transpose(1, 2)
        sizes = [config.heads, config.kv_heads, config.kv_heads]
        q, k, v = torch.split(heads, sizes, dim=1)  # each [B, heads, T, head dim]
        if layer.q_norm is not None and layer.k_norm is not None:
            q, k = self._rms_norm(q, layer.q_norm), self._rms_norm(k, layer.k_norm)
        cache.write(index, start, _rotated(k, rotation), v)
        # the query heads of a group are stacked as rows, so that their keys and values are read once
        packed = _rotated(q, rotation).reshape(batch, config.kv_heads, -1, config.head_dim)
        attended = functional.scaled_dot_product_attention(
            packed, cache.keys[index, :, :, :stop], cache.values[index, :, :, :stop], attn_mask=mask
        )
        attended = attended.reshape(batch, config.heads, count, config.head_dim).transpose(1, 2)
        x = x + functional.linear(attended.reshape(batch, count, -1), layer.output)
        gate, up = functional.linear(self._rms_norm(x, layer.ffn_norm), layer.gate_up).chunk(2, dim=-1)
        return x + functional.linear(functional.silu(gate) * up, layer.down)

    def _rms_norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, (weight.shape[0],), weight, self.config.norm_eps)

    def _attention_mask(self, start: int, count: int, mask: torch.Tensor | None) -> torch.Tensor | None:
        if mask is None:
            if count == 1:
                return None
            slots = torch.arange(start + count, device=self.device)
            mask = slots[None] <= (start + torch.arange(count, device=self.device))[:, None]
        if mask.shape != (count, start + count):
            raise InputError(f"must have shape {(count, start + count)}", key="mask", value=tuple(mask.shape))
        group = self.config.heads // self.config.kv_heads
        return mask.to(self.device).repeat(group, 1)[None, None]  # [1, 1, group · T, slots]

    def _rotation(self, start: int, count: int, positions: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        at = torch.arange(start, start + count, device=self.device) if positions is None else positions.to(self.device)
        furthest = int(at.max()) + 1
        if furthest > self._cos.shape[0]:
            self._cos, self._sin = self._rope_table(2 * furthest)
        return self._cos[at], self._sin[at]

    def _rope_table(self, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
        angles = torch.arange(positions, dtype=torch.float64)[:, None] * self._frequencies
        both = torch.cat([angles, angles], dim=-1)
        return both.cos().to(self.device, self.dtype), both.sin().to(self.device, self.dtype)


def rope_frequencies(config: LlamaConfig) -> torch.Tensor:
    """Rotary frequencies, radians per position, float64 [head_dim / 2].

    Reference: Su et al., RoFormer, arXiv 2104.09864, eq. 15; "llama3" interpolates between the plain and
        the divided
    frequency where a wavelength lies between two shares of the original context length.
    """
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float64) / config.head_dim
    plain = config.rope_theta**-exponents
    scaling = config.rope_scaling
    if scaling.kind == "default":
        return plain
    if scaling.kind == "linear":
        return plain / scaling.factor
    turns = plain * scaling.original_positions / (2 * math.pi)
    low, high = scaling.low_frequency_factor, scaling.high_frequency_factor
    kept = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return kept * plain + (1 - kept) * plain / scaling.factor


def _rotated(x: torch.Tensor, rotation: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    cos, sin = rotation
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


def _fused_layer(tensors: dict[str, torch.Tensor], at: str) -> _Layer:
    projections = [f"{at}.self_attn.{x}_proj" for x in "qkv"]
    biased = f"{projections[0]}.bias" in tensors
    return _Layer(
        input_norm=tensors[f"{at}.input_layernorm.weight"],
        qkv=torch.cat([tensors[f"{name}.weight"] for name in projections]),
        qkv_bias=torch.cat([tensors[f"{name}.bias"] for name in projections]) if biased else None,
        q_norm=tensors.get(f"{at}.self_attn.q_norm.weight"),
        k_norm=tensors.get(f"{at}.self_attn.k_norm.weight"),
        output=tensors[f"{at}.self_attn.o_proj.weight"],
        ffn_norm=tensors[f"{at}.post_attention_layernorm.weight"],
        gate_up=torch.cat([tensors[f"{at}.mlp.{x}_proj.weight"] for x in ("gate", "up")]),
        down=tensors[f"{at}.mlp.down_proj.weight"],
    )
