"""How does a live masked model decode with credit of every token, as CreditDecoding's code keeps
it?

A recording names the likeliest token of a position alone, and the rule `credit` follows that
token's credit. Here every entry of the vocabulary has its own, added to the logits before anything
is decided. Leaves out caches.

Reference: Wang et al. 2025, CreditDecoding, arXiv 2510.06133; `CreditThresholdParallelDecoder` of
dInfer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from real_runs.masked.network import MaskedModel
from traces.kinds.refine_policy import RefinePolicy


def credited(
    model: MaskedModel,
    prompt: Sequence[int],
    policy: RefinePolicy,
    *,
    canvas_tokens: int,
    mask_id: int,
) -> tuple[NDArray[np.int32], int]:
    """Decode a canvas.

    Args:
        model: whose shape has room for prompt and canvas.
        prompt: token ids.
        policy: of rule `credit`, without a cache.
        canvas_tokens: L, a multiple of the policy's block.
        mask_id: of the model; never predicted.

    Returns:
        int32[L], and the passes taken.
    """
    at, block = policy.at, policy.block_tokens
    tokens, passes = torch.full((canvas_tokens,), mask_id), 0
    for start in range(0, canvas_tokens, block):
        here = slice(start, start + block)
        credit: torch.Tensor | None = None
        while bool((masked := tokens[here] == mask_id).any()):
            with torch.inference_mode():
                logits = model(torch.tensor([[*prompt, *tokens.tolist()]]))[0, len(prompt) :][
                    here
                ].double()
            logits = logits.clone().index_fill(1, torch.tensor([mask_id]), -torch.inf)
            top, ids = logits.softmax(dim=-1).max(dim=-1)
            grown = torch.zeros_like(logits).scatter(
                1, ids[:, None], (top ** at["power"] * masked)[:, None]
            )
            credit = grown if credit is None else credit * at["decay"] + grown
            sure, ids = (logits + at["weight"] * credit.log1p()).softmax(dim=-1).max(dim=-1)
            sure = torch.where(masked, sure, -torch.inf)
            picked = sure >= at["confidence"]
            if not bool(picked.any()):
                picked[sure.argmax()] = True
            tokens[here] = torch.where(picked, ids, tokens[here])
            passes += 1
    return tokens.numpy().astype(np.int32), passes
