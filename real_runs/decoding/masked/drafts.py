"""How does a live masked model confirm its own drafts of later states, so that the text stays that
of one token a pass?

The surest tokens of a state are drafted one after the other, the states behind one, two and more of
them are computed in one forward, and those stay of which every next token is the draft's. Leaves
out caches: states are computed whole.

Reference: FreeDave (its public code); Gao et al. 2025, SSD, arXiv 2510.04147.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from real_runs.decoding.masked.batch import BatchRun
from real_runs.decoding.masked.loop import confidences_of
from real_runs.decoding.timed_pass import TimedPass
from real_runs.masked.network import MaskedModel
from traces.kinds.refine_policy import RefinePolicy


def self_verified(
    model: MaskedModel,
    prompt: Sequence[int],
    policy: RefinePolicy,
    *,
    canvas_tokens: int,
    mask_id: int,
) -> BatchRun:
    """Decode a canvas, several tokens a pass where drafts are confirmed.

    Args:
        model: whose shape has room for prompt and canvas.
        prompt: token ids.
        policy: of rule `self_verified`, without a cache; drafts stay within a block.
        canvas_tokens: L.
        mask_id: of the model.

    Raises:
        InputError: a policy of another rule or beside a cache, or a block that does not divide the
            canvas.
    """
    if policy.commit != "self_verified" or policy.cache != "none":
        raise InputError(
            "must confirm its own drafts, and compute whole states", key="policy", value=policy.name
        )
    policy.check_canvas(canvas_tokens)
    block, drafts = policy.block_tokens, int(policy.at["drafts"])
    tokens, forwards = np.full(canvas_tokens, mask_id, dtype=np.int32), list[TimedPass]()
    surest = _surest(model, prompt, tokens[None], mask_id, forwards)[0]
    while (filled := int((tokens != mask_id).sum())) < canvas_tokens:
        start = filled // block * block
        draft = [p for p in surest if start <= p[0] < start + block][:drafts]
        states = np.repeat(tokens[None], len(draft), axis=0)
        for at, (place, token) in enumerate(draft):
            states[at:, place] = token
        if filled + 1 == canvas_tokens:
            tokens = states[0]
            break
        answers = _surest(model, prompt, states, mask_id, forwards)
        accepted = 1
        while accepted < len(draft):
            right = next(p for p in answers[accepted - 1] if start <= p[0] < start + block)
            if right != draft[accepted]:
                break
            accepted += 1
        tokens, surest = states[accepted - 1], answers[accepted - 1]
    return BatchRun(tokens=tokens[None], steps=np.array([len(forwards)]), forwards=tuple(forwards))


def _surest(
    model: MaskedModel,
    prompt: Sequence[int],
    canvases: NDArray[np.int32],
    mask_id: int,
    forwards: list[TimedPass],
) -> list[list[tuple[int, int]]]:
    """Masked positions of every canvas with their likeliest tokens, surest first."""
    began, (states, length) = time.perf_counter(), canvases.shape
    rows = torch.tensor([[*prompt, *canvas] for canvas in canvases.tolist()])
    with torch.inference_mode():
        confidences = confidences_of(model(rows)[:, len(prompt) :].flatten(0, 1), mask_id)
    forwards.append(TimedPass(states, len(prompt) + length, 0, time.perf_counter() - began))
    drafts = []
    for at, canvas in enumerate(canvases):
        doubt, ids = (
            confidences[name].reshape(states, length)[at] for name in ("doubt", "top_ids")
        )
        masked = np.flatnonzero(canvas == mask_id)
        order = masked[np.argsort(doubt[masked].astype(np.float32), kind="stable")]
        drafts.append([(int(p), int(ids[p])) for p in order])
    return drafts
