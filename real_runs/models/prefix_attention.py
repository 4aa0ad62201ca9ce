"""How does a pass attend to a long cache on a GPU without a mask over all of it?

What every token sees, the committed slots, is read by a kernel that takes no mask and splits a long
cache over the device; the tokens of the pass are a part of their own under their mask, and both are
joined by their log-sum-exps. Leaves out where this is allowed (`graphs`).

Reference: Dao et al. 2023, "Flash-Decoding for long-context inference": partial softmax and its
combination.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache

import torch

_HOPPER = 9  # compute capability
_MASK_ALIGNMENT = 16  # the kernel that takes masks wants rows that begin at such multiples


def runs_flash(place: torch.device, dtype: torch.dtype) -> bool:
    """Whether torch's FlashAttention runs there in that number format."""
    return place.type == "cuda" and dtype in (torch.float16, torch.bfloat16)


def chain_attended(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Tokens of a chain that follow the keys' first S - T slots, each seeing all before it.

    vLLM's build of FlashAttention 3 runs where it is installed: the query heads of a group read
    their keys once there, which torch's FlashAttention 2 does for a single token alone.

    Args:
        query: [B, T, heads, head dim].
        keys: [B, kv heads, S, head dim], those of the tokens last.
        values: as `keys`.

    Returns:
        [B, T, heads, head dim].
    """
    kernel = _flash_3(query.device.index or 0)
    if kernel is not None:
        return kernel(query, keys.transpose(1, 2), values.transpose(1, 2))
    output: torch.Tensor = torch.ops.aten._scaled_dot_product_flash_attention(
        query.transpose(1, 2), keys, values, 0.0, True
    )[0]
    return output.transpose(1, 2)


@cache
def _flash_3(
    card: int,
) -> Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor] | None:
    """Causal FlashAttention 3 of [B, T, heads, head dim] over [B, S, kv heads, head dim]; None
    where it is not here.
    """
    if torch.cuda.get_device_capability(card)[0] != _HOPPER:
        return None
    try:
        importlib.import_module("vllm.vllm_flash_attn")
        forward = torch.ops._vllm_fa3_C.fwd
    except (ImportError, AttributeError, RuntimeError):
        return None

    def run(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        lengths = _lengths(
            keys.shape[0], keys.shape[1], keys.device
        )  # this build takes no keys without them
        # after the values: new keys and values, q_v, out, starts; used keys; longest, pages, rotary
        # and descales
        output: torch.Tensor = forward(
            query,
            keys,
            values,
            *[None] * 8,
            lengths,
            *[None] * 11,
            query.shape[-1] ** -0.5,
            True,
            -1,
            -1,
            0.0,
            True,
            None,
            0,
            None,
            0,
            None,
            1,
            0,
            None,
        )[0]
        return output

    return run


@cache
def _lengths(rows: int, slots: int, place: torch.device) -> torch.Tensor:
    return torch.full((rows,), slots, dtype=torch.int32, device=place)


def prefix_attended(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, bias: torch.Tensor, settled: int
) -> torch.Tensor:
    """Every token sees the first `settled` slots, and of the others what a bias lets it see.

    Args:
        query: [B, T, heads, head dim].
        keys: [B, kv heads, S, head dim].
        values: as `keys`.
        bias: [1 or B, 1, group · T, S - settled], 0 or -inf, of `tail_bias`; no row is -inf
            throughout.
        settled: > 0.

    Returns:
        [B, T, heads, head dim].
    """
    batch, count, heads, width = query.shape
    packed = query.transpose(1, 2).reshape(batch, keys.shape[1], -1, width)
    rows = packed.shape[2]
    first, first_lse = torch.ops.aten._scaled_dot_product_flash_attention(
        packed, keys[:, :, :settled], values[:, :, :settled]
    )[:2]
    shape = (batch, keys.shape[1], rows, bias.shape[-1])
    last, last_lse = torch.ops.aten._scaled_dot_product_efficient_attention(
        packed, keys[:, :, settled:], values[:, :, settled:], bias.expand(shape), True
    )[:2]
    share = torch.sigmoid(first_lse[:, :, :rows] - last_lse[:, :, :rows]).unsqueeze(-1)
    output = torch.lerp(last.float(), first.float(), share).to(query.dtype)
    return output.reshape(batch, heads, count, width).transpose(1, 2)


def tail_bias(among: torch.Tensor, group: int, dtype: torch.dtype) -> torch.Tensor:
    """What tokens see among themselves, bool [B, T, T], as a bias [B, 1, group · T, T] for packed
    query heads.
    """
    batch, count, _ = among.shape
    wide = torch.zeros(
        batch,
        1,
        group * count,
        -(-count // _MASK_ALIGNMENT) * _MASK_ALIGNMENT,
        device=among.device,
        dtype=dtype,
    )
    wide[:, 0, :, :count].masked_fill_(~among.repeat(1, group, 1), float("-inf"))
    return wide[..., :count]
