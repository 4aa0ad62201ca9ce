"""How does a token attend to those before it?

Grouped-query attention over the static cache, and the masks of a pass. The query heads of a group
are stacked as rows against their one key/value head, so that keys and values are read once. Leaves
out latent attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch.nn import functional

from costmodel.architectures.attention import Attention
from real_runs.models.cache import KVCache, Slots
from real_runs.models.prefix_attention import chain_attended, prefix_attended
from real_runs.models.projection import FactoredQuery, Projection
from real_runs.models.rotary import Angles, rotated


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class VisibleSlots:
    """Which slots the tokens of a pass see.

    Attributes:
        full: bool [1 or B, 1, group · T, S]; None: all of them.
        windows: the same for layers with a window, by its length.
        chain: the tokens are the last ones of the cache and each sees all before it; nothing else
            is needed.
        settled: slots that all tokens see, where `tail` says what they see of the others.
        tail: bias of `prefix_attention.tail_bias`.
    """

    full: torch.Tensor | None = None
    windows: Mapping[int, torch.Tensor | None] = field(default_factory=dict)
    chain: bool = False
    settled: int = 0
    tail: torch.Tensor | None = None

    def by(self, window: int | None) -> torch.Tensor | None:
        """Mask [1 or B, 1, group · T, S] of a layer with a window of so many tokens (None: without
        one); None: it sees everything.
        """
        return self.full if window is None else self.windows[window]


def visible_slots(starts: torch.Tensor, among: torch.Tensor, slots: int) -> torch.Tensor:
    """Everything committed, and among the tokens of the pass what `among` says.

    Args:
        starts: first slot of every row's tokens [B].
        among: bool [1 or B, T, T], whether token t sees token u.
        slots: S.

    Returns:
        bool [B, T, S].
    """
    count = among.shape[-1]
    offset = (torch.arange(slots, device=starts.device) - starts[:, None])[
        :, None
    ]  # slots past the row's start
    new = among.expand(starts.shape[0], -1, -1)
    own = new.gather(2, offset.clamp(0, count - 1).expand(-1, count, -1))
    return (offset < 0) | ((offset < count) & own)


def within_window(
    starts: torch.Tensor, positions: torch.Tensor, slots: int, window: int
) -> torch.Tensor:
    """Whether a slot's position is among the last `window` at a token's.

    Slots before a row's start are taken to hold the token of that position.

    Args:
        starts: first slot of every row's tokens [B].
        positions: of the tokens in the text [1 or B, T].
        slots: S.
        window: positions that a token sees, its own included.

    Returns:
        bool [B, T, S].
    """
    place = torch.arange(slots, device=starts.device)
    offset = place - starts[:, None]
    rows = positions.expand(starts.shape[0], -1)
    own = rows.gather(1, offset.clamp(0, rows.shape[1] - 1))
    key_positions = torch.where((offset >= 0) & (offset < rows.shape[1]), own, place)
    return rows[:, :, None] - key_positions[:, None] < window


def stacked(mask: torch.Tensor, group: int) -> torch.Tensor:
    """A mask [1 or B, T, S] for `group` query heads stacked as rows: [1 or B, 1, group · T, S]."""
    return (mask.repeat(1, group, 1) if group > 1 and mask.shape[1] > 1 else mask)[:, None]


def attended(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    scale: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Weighted sums of values [B, T, heads, value dim].

    Args:
        query: [B, T, heads, head dim].
        keys: [B, kv heads, S, head dim].
        values: [B, kv heads, S, value dim].
        mask: stacked, or None where everything is seen.
        scale: of the scores; 1 / √(head dim) by default.
        sinks: a logit per head [heads] that takes weight and gives nothing.
    """
    batch, count, heads, width = query.shape
    packed = query.transpose(1, 2).reshape(batch, keys.shape[1], -1, width)
    if sinks is None:
        output = functional.scaled_dot_product_attention(
            packed, keys, values, attn_mask=mask, scale=scale
        )
    else:
        output = _with_sinks(
            packed, keys, values, mask, sinks.repeat_interleave(count).view(keys.shape[1], -1, 1)
        )
    return output.reshape(batch, heads, count, -1).transpose(1, 2)


def _with_sinks(
    packed: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    sinks: torch.Tensor,
) -> torch.Tensor:
    """No fused kernel of torch takes a sink: scores, one more column of them, softmax without that
    column.
    """
    scores = (packed @ keys.transpose(2, 3)).float() * packed.shape[-1] ** -0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -float("inf"))
    sinks = sinks.float().expand(*scores.shape[:3], 1)
    shares = torch.softmax(torch.cat([scores, sinks], dim=-1), dim=-1)[..., :-1]
    return shares.to(values.dtype) @ values


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class GroupedAttention:
    """Weights of one grouped-query attention layer.

    Attributes:
        shape: heads, window and what else the layer has.
        qkv: query, key and value heads in one product.
        output: from the heads back to the model's width.
        q_norm: RMSNorm of query heads, or None.
        k_norm: RMSNorm of key heads, or None.
        sinks: a logit per head, or None.
        norm_eps: added to the mean square.
        rotates: positions turn queries and keys.
    """

    shape: Attention
    qkv: Projection | FactoredQuery
    output: Projection
    q_norm: torch.Tensor | None
    k_norm: torch.Tensor | None
    sinks: torch.Tensor | None
    norm_eps: float
    rotates: bool

    @property
    def plain(self) -> bool:
        """Whether kernels without windows and sinks serve it."""
        return self.shape.window is None and self.sinks is None

    def __call__(
        self,
        index: int,
        x: torch.Tensor,
        cache: KVCache,
        *,
        start: int | Slots,
        angles: Angles,
        visible: VisibleSlots,
        residual: torch.Tensor | None,
    ) -> torch.Tensor:
        """Attention of layer `index` for [B, T, width]; writes the cache; adds `residual`."""
        batch, count, _ = x.shape
        heads, kv_heads, head_dim = self.shape.heads, self.shape.kv_heads, self.shape.head_dim
        stop = start.stop if isinstance(start, Slots) else start + count
        qkv = self.qkv(x).view(batch, count, heads + 2 * kv_heads, head_dim)
        turned, value = qkv[:, :, : heads + kv_heads], qkv[:, :, heads + kv_heads :]
        if self.q_norm is not None and self.k_norm is not None:
            query, key = qkv[:, :, :heads], turned[:, :, heads:]
            eps = self.norm_eps
            query = functional.rms_norm(query, (head_dim,), self.q_norm, eps)
            turned = torch.cat(
                [query, functional.rms_norm(key, (head_dim,), self.k_norm, eps)], dim=2
            )
        if self.rotates:
            turned = rotated(turned, angles)
        cache.write(index, start, turned[:, :, heads:].transpose(1, 2), value.transpose(1, 2))
        keys, values = cache.keys[index, :, :, :stop], cache.values[index, :, :, :stop]
        query = turned[:, :, :heads]
        if visible.chain:
            mixed = chain_attended(query, keys, values)
        elif visible.tail is not None:
            mixed = prefix_attended(query, keys, values, visible.tail, visible.settled)
        else:
            mixed = attended(query, keys, values, visible.by(self.shape.window), sinks=self.sinks)
        return self.output(mixed.reshape(batch, count, -1), residual)
