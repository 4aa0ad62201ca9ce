"""How do heads that read drafted tokens learn?

Every head starts as the least-squares map from a state and the tokens after it to the target's state behind them,
and is then trained to the target's distribution there, on text that the target wrote: the tokens read are the true
ones. Leaves out the text (`head_data`), storage (`head_training`), and training on drafted tokens.

Reference: Ankner et al., Hydra, arXiv 2402.05109, sec. 4 (heads alone, the target frozen, its distribution as label).
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from real_runs.drafters.heads.decoder_layer import embedded, head_logits
from real_runs.drafters.heads.head_data import HeadText
from real_runs.drafters.heads.head_training import HeadTraining, Labels, cross_entropy, ridge, train
from real_runs.drafters.heads.hydra_heads import HEADS, HydraHeads, fused
from real_runs.models.llama import Llama

_HEAD_WEIGHT = 0.8  # as for independent heads: losses of further heads count less


def fit_hydra_heads(
    model: Llama,
    text: HeadText,
    training: HeadTraining,
    *,
    heads: int = HEADS,
    report: Callable[[int, int, float], None] | None = None,
) -> HydraHeads:
    """Train heads.

    Args:
        model: the target.
        text: what it wrote, with the states after its last layer; rows longer than heads + 2 tokens.
        training: how.
        heads: how many.
        report: called with (steps done, steps, loss).
    """
    made = HydraHeads(model.config, heads=heads)
    states = text.states[model.config.layers]
    with torch.no_grad():
        for depth in range(heads):
            inputs, wanted = [], []
            for row, tokens in zip(states, text.tokens, strict=True):
                inputs.append(fused(*_read(row.float(), embedded(model, tokens), depth)))
                wanted.append(row[depth + 2 :].float())
            made.fuse[depth].copy_(ridge(inputs, wanted))

    def loss(rows: torch.Tensor, words: torch.Tensor, labels: Labels) -> torch.Tensor:
        places, probabilities = labels.rows(rows, words)
        seen, tokens = states[rows].float(), embedded(model, text.tokens[rows])
        total = torch.zeros(())
        for depth in range(heads):
            logits = head_logits(model, made(*_read(seen, tokens, depth)), words)
            wanted = (part[:, depth + 2 :] for part in (places, probabilities))
            total = total + _HEAD_WEIGHT**depth * cross_entropy(logits, *wanted)
        return total

    train(made, training, text, words=model.config.vocabulary, loss=loss, report=report)
    return made


def _read(states: torch.Tensor, tokens: torch.Tensor, depth: int) -> tuple[torch.Tensor, torch.Tensor]:
    """States [..., n, width] of a row and the embeddings [..., n, depth + 1, width] of the tokens after each of them.

    The first token's state, which is of another kind, is left out, and so are those with too few tokens after them:
    n = T - 2 - depth.
    """
    count = tokens.shape[-2] - 2 - depth
    after = [tokens[..., 2 + place : 2 + place + count, :] for place in range(depth + 1)]
    return states[..., 1 : 1 + count, :], torch.stack(after, dim=-2)
