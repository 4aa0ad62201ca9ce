"""What do attention kernels read, and what must they answer?

One buffer of numbers per operand set, seen in the layout that each kernel wants, and the answer in
float32. Leaves out the kernels (`attention_forms`, `split_attention`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

import torch

from hardware_profiles.errors import InputError

PAGE_TOKENS = 16
Layout = Literal["tokens", "pages", "heads"]


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionShape:
    """Sizes of one attention call.

    Attributes:
        requests: batch b.
        query_tokens: new tokens per request n; their keys and values follow the cache's.
        context: cached tokens per request, >= 0.
        heads: query heads.
        kv_heads: key/value heads; divides `heads`.
        head_dim: width of a head.
        mask: "causal": new token i sees the cache and new tokens 0..i; "tree": the cache and its
            ancestors in the binary tree in breadth-first order.

    Raises:
        InputError: a size out of range.
    """

    requests: int
    query_tokens: int
    context: int
    heads: int
    kv_heads: int
    head_dim: int
    mask: Literal["causal", "tree"] = "causal"

    def __post_init__(self) -> None:
        if (
            min(self.requests, self.query_tokens, self.heads, self.kv_heads, self.head_dim) < 1
            or self.context < 0
        ):
            raise InputError(
                "sizes must be positive, and the context not negative",
                key="attention",
                value=str(self),
            )
        if self.heads % self.kv_heads:
            raise InputError("must be a multiple of kv_heads", key="heads", value=self.heads)

    @property
    def keys(self) -> int:
        """Keys per request: cached and new."""
        return self.context + self.query_tokens

    @property
    def group(self) -> int:
        """Query heads per key/value head."""
        return self.heads // self.kv_heads

    @property
    def packed_rows(self) -> int:
        """Query rows that share one key/value head."""
        return self.group * self.query_tokens

    @property
    def pages(self) -> int:
        """Pages of `PAGE_TOKENS` per request."""
        return -(-self.keys // PAGE_TOKENS)

    @property
    def values(self) -> int:
        """Numbers in the buffer of keys, and in that of values."""
        return self.requests * self.pages * PAGE_TOKENS * self.kv_heads * self.head_dim


@cache
def drawing(device: torch.device) -> torch.Generator | None:
    """The generator of all operands; a capture that fails leaves the device's own in no state to
    draw from.
    """
    return None if device.type == "meta" else torch.Generator(device=device).manual_seed(0)


class AttentionOperands:
    """Random queries, keys and values of one call.

    Args:
        shape: sizes.
        device: where.
        dtype: number format.
        like: operands whose numbers to copy into memory of our own; None draws new ones.
    """

    def __init__(
        self,
        shape: AttentionShape,
        device: torch.device,
        dtype: torch.dtype,
        like: AttentionOperands | None = None,
    ) -> None:
        self.shape = shape
        self.query: torch.Tensor
        self.keys: torch.Tensor
        self.values: torch.Tensor
        if like is not None:
            self.query, self.keys, self.values = (
                like.query.clone(),
                like.keys.clone(),
                like.values.clone(),
            )
            return
        width, drawn = (
            (shape.requests, shape.query_tokens, shape.heads, shape.head_dim),
            drawing(device),
        )
        self.query = torch.empty(width, device=device, dtype=dtype).normal_(generator=drawn)
        self.keys, self.values = (
            torch.empty(shape.values, device=device, dtype=dtype).uniform_(
                -1.7, 1.7, generator=drawn
            )
            for _ in range(2)
        )

    def by_token(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [b, context + n, kv_heads, d], contiguous."""
        s = self.shape
        size, view = (
            s.requests * s.keys * s.kv_heads * s.head_dim,
            (s.requests, s.keys, s.kv_heads, s.head_dim),
        )
        return self.keys[:size].view(view), self.values[:size].view(view)

    def by_page(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [b · pages, PAGE_TOKENS, kv_heads, d]; a request's last page is filled in
        part.
        """
        s = self.shape
        view = (s.requests * s.pages, PAGE_TOKENS, s.kv_heads, s.head_dim)
        return self.keys.view(view), self.values.view(view)

    def cached_by_head(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Cached keys and values [b, kv_heads, context, d], contiguous."""
        s = self.shape
        size = s.requests * s.context * s.kv_heads * s.head_dim
        view = (s.requests, s.kv_heads, s.context, s.head_dim)
        return self.keys[:size].view(view), self.values[:size].view(view)

    def new_by_head(self) -> tuple[torch.Tensor, torch.Tensor]:
        """New keys and values [b, kv_heads, n, d], contiguous, behind the cached ones in memory."""
        s = self.shape
        start = s.requests * s.context * s.kv_heads * s.head_dim
        end = start + s.requests * s.query_tokens * s.kv_heads * s.head_dim
        view = (s.requests, s.kv_heads, s.query_tokens, s.head_dim)
        return self.keys[start:end].view(view), self.values[start:end].view(view)

    @cached_property
    def packed_query(self) -> torch.Tensor:
        """Queries [b, kv_heads, group · n, d]: row g·n + i is head g of the group at new token
        i.
        """
        s = self.shape
        split = self.query.view(s.requests, s.query_tokens, s.kv_heads, s.group, s.head_dim)
        return split.permute(0, 2, 3, 1, 4).reshape(
            s.requests, s.kv_heads, s.packed_rows, s.head_dim
        )

    @cached_property
    def visible(self) -> torch.Tensor:
        """Which new token (row) sees which new token (column), bool [n, n]."""
        n = self.shape.query_tokens
        if self.shape.mask == "causal":
            return torch.ones(n, n, dtype=torch.bool, device=self.query.device).tril()
        visible = torch.eye(n, dtype=torch.bool)
        for node in range(1, n):
            visible[node] |= visible[(node - 1) // 2]
        return visible.to(self.query.device)

    def unpacked(self, rows: torch.Tensor) -> torch.Tensor:
        """Packed rows [b, kv_heads, group · n, d] as [b, n, heads, d]."""
        s = self.shape
        split = rows.view(s.requests, s.kv_heads, s.group, s.query_tokens, s.head_dim)
        return split.permute(0, 3, 1, 2, 4).reshape(s.requests, s.query_tokens, s.heads, s.head_dim)

    def reference(self, layout: Layout) -> torch.Tensor:
        """The exact answer in float32, [b, n, heads, d], for the numbers as that layout sees
        them.
        """
        s = self.shape
        if layout == "heads":
            cached, new = self.cached_by_head(), self.new_by_head()
            keys, values = (torch.cat([cached[i], new[i]], dim=2).float() for i in range(2))
        elif layout == "pages":
            keys, values = (
                tensor.view(s.requests, -1, s.kv_heads, s.head_dim)[:, : s.keys]
                .transpose(1, 2)
                .float()
                for tensor in self.by_page()
            )
        else:
            keys, values = (tensor.transpose(1, 2).float() for tensor in self.by_token())
        scores = self.packed_query.float() @ keys.transpose(2, 3) / s.head_dim**0.5
        hidden = ~self.visible.repeat(s.group, 1)
        scores[..., s.context :].masked_fill_(hidden, float("-inf"))
        return self.unpacked(scores.softmax(-1) @ values)


def additive_mask(operands: AttentionOperands, *, rows: int) -> torch.Tensor:
    """0 where a row sees a key and -inf where it does not, [rows, keys], in the queries' format.

    Its rows begin at multiples of 16 values, which the memory-efficient kernel wants and would copy
    for.
    """
    s = operands.shape
    padded = torch.zeros(
        rows, -(-s.keys // 16) * 16, dtype=operands.query.dtype, device=operands.query.device
    )
    hidden = ~operands.visible.repeat(rows // s.query_tokens, 1)
    padded[:, s.context : s.keys].masked_fill_(hidden, float("-inf"))
    return padded[:, : s.keys]
