"""How does a live masked model confirm its own drafts of later states, so that the text stays that of one token a pass?

The surest tokens of a state are drafted one after the other, the states behind one, two and more of them are computed
in one batch, and those stay of which every next token is the draft's. Leaves out caches: every state is computed whole.

Reference: FreeDave (its public code); Gao et al. 2025, SSD, arXiv 2510.04147.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from real_runs.decoding.masked.loop import said_of
from real_runs.masked.network import MaskedModel


def self_verified(
    model: MaskedModel, prompt: Sequence[int], *, canvas_tokens: int, mask_id: int, block_tokens: int, drafts: int
) -> tuple[NDArray[np.int32], int]:
    """Decode a canvas, several tokens a pass where drafts are confirmed.

    Args:
        model: whose shape has room for prompt and canvas.
        prompt: token ids.
        canvas_tokens: L, a multiple of `block_tokens`.
        mask_id: of the model.
        block_tokens: tokens of a block; drafts stay within it.
        drafts: states computed in one pass, >= 1.

    Returns:
        int32[L], and the passes taken.
    """
    tokens = np.full(canvas_tokens, mask_id, dtype=np.int32)
    known, passes = _surest(model, prompt, tokens[None], mask_id)[0], 1
    while (held := int((tokens != mask_id).sum())) < canvas_tokens:
        start = held // block_tokens * block_tokens
        draft = [p for p in known if start <= p[0] < start + block_tokens][:drafts]
        states = np.repeat(tokens[None], len(draft), axis=0)
        for at, (place, token) in enumerate(draft):
            states[at:, place] = token
        if held + 1 == canvas_tokens:
            return states[0], passes
        answers = _surest(model, prompt, states, mask_id)
        passes += 1
        accepted = 1
        while accepted < len(draft):
            right = next(p for p in answers[accepted - 1] if start <= p[0] < start + block_tokens)
            if right != draft[accepted]:
                break
            accepted += 1
        tokens, known = states[accepted - 1], answers[accepted - 1]
    return tokens, passes


def _surest(
    model: MaskedModel, prompt: Sequence[int], canvases: NDArray[np.int32], mask_id: int
) -> list[list[tuple[int, int]]]:
    """Masked positions of every canvas with their likeliest tokens, surest first."""
    found = []
    for canvas in canvases:  # one by one: the numbers must not depend on the batch
        with torch.inference_mode():
            said = said_of(model(torch.tensor([[*prompt, *canvas.tolist()]]))[0, len(prompt) :], mask_id)
        masked = np.flatnonzero(canvas == mask_id)
        order = masked[np.argsort(said["doubt"][masked].astype(np.float32), kind="stable")]
        found.append([(int(p), int(said["top_ids"][p])) for p in order])
    return found
