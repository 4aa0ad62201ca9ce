"""Where does the block of every canvas stand, and when is a canvas done?

Blocks are finished from left to right; a block may end early at a delimiter that the model is sure
of. Leaves out which tokens of a block are committed (`rules`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from traces.kinds.refine_policy import RefinePolicy

Mask = NDArray[np.bool_]
Counts = NDArray[np.int64]


class Blocks:
    """Blocks of P canvases.

    Args:
        policy: how long blocks are, and at which tokens they end early.
        canvases: P.
        canvas_tokens: L.

    Attributes:
        start, end: int64[P], positions of the block.
        passes: int64[P], passes of the block so far.
        begun: int64[P], blocks begun so far.
        confidence: float64[P], mean probability of the tokens that the block's passes committed;
            NaN: none yet.
    """

    def __init__(self, policy: RefinePolicy, canvases: int, canvas_tokens: int) -> None:
        self._policy, self._length = policy, canvas_tokens
        self._place = np.arange(canvas_tokens)
        self.start = np.zeros(canvases, dtype=np.int64)
        self.end = np.full(canvases, min(policy.block_tokens, canvas_tokens), dtype=np.int64)
        self.passes = np.zeros(canvases, dtype=np.int64)
        self.begun = np.zeros(canvases, dtype=np.int64)
        self._sum = np.zeros(canvases, dtype=np.float64)
        self._count = np.zeros(canvases, dtype=np.int64)

    @property
    def confidence(self) -> NDArray[np.float64]:
        """Mean probability of what the block holds."""
        return np.where(self._count > 0, self._sum / np.maximum(self._count, 1), np.nan)

    def inside(self) -> Mask:
        """bool[P, L]: positions of the block."""
        inside: Mask = (self._place >= self.start[:, None]) & (self._place < self.end[:, None])
        return inside

    def unfinished(self, masked: Mask, tokens: NDArray[np.int32], end_id: int | None) -> Mask:
        """bool[P]: canvases that take another pass.

        Args:
            masked: bool[P, L], positions that are not committed.
            tokens: int32[P, L], ids of the committed ones.
            end_id: id of the token that ends a text; None: the model has none.
        """
        goes_on: Mask = np.asarray(masked.any(axis=1))
        if self._policy.stop == "end_token" and end_id is not None:
            first_mask = np.where(goes_on, masked.argmax(axis=1), self._length)
            ended = ((tokens == end_id) & ~masked & (self._place < first_mask[:, None])).any(axis=1)
            goes_on = goes_on & ~ended
        return goes_on

    def begins(self, alive: Mask) -> Mask:
        """bool[P]: canvases whose next pass is their block's first."""
        first: Mask = alive & (self.passes == 0)
        return first

    def begin(
        self, begins: Mask, masked: Mask, doubt: NDArray[np.float32], ids: NDArray[np.int32]
    ) -> None:
        """Set where blocks end, before the commit of their first pass.

        Args:
            begins: bool[P], canvases of which it is the first.
            masked: bool[P, L].
            doubt: float32[P, L], 1 - probability of the likeliest tokens.
            ids: int32[P, L], these tokens.
        """
        self.begun += begins
        if not self._policy.delimiters:
            return
        marks = (
            masked & self.inside() & np.isin(ids, np.array(self._policy.delimiters, dtype=np.int32))
        )
        lacking = np.where(marks, doubt, np.inf)
        surest = lacking.argmin(axis=1)
        ends = begins & (lacking.min(axis=1) <= 1.0 - self._policy.delimiter_confidence)
        self.end = np.where(ends, surest + 1, self.end)

    def advance(self, alive: Mask, chosen: Mask, masked: Mask, doubt: NDArray[np.float32]) -> None:
        """Count a pass, and go on to the next block where this one is full.

        Args:
            alive: bool[P], canvases that took the pass.
            chosen: bool[P, L], what it committed.
            masked: bool[P, L], what is masked behind it.
            doubt: [P, L], of the committed tokens.
        """
        self.passes += alive
        self._sum += np.where(chosen, 1.0 - doubt, 0.0).sum(axis=1)
        self._count += chosen.sum(axis=1)
        full = alive & ~(masked & self.inside()).any(axis=1)
        self.start = np.where(full, self.end, self.start)
        self.end = np.where(
            full, np.minimum(self.start + self._policy.block_tokens, self._length), self.end
        )
        for counted in (self.passes, self._sum, self._count):
            counted[full] = 0
