"""Which tensors make up one layer, and what does the layer compute?

Joins the tensors of a file, or of random weights, into layers that run: projections that share
their input become one. Leaves out the cache and the passes (`llama`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.nn import functional

from costmodel.architectures.architecture import Block, FeedForward
from costmodel.architectures.attention import Attention
from real_runs.models.attention import GroupedAttention, VisibleSlots
from real_runs.models.cache import KVCache, Slots
from real_runs.models.config import LlamaConfig
from real_runs.models.feed_forward import Dense, Experts
from real_runs.models.latent_attention import LatentAttention
from real_runs.models.projection import FactoredQuery, Projection
from real_runs.models.rotary import Angles

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Norm:
    """RMSNorm, or LayerNorm where there is a bias.

    Attributes:
        weight: [width].
        bias: [width], or None.
        eps: added to the mean square or to the variance.
    """

    weight: torch.Tensor
    bias: torch.Tensor | None
    eps: float

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Normed vectors [..., width]."""
        shape = self.weight.shape
        if self.bias is None:
            return functional.rms_norm(x, shape, self.weight, self.eps)
        return functional.layer_norm(x, shape, self.weight, self.bias, self.eps)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ModelLayer:
    """One layer: attention and feed-forward, each behind a norm and perhaps before another.

    Attributes:
        attention: what a token takes from others.
        feed_forward: what happens to a token by itself.
        before_attention: norm of its input.
        before_feed_forward: norm of its input.
        after_attention: norm of its result before it is added, or None.
        after_feed_forward: the same, or None.
        bytes: memory of the layer's weights.
    """

    attention: GroupedAttention | LatentAttention
    feed_forward: Dense | Experts
    before_attention: Norm
    before_feed_forward: Norm
    after_attention: Norm | None
    after_feed_forward: Norm | None
    bytes: int

    def __call__(
        self,
        index: int,
        x: torch.Tensor,
        cache: KVCache,
        *,
        start: int | Slots,
        angles: Angles,
        visible: VisibleSlots,
    ) -> torch.Tensor:
        """The layer's result [B, T, width] as layer `index` of the cache."""
        added = x if self.after_attention is None else None
        attended = self.attention(
            index,
            self.before_attention(x),
            cache,
            start=start,
            angles=angles,
            visible=visible,
            residual=added,
        )
        x = attended if self.after_attention is None else x + self.after_attention(attended)
        normed = self.before_feed_forward(x)
        if self.after_feed_forward is None:
            return self.feed_forward(normed, x)
        return x + self.after_feed_forward(self.feed_forward(normed))

    @property
    def input_norm(self) -> torch.Tensor:
        """Weight of the norm before attention."""
        return self.before_attention.weight

    @property
    def ffn_norm(self) -> torch.Tensor:
        """Weight of the norm before the feed-forward."""
        return self.before_feed_forward.weight

    @property
    def qkv(self) -> torch.Tensor:
        """Query, key and value projection [outputs, width] of a grouped-query layer."""
        assert isinstance(self.attention, GroupedAttention) and isinstance(
            self.attention.qkv, Projection
        )
        return self.attention.qkv.weight

    @property
    def output(self) -> torch.Tensor:
        """Output projection [width, inputs]."""
        return self.attention.output.weight

    @property
    def gate_up(self) -> torch.Tensor:
        """Gate and up projection [2 · inner width, width] of a dense layer."""
        assert isinstance(self.feed_forward, Dense)
        return self.feed_forward.first.weight

    @property
    def down(self) -> torch.Tensor:
        """Down projection [width, inner width] of a dense layer."""
        assert isinstance(self.feed_forward, Dense)
        return self.feed_forward.down.weight


def layer_of(config: LlamaConfig, index: int, tensors: Tensors) -> ModelLayer:
    """The layer that tensors named `model.layers.{index}.…` make up."""
    at, block, eps = f"model.layers.{index}.", config.block(index), config.norm_eps
    own = {name.removeprefix(at): tensor for name, tensor in tensors.items() if name.startswith(at)}

    def norm(name: str) -> Norm:
        return Norm(weight=own[f"{name}.weight"], bias=own.get(f"{name}.bias"), eps=eps)

    four = block.norms == 4
    return ModelLayer(
        attention=_attention(block.attention, own, eps, rotates=not config.learned_positions),
        feed_forward=_feed_forward(block.feed_forward, own),
        before_attention=norm("input_layernorm"),
        before_feed_forward=norm(norm_names(block)[2 if four else 1]),
        after_attention=norm("post_attention_layernorm") if four else None,
        after_feed_forward=norm("post_feedforward_layernorm") if four else None,
        bytes=sum(tensor.nbytes for tensor in own.values()),
    )


def norm_names(block: Block) -> tuple[str, ...]:
    """Names of a layer's norms over the residual vector: two, or four where results are normed as
    well.
    """
    names = ("input_layernorm", "post_attention_layernorm")
    return (
        names
        if block.norms == 2
        else (*names, "pre_feedforward_layernorm", "post_feedforward_layernorm")
    )


def _attention(
    shape: Attention, own: Tensors, eps: float, *, rotates: bool
) -> GroupedAttention | LatentAttention:
    at = "self_attn"
    output = Projection(own[f"{at}.o_proj.weight"], own.get(f"{at}.o_proj.bias"))
    if shape.is_mla:
        query = "q_a_proj" if shape.q_lora_rank else "q_proj"
        return LatentAttention(
            shape=shape,
            query=Projection(own[f"{at}.{query}.weight"], own.get(f"{at}.{query}.bias")),
            query_norm=own.get(f"{at}.q_a_layernorm.weight"),
            query_up=Projection(own[f"{at}.q_b_proj.weight"]) if shape.q_lora_rank else None,
            latent=Projection(
                own[f"{at}.kv_a_proj_with_mqa.weight"], own.get(f"{at}.kv_a_proj_with_mqa.bias")
            ),
            latent_norm=own[f"{at}.kv_a_layernorm.weight"],
            up=own[f"{at}.kv_b_proj.weight"].view(
                shape.heads, shape.nope_dim + shape.value_dim, -1
            ),
            output=output,
            norm_eps=eps,
        )
    return GroupedAttention(
        shape=shape,
        qkv=_factored(own, at, eps) if shape.q_lora_rank else _joint(own, at),
        output=output,
        q_norm=own.get(f"{at}.q_norm.weight"),
        k_norm=own.get(f"{at}.k_norm.weight"),
        sinks=own.get(f"{at}.sinks"),
        norm_eps=eps,
        rotates=rotates,
    )


def _joint(own: Tensors, at: str) -> Projection:
    weight = _joined(own, at, "qkv_proj", ("q_proj", "k_proj", "v_proj"), "weight")
    assert weight is not None
    return Projection(weight, _joined(own, at, "qkv_proj", ("q_proj", "k_proj", "v_proj"), "bias"))


def _factored(own: Tensors, at: str, eps: float) -> FactoredQuery:
    down, up, kv = (
        Projection(own[f"{at}.{name}.weight"]) for name in ("q_a_proj", "q_b_proj", "kv_proj")
    )
    return FactoredQuery(down, own[f"{at}.q_a_layernorm.weight"], up, kv, eps)


def _feed_forward(shape: FeedForward, own: Tensors) -> Dense | Experts:
    if not shape.is_moe:
        return _dense(own, "mlp", shape.gated)
    return Experts(
        router=Projection(own["mlp.router.weight"], own.get("mlp.router.bias")),
        first=own["mlp.experts.gate_up_proj"],
        down=own["mlp.experts.down_proj"],
        first_bias=own.get("mlp.experts.gate_up_proj_bias"),
        down_bias=own.get("mlp.experts.down_proj_bias"),
        shared=_dense(own, "mlp.shared_experts", True) if shape.shared_width else None,
        per_token=shape.experts_per_token,
    )


def _dense(own: Tensors, at: str, gated: bool) -> Dense:
    joined, parts = (
        ("gate_up_proj", ("gate_proj", "up_proj")) if gated else ("up_proj", ("up_proj",))
    )
    weight = _joined(own, at, joined, parts, "weight")
    assert weight is not None
    first = Projection(weight, _joined(own, at, joined, parts, "bias"))
    return Dense(
        first=first,
        down=Projection(own[f"{at}.down_proj.weight"], own.get(f"{at}.down_proj.bias")),
        gated=gated,
    )


def _joined(
    own: Tensors, at: str, joined: str, parts: tuple[str, ...], kind: str
) -> torch.Tensor | None:
    """Projections as one matrix or bias, whether they are stored so or one by one."""
    stored = own.get(f"{at}.{joined}.{kind}")
    if stored is not None or f"{at}.{parts[0]}.{kind}" not in own:
        return stored
    return torch.cat([own[f"{at}.{part}.{kind}"] for part in parts])
