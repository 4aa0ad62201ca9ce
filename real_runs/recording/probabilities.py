"""Which probabilities did the target give the drafter's candidates, position by position?

Probabilities from the logits that the text was drawn from, at the temperature it was drawn at; of a
greedy text, which is drawn from nothing, at temperature 1. Leaves out the drafter's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from real_runs.decoding.generate import Generation

_ROWS_AT_ONCE = 32


def target_arrays(
    generation: Generation, draft_ids: Any, temperature: float
) -> dict[str, NDArray[np.float16]]:
    """The target's part of level 3.

    Args:
        generation: a text with its logits.
        draft_ids: the drafter's candidates [n, W]; -1 where there are fewer.
        temperature: of the text.

    Returns:
        `target_probs` [n, W], `emitted_target_prob` [n] and `residual_mass` [n].
    """
    assert generation.logits is not None
    ids = torch.from_numpy(np.ascontiguousarray(draft_ids)).long()
    truth = torch.tensor(generation.tokens)[:, None]
    parts: list[tuple[torch.Tensor, torch.Tensor]] = []
    for first in range(0, len(generation.tokens), _ROWS_AT_ONCE):
        rows = slice(first, first + _ROWS_AT_ONCE)
        all_of = torch.softmax(
            generation.logits[rows].double().cpu() / (temperature or 1.0), dim=-1
        )
        drafted = all_of.gather(1, ids[rows].clamp(min=0)) * (ids[rows] >= 0)
        parts.append((drafted, all_of.gather(1, truth[rows])[:, 0]))
    drafted = torch.cat([part for part, _ in parts])
    return {
        "target_probs": drafted.half().numpy(),
        "emitted_target_prob": torch.cat([part for _, part in parts]).half().numpy(),
        "residual_mass": (1 - drafted.sum(dim=1)).clamp(min=0).half().numpy(),
    }
