"""How do independent heads learn to predict tokens further on?

Every head starts as the least-squares map from the target's state to its state some tokens later, and is then
trained to the target's distribution there, on text that the target wrote. Leaves out the text (`head_data`) and
storage (`head_training`).

Reference: Cai et al., Medusa, arXiv 2401.10774, sec. 3.2 (heads alone, the target frozen; losses of further heads
count less).
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from real_runs.drafters.heads.decoder_layer import head_logits
from real_runs.drafters.heads.head_data import HeadText
from real_runs.drafters.heads.head_training import HeadTraining, Labels, cross_entropy, ridge, train
from real_runs.drafters.heads.medusa_heads import HEADS, MedusaHeads
from real_runs.models.llama import Llama

_HEAD_WEIGHT = 0.8


def fit_medusa_heads(
    model: Llama,
    text: HeadText,
    training: HeadTraining,
    *,
    heads: int = HEADS,
    report: Callable[[int, int, float], None] | None = None,
) -> MedusaHeads:
    """Train heads.

    Args:
        model: the target.
        text: what it wrote, with the states after its last layer; rows longer than heads + 2 tokens.
        training: how.
        heads: how many.
        report: called with (steps done, steps, loss).
    """
    made = MedusaHeads(model.config, heads=heads)
    states = text.states[model.config.layers]
    with torch.no_grad():
        for depth in range(heads):
            parts = [row.float() for row in states]
            distance = depth + 1  # the first token's state is of another kind
            made.across[depth] = ridge([row[1:-distance] for row in parts], [row[1 + distance :] for row in parts])

    def loss(rows: torch.Tensor, words: torch.Tensor, labels: Labels) -> torch.Tensor:
        places, probabilities = labels.rows(rows, words)
        seen = states[rows].float()
        total = torch.zeros(())
        for depth in range(heads):
            logits = head_logits(model, made(seen[:, 1 : -(depth + 1)], depth), words)
            wanted = (each[:, depth + 2 :] for each in (places, probabilities))
            total = total + _HEAD_WEIGHT**depth * cross_entropy(logits, *wanted)
        return total

    train(made, training, text, words=model.config.vocabulary, loss=loss, report=report)
    return made
