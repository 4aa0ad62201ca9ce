"""Which tokens would the target predict if it stopped after layer E?

A linear bridge carries the hidden state after E layers to where the last layer would have left it;
the target's own norm and head read it there. The first E layers are the target's, so the drafter
re-reads true tokens at every depth: its ranks are depth invariant. Leaves out how the bridge is
fitted (`bridge_fit`).

Reference: Elhoushi et al., LayerSkip, arXiv 2404.16710, sec. 4.3; Yom Din et al., Jump to
Conclusions, arXiv 2303.09435, eq. 3 (the linear map).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from real_runs.models.bridge import Bridge
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama

RANK_WIDTH = 16
DRAFT_DEPTH = 8
_ROWS_AT_ONCE = 256


class EarlyExit:
    """Drafts greedily with the target's first layers, the bridge and the target's head.

    One short pass a token. Draft passes write the first layers of the cache's scratch slots; the
    verify pass writes them again.
    """

    def __init__(self, model: Llama, bridge: Bridge) -> None:
        self._model, self.bridge = model, bridge

    def __call__(self, prefix: Sequence[int], cache: KVCache, most: int) -> list[int]:
        """Propose `most` tokens after `prefix`: the form `speculate` calls."""
        drafts: list[int] = []
        exit_layer = self.bridge.exit_layer
        for depth in range(most):
            result = self._model.forward(
                [drafts[-1] if drafts else prefix[-1]],
                cache,
                start=cache.length + depth,
                logits="none",
                capture=(exit_layer,),
                stop_after=exit_layer,
            )
            logits = self._model.head(self.bridge(result.hidden[exit_layer][0]))
            drafts.append(int(logits.argmax()))
        return drafts


def token_ranks(
    model: Llama,
    bridge: Bridge,
    hidden: torch.Tensor,
    tokens: Sequence[int],
    *,
    width: int = RANK_WIDTH,
) -> NDArray[np.int8]:
    """Rank of every true token among the early exit's candidates.

    Args:
        model: the target, for its norm and head.
        bridge: the map from the exit.
        hidden: [n, model width]; row i is the exit's state that token i is predicted from.
        tokens: the n true tokens.
        width: candidates kept, 1..127.

    Returns:
        int8[n] in 0..width-1, or -1 where the token is not among them. Equal logits rank by id.
    """
    truth = torch.as_tensor(list(tokens), device=hidden.device)
    ranks = np.empty(len(tokens), dtype=np.int8)
    for start in range(0, len(tokens), _ROWS_AT_ONCE):
        rows = slice(start, start + _ROWS_AT_ONCE)
        logits = model.head(bridge(hidden[rows]))
        ids = truth[rows, None]
        own = logits.gather(1, ids)
        before = torch.arange(logits.shape[1], device=logits.device) < ids
        likelier = ((logits > own) | ((logits == own) & before)).sum(dim=1).cpu().numpy()
        ranks[rows] = np.where(likelier < width, likelier, -1)
    return ranks


def chain_lengths(ranks: NDArray[np.int8]) -> NDArray[np.int16]:
    """What a step starting at every position emits with an unlimited chain, int16[n].

    The run of rank 0 plus one, cut at the end of the text, where there is nothing left to emit.
    """
    n = ranks.size
    emitted = np.ones(n, dtype=np.int64)
    run = 0
    for position in range(n - 1, -1, -1):
        run = run + 1 if ranks[position] == 0 else 0
        emitted[position] = min(run + 1, n - position)
    return emitted.astype(np.int16)
