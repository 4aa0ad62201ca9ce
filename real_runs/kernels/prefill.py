"""How long does attention over a prompt, or over a chunk behind a prefix, take?

The same operands and forms as verify attention, with chunks in place of draft tokens. Leaves out
the forms that keep a mask or scores over all keys in memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from real_runs.kernels.attention import attention_cases
from real_runs.kernels.operands import AttentionShape
from real_runs.kernels.sweep import Case

FORMS_BY_DEVICE = {
    "cuda": ("flash", "flash-varlen", "cudnn-causal", "vllm-flash-attn-3"),
    "cpu": ("sdpa", "unsplit-flash"),
}


def prefill_cases(
    layer: AttentionShape,
    device: torch.device,
    dtype: str,
    *,
    requests: Sequence[int],
    chunk: Sequence[int],
    prefix: Sequence[int],
    forms: Sequence[str],
) -> list[Case]:
    """Chunks of new tokens over prefixes, coarse first; arguments as of `attention_cases`.

    Args:
        layer: heads and head size.
        device: where cases run.
        dtype: number format.
        requests: batch sizes, >= 1.
        chunk: new tokens per request, >= 1.
        prefix: cached tokens per request; 0: the chunk is a whole prompt.
        forms: keys of `FORMS`.
    """
    return attention_cases(
        layer,
        device,
        dtype,
        operation="prefill_attention",
        requests=requests,
        query_tokens=chunk,
        context=prefix,
        forms=forms,
    )
