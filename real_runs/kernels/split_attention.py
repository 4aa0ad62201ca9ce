"""How fast is verify attention when its cache is split in plain torch?

The cache of every request and key/value head is cut into equal parts; every part is one row of a
batched attention that returns its log-sum-exp beside its output. The new tokens, under their causal
or tree mask, are a part of their own, and all parts are combined by their weights. So a kernel
without a mask serves any tree, and a kernel that cannot split serves long caches.

Reference: Dao et al. 2023, "Flash-Decoding for long-context inference": partial softmax and its
combination.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from real_runs.kernels.operands import AttentionOperands, AttentionShape
from real_runs.kernels.timing import Call

Partial = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
LEAST_PART_TOKENS = 128


def flash_partial(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """FlashAttention without a mask.

    Args:
        query: [B, R, d].
        key: [B, L, d].
        value: as `key`.

    Returns:
        Output [B, R, d] and log-sum-exp of the scores, float32 [B, R].
    """
    q, k, v = (tensor.unsqueeze(1) for tensor in (query, key, value))
    if query.device.type == "cpu":
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v)
    else:
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v)[:2]
    return out.squeeze(1), lse.reshape(query.shape[0], -1)[:, : query.shape[1]].float()


def efficient_partial(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The memory-efficient kernel without a mask; as `flash_partial`."""
    q, k, v = (tensor.unsqueeze(1) for tensor in (query, key, value))
    out, lse = torch.ops.aten._scaled_dot_product_efficient_attention(q, k, v, None, True)[:2]
    return out.squeeze(1), lse.reshape(query.shape[0], -1)[:, : query.shape[1]].float()


def matmul_partial(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two batched matrix products with a softmax between them, scores in memory; as
    `flash_partial`.
    """
    scores = torch.bmm(query * query.shape[-1] ** -0.5, key.transpose(1, 2)).float()
    lse = scores.logsumexp(-1)
    weights = (scores - lse.unsqueeze(-1)).exp_().to(value.dtype)
    return torch.bmm(weights, value), lse


def equal_parts(context: int, wanted: int) -> int:
    """Largest number of equal parts, at most `wanted`, that a context divides into; 1 where none
    does.
    """
    return next((parts for parts in range(min(wanted, context), 0, -1) if context % parts == 0), 1)


def parts_to_fill(shape: AttentionShape, processors: int) -> int:
    """Parts that give every processor a unit of work, none shorter than `LEAST_PART_TOKENS`.

    A unit is 64 packed rows of one request, key/value head and part.
    """
    units = shape.requests * shape.kv_heads * -(-shape.packed_rows // 64)
    wanted = max(1, -(-processors // units))
    return equal_parts(shape.context, max(1, min(wanted, shape.context // LEAST_PART_TOKENS)))


def split_call(operands: AttentionOperands, partial: Partial, parts: int) -> Call:
    """A call that answers packed rows [b, kv_heads, group · n, d].

    Args:
        operands: queries, cache and new tokens.
        partial: attention of one part.
        parts: divides the context.
    """
    s = operands.shape
    heads, part = s.requests * s.kv_heads, s.context // parts
    query = operands.packed_query.reshape(heads, s.packed_rows, s.head_dim)
    key, value = (
        tensor.view(heads * parts, part, s.head_dim) for tensor in operands.cached_by_head()
    )
    new_key, new_value = (
        tensor.view(heads, s.query_tokens, s.head_dim) for tensor in operands.new_by_head()
    )
    hidden = ~operands.visible.repeat(s.group, 1)

    def call() -> torch.Tensor:
        repeated = (
            query.unsqueeze(1).expand(-1, parts, -1, -1).reshape(-1, s.packed_rows, s.head_dim)
        )
        outs, lses = partial(repeated, key, value)
        tail_out, tail_lse = _new_tokens(query, new_key, new_value, hidden)
        outs, lses = outs.view(heads, parts, -1, s.head_dim), lses.view(heads, parts, -1)
        total = torch.logaddexp(lses.logsumexp(1), tail_lse)
        weights = (lses - total.unsqueeze(1)).exp_().unsqueeze(-1)
        tail_weights = (tail_lse - total).exp_().unsqueeze(-1)
        mixed = (outs * weights).sum(1) + tail_out * tail_weights
        return mixed.to(query.dtype).view(s.requests, s.kv_heads, s.packed_rows, s.head_dim)

    return call


def _new_tokens(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, hidden: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Masked attention among the new tokens: output and log-sum-exp."""
    scores = torch.bmm(query * query.shape[-1] ** -0.5, key.transpose(1, 2)).float()
    scores = scores.masked_fill(hidden, float("-inf"))
    lse = scores.logsumexp(-1)
    return torch.bmm((scores - lse.unsqueeze(-1)).exp_().to(value.dtype), value), lse
