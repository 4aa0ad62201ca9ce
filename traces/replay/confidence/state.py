"""What does a commit rule know of canvases before it decides, and which of their positions come
first?

Leaves out the rules (`rules`, `remembering`) and where confidence comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Values = NDArray[np.float32]
At = Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Confidence:
    """How sure a model is of R canvases of L positions before a commit.

    Attributes:
        masked: bool[R, L], positions that hold no token yet.
        open: bool[R, L], those of them that the block rule lets a pass commit.
        doubt: float32[R, L], 1 - probability of the likeliest token; any value where not `masked`.
        entropy, logit_gap: float32[R, L], any value where not `masked`; None: not known.
        pass_of_block: int64[R], passes of the block before this one.
        block_confidence: float64[R], mean probability of the tokens that the block's passes
            committed; NaN: none yet.
        priority: float64[R, L], order of a random rule, least first; None: not asked for.
        ids: int32[R, L], the likeliest tokens; None: not known.
        start: int64[R], first positions of the blocks; None: not known.
        memory: what a rule keeps from pass to pass of the same R canvases, by names of its own; it
            writes it.
    """

    masked: Mask
    open: Mask
    doubt: Values
    entropy: Values | None = None
    logit_gap: Values | None = None
    pass_of_block: NDArray[np.int64]
    block_confidence: NDArray[np.float64]
    priority: NDArray[np.float64] | None = None
    ids: NDArray[np.int32] | None = None
    start: NDArray[np.int64] | None = None
    memory: dict[str, NDArray[Any]] = field(default_factory=dict)


def first(values: NDArray[np.floating], open: Mask, count: NDArray[np.int64]) -> Mask:
    """The `count` open positions of every row with the least values."""
    if count.size and count.max() <= 1:
        least = np.where(open, values, np.inf).argmin(axis=1)
        one: Mask = open & (np.arange(values.shape[1]) == least[:, None]) & (count > 0)[:, None]
        return one
    chosen: Mask = open & (ranks(values, open) < count[:, None])
    return chosen


def ranks(values: NDArray[np.floating], open: Mask) -> NDArray[np.int64]:
    """Places of positions among the open ones of their row, least value first.

    Args:
        values: [P, L].
        open: bool[P, L].

    Returns:
        int64[P, L]; positions that are not open come last.
    """
    order = np.argsort(np.where(open, values, np.inf), axis=1, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(values.shape[1])[None, :], axis=1)
    return ranks


def half(value: float) -> np.float32:
    """A threshold as coarse as recorded values are, so that a value that equals it passes."""
    return np.float32(np.float16(value))
