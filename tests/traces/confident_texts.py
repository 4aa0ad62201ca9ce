"""Recordings of made-up texts, whose drafter knows how sure it is."""

import numpy as np

from traces.kinds.acceptance import AcceptanceTrace


def confident_text(levels, stretch, positions):
    """One long text in stretches of easy and hard tokens.

    Args:
        levels: probabilities of the drafter's tokens, one of which holds for a stretch.
        stretch: tokens of one.
        positions: tokens of the text, a multiple of `stretch`.
    """
    rng = np.random.default_rng(3)
    sure = np.repeat(rng.choice(levels, positions // stretch), stretch).astype(np.float16)
    right = rng.random(positions) < sure
    misses = np.where(right, positions, np.arange(positions))
    following = np.minimum(np.minimum.accumulate(misses[::-1])[::-1], positions - 1)
    wide = sure[:, None]
    return AcceptanceTrace(
        offsets=[0, positions],
        emitted=np.minimum(following - np.arange(positions) + 1, 60),
        rank=np.where(right, 0, -1).astype(np.int8),
        rank_width=1,
        depth_invariant=True,
        draft_ids=np.zeros((positions, 1), np.int32),
        draft_probs=wide,
        target_probs=wide,
        emitted_target_prob=sure,
        residual_mass=np.zeros(positions),
    )
