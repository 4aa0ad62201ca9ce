"""Which positions does a pass commit by rules that read the earlier passes of their block, too?

What a rule remembers lies in `Confidence.memory` and starts anew with every block. A recording
names the likeliest token alone, so others' credit and history are not followed: where a position's
likeliest token changes, the earlier one is forgotten. Leaves out rules of one pass (`rules`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traces.replay.confidence.state import At, Confidence, Mask, first, half


def credit(state: Confidence, at: At) -> Mask:
    """Sure positions, where a token that earlier passes held likeliest, too, counts as likelier
    than it is.

    A token's credit decays by `decay` a pass and grows by its probability to the power `power`
    while it is the likeliest; its logit is raised by `weight` times the logarithm of 1 + credit.
    Credit of other tokens, which lowers its probability in turn, is left out.

    Args:
        state: what a pass shows; its memory is updated.
        at: `decay`, `power`, `weight` and `confidence` of the policy.

    Returns:
        bool[P, L], positions to commit.

    Reference: Wang et al. 2025, CreditDecoding, arXiv 2510.06133; its code in dInfer.
    """
    assert state.ids is not None
    ids, p = state.ids, 1.0 - state.doubt.astype(np.float64)
    earlier_credit, credited_ids = (
        state.memory.get("credit", np.zeros(p.shape)),
        state.memory.get("credited", np.full(p.shape, -1)),
    )
    same = (credited_ids == ids) & (state.pass_of_block > 0)[:, None]
    now = p ** at["power"] + np.where(same, at["decay"] * earlier_credit, 0.0)
    state.memory["credit"], state.memory["credited"] = now, ids.copy()
    doubt = (1.0 - p) / (1.0 - p + p * (1.0 + now) ** at["weight"])
    return _or_surest(doubt, state.open, at["confidence"])


def history(state: Confidence, at: At) -> Mask:
    """Positions whose likeliest token is so probable on average over so many passes, 0 where it was
    not the likeliest.

    Args:
        state: what a pass shows; its memory is updated.
        at: `passes` and `confidence` of the policy.

    Returns:
        bool[P, L], positions to commit.

    Reference: Chen et al. 2025, coherent contextual decoding, arXiv 2512.02044, whose abstract
    names an average over the contexts of earlier passes; how many they are, and that a threshold
    decides, is ASSUMED.
    """
    assert state.ids is not None
    p = 1.0 - state.doubt.astype(np.float64)
    ids, past = state.memory.get("ids"), state.memory.get("p")
    if ids is None or past is None:
        ids, past = np.empty((0, *p.shape), dtype=np.int32), np.empty((0, *p.shape))
    mine = np.arange(len(ids))[:, None] < state.pass_of_block[None, :]
    total = p + np.where(mine[:, :, None] & (ids == state.ids), past, 0.0).sum(axis=0)
    mean = total / (1 + mine.sum(axis=0))[:, None]
    keep = int(at["passes"]) - 1
    state.memory["ids"] = np.concatenate([state.ids[None].copy(), ids])[:keep]
    state.memory["p"] = np.concatenate([p[None], past])[:keep]
    return _or_surest(1.0 - mean, state.open, at["confidence"])


def _or_surest(doubt: NDArray[np.float64], open: Mask, confidence: float) -> Mask:
    """Open positions beyond a threshold; the surest one where there is none."""
    sure: Mask = open & (doubt <= half(1.0 - confidence))
    one = first(doubt, open, np.ones(len(doubt), dtype=np.int64))
    chosen: Mask = np.where(sure.any(axis=1, keepdims=True), sure, one)
    return chosen


def phases(state: Confidence, at: At) -> Mask:
    """Slow passes that look how far the block can be filled, then fast ones that fill it up to
    there, and again.

    Slow passes commit anywhere behind the last span, fast ones within the new one: all sure
    positions where there are two at least, else the surest. The span reaches to the last position
    with so much as `reach_confidence`; it is settled once `window` estimates in a row spread by
    less than `spread`, else it is their mean after `passes` passes. The paper's code goes on with
    slow passes over a block that is full already; here the block ends.

    Args:
        state: what a pass shows; its memory is updated.
        at: `passes`, `window`, `spread`, `reach_confidence` and `confidence` of the policy.

    Returns:
        bool[P, L], positions to commit.

    Reference: Wei et al. 2025, SlowFast sampling, arXiv 2506.10848, and its code.
    """
    assert state.start is not None
    place = np.arange(state.open.shape[1]) - state.start[:, None]
    before = _phases_before(state, place, at)
    slow = before["slow_passes"] < at["passes"]
    behind = state.open & (place >= before["done"][:, None])
    _estimate_span(state, behind, place, before, slow, at)
    span = np.where(slow[:, None], behind, behind & (place < before["reach"][:, None]))
    before["slow_passes"] = before["slow_passes"] + slow
    state.memory.update(before)
    sure = span & (state.doubt <= half(1.0 - at["confidence"]))
    one = first(state.doubt, span, np.ones(len(span), dtype=np.int64))
    chosen: Mask = np.where((sure.sum(axis=1) > 1)[:, None], sure, one)
    return chosen


def _phases_before(state: Confidence, place: NDArray[np.int64], at: At) -> dict[str, NDArray[Any]]:
    """Where every canvas stands: a new block, or a span that is full, begins with slow passes."""
    rows, window = len(state.open), int(at["window"])
    new = state.pass_of_block == 0
    before = {
        name: np.where(new, 0, state.memory.get(name, np.zeros(rows, dtype=np.int64)))
        for name in ("slow_passes", "done", "reach", "settled")
    }
    before["estimates"] = state.memory.get("estimates", np.zeros((window, rows), dtype=np.int64))
    left = state.open & (place >= before["done"][:, None]) & (place < before["reach"][:, None])
    again = (before["slow_passes"] >= at["passes"]) & ~left.any(axis=1)
    before["done"] = np.where(again, before["reach"], before["done"])
    for name in ("slow_passes", "settled"):
        before[name] = np.where(again, 0, before[name])
    return before


def _estimate_span(
    state: Confidence,
    behind: Mask,
    place: NDArray[np.int64],
    before: dict[str, NDArray[Any]],
    slow: Mask,
    at: At,
) -> None:
    """Estimate the span of canvases in slow passes, and settle it; `before` is written."""
    near = behind & (state.doubt <= half(1.0 - at["reach_confidence"]))
    farthest = np.where(near, place, -1).max(axis=1) + 1
    estimate = np.where(near.any(axis=1), farthest, before["done"] + 1)
    looks = slow & (before["settled"] == 0)
    rolled = np.concatenate([before["estimates"][1:], estimate[None]])
    estimates = np.where(looks, rolled, before["estimates"])
    # of this span, the newest last
    recorded_passes = np.minimum(before["slow_passes"] + 1, len(estimates))
    mine = np.arange(len(estimates))[:, None] >= len(estimates) - recorded_passes
    mean = np.where(mine, estimates, 0).sum(axis=0) / recorded_passes
    spread = np.sqrt(np.where(mine, (estimates - mean) ** 2, 0.0).sum(axis=0) / recorded_passes)
    settles = looks & (recorded_passes == len(estimates)) & (spread < at["spread"])
    before["estimates"] = estimates
    before["reach"] = np.where(
        settles, estimate, np.where(looks, mean.astype(np.int64), before["reach"])
    )
    before["settled"] = np.where(settles, 1, before["settled"])
