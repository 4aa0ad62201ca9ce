"""What does a token take from those before it when keys and values are one latent vector?

Multi-head latent attention in its absorbed form: the key's up-projection is applied to the query
and the value's to the sum, so that the cache holds one vector per token and all heads read it once.
Leaves out the expanded form, which is cheaper for long prompts.

Reference: DeepSeek-AI, "DeepSeek-V2" (arXiv:2405.04434), §2.1, eqs. 9-19.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from costmodel.architectures.attention import Attention
from real_runs.models.attention import VisibleSlots, attended
from real_runs.models.cache import KVCache, Slots
from real_runs.models.projection import Projection
from real_runs.models.rotary import Angles, rotated


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LatentAttention:
    """Weights of one latent attention layer.

    Attributes:
        shape: heads and the parts of their widths.
        query: the query projection, or its first factor.
        query_norm: RMSNorm between the two factors, or None.
        query_up: second factor, or None.
        latent: projection to the latent vector and the rotated key part.
        latent_norm: RMSNorm of the latent vector.
        up: [heads, nope dim + value dim, latent], both halves of the up-projection.
        output: from the heads back to the model's width.
        norm_eps: added to the mean square.
    """

    shape: Attention
    query: Projection
    query_norm: torch.Tensor | None
    query_up: Projection | None
    latent: Projection
    latent_norm: torch.Tensor
    up: torch.Tensor
    output: Projection
    norm_eps: float

    @property
    def plain(self) -> bool:
        """Whether kernels for grouped-query attention serve it: no."""
        return False

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
        s = self.shape
        rank, nope = s.kv_lora_rank, s.nope_dim
        stop = start.stop if isinstance(start, Slots) else start + count
        stored = self.latent(x)
        latent = functional.rms_norm(stored[..., :rank], (rank,), self.latent_norm, self.norm_eps)
        shared = rotated(stored[:, :, None, rank:], angles)
        key = torch.cat([latent[:, :, None], shared], dim=-1).transpose(
            1, 2
        )  # [B, 1, T, latent + rope dim]
        cache.write(index, start, key, key[..., :0])
        query = self._queries(x).view(batch, count, s.heads, nope + s.rope_dim)
        absorbed = torch.einsum("bthn,hnr->bthr", query[..., :nope], self.up[:, :nope])
        query = torch.cat([absorbed, rotated(query[..., nope:], angles)], dim=-1)
        keys = cache.keys[index, :, :, :stop]
        scale = (nope + s.rope_dim) ** -0.5
        mixed = attended(query, keys, keys[..., :rank], visible.by(s.window), scale=scale)
        values = torch.einsum("bthr,hvr->bthv", mixed, self.up[:, nope:])
        return self.output(values.reshape(batch, count, -1), residual)

    def _queries(self, x: torch.Tensor) -> torch.Tensor:
        query = self.query(x)
        if self.query_up is None or self.query_norm is None:
            return query
        return self.query_up(
            functional.rms_norm(query, (query.shape[-1],), self.query_norm, self.norm_eps)
        )
