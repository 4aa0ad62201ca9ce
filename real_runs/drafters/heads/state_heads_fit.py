"""How do heads over the target's last state learn to predict tokens further on?

Every head starts as the least-squares map from what it reads to the target's state some tokens
later, and is then trained to the target's distribution there, on text that the target wrote. A
Medusa head reads the state alone, a Hydra head the tokens after it too: the true ones. Leaves out
the text (`head_data`), storage (`head_training`), and training on drafted tokens.

Reference: Cai et al., Medusa, arXiv 2401.10774, sec. 3.2 (heads alone, the target frozen; losses of
further heads count less); Ankner et al., Hydra, arXiv 2402.05109, sec. 4 (the target's distribution
as label).
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from real_runs.drafters.heads import hydra_heads, medusa_heads
from real_runs.drafters.heads.decoder_layer import embedded, head_logits
from real_runs.drafters.heads.head_data import HeadText
from real_runs.drafters.heads.head_training import HeadTraining, Labels, cross_entropy, ridge, train
from real_runs.drafters.heads.hydra_heads import HydraHeads, fused
from real_runs.drafters.heads.medusa_heads import MedusaHeads
from real_runs.models.llama import Llama

_HEAD_WEIGHT = 0.8

Report = Callable[[int, int, float], None]
OfRows = Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]
"""Of states [..., T, width] and tokens [..., T] of rows, for the head of a depth: [..., T - 2 -
depth, any]."""


def fit_medusa_heads(
    model: Llama,
    text: HeadText,
    training: HeadTraining,
    *,
    heads: int = medusa_heads.HEADS,
    report: Report | None = None,
) -> MedusaHeads:
    """Train independent heads.

    Args:
        model: the target.
        text: what it wrote, with the states after its last layer; rows longer than heads + 2
            tokens.
        training: how.
        heads: how many.
        report: called with (steps done, steps, loss).
    """
    trained = MedusaHeads(model.config, heads=heads)

    def read(states: torch.Tensor, tokens: torch.Tensor, depth: int) -> torch.Tensor:
        return _states_before(states, depth)

    def states_of(states: torch.Tensor, tokens: torch.Tensor, depth: int) -> torch.Tensor:
        loss: torch.Tensor = trained(_states_before(states, depth), depth)
        return loss

    _fit(
        model,
        text,
        training,
        trained,
        trained.across,
        read=read,
        states_of=states_of,
        report=report,
    )
    return trained


def fit_hydra_heads(
    model: Llama,
    text: HeadText,
    training: HeadTraining,
    *,
    heads: int = hydra_heads.HEADS,
    report: Report | None = None,
) -> HydraHeads:
    """Train heads that read the tokens before theirs.

    Args:
        model: the target.
        text: what it wrote, with the states after its last layer; rows longer than heads + 2
            tokens.
        training: how.
        heads: how many.
        report: called with (steps done, steps, loss).
    """
    trained = HydraHeads(model.config, heads=heads)

    def after(tokens: torch.Tensor, depth: int) -> torch.Tensor:
        """Embeddings [..., n, depth + 1, width] of the tokens after every state."""
        vectors = embedded(model, tokens)
        count = vectors.shape[-2] - 2 - depth
        return torch.stack(
            [vectors[..., 2 + at : 2 + at + count, :] for at in range(depth + 1)], dim=-2
        )

    def read(states: torch.Tensor, tokens: torch.Tensor, depth: int) -> torch.Tensor:
        return fused(_states_before(states, depth), after(tokens, depth))

    def states_of(states: torch.Tensor, tokens: torch.Tensor, depth: int) -> torch.Tensor:
        loss: torch.Tensor = trained(_states_before(states, depth), after(tokens, depth))
        return loss

    _fit(
        model, text, training, trained, trained.fuse, read=read, states_of=states_of, report=report
    )
    return trained


def _fit(
    model: Llama,
    text: HeadText,
    training: HeadTraining,
    trained: torch.nn.Module,
    linear: torch.nn.Parameter | torch.nn.ParameterList,
    *,
    read: OfRows,
    states_of: OfRows,
    report: Report | None,
) -> None:
    """Set the linear maps of heads by least squares of what they `read`, and train them by their
    `states_of`.
    """
    states, heads = text.states[model.config.layers], len(linear)
    with torch.no_grad():
        for depth in range(heads):
            inputs = [
                read(row.float(), tokens, depth)
                for row, tokens in zip(states, text.tokens, strict=True)
            ]
            linear[depth].copy_(ridge(inputs, [row[depth + 2 :].float() for row in states]))

    def loss(rows: torch.Tensor, words: torch.Tensor, labels: Labels) -> torch.Tensor:
        places, probabilities = labels.rows(rows, words)
        inputs, tokens = states[rows].float(), text.tokens[rows]
        total = torch.zeros(())
        for depth in range(heads):
            logits = head_logits(model, states_of(inputs, tokens, depth), words)
            wanted = (part[:, depth + 2 :] for part in (places, probabilities))
            total = total + _HEAD_WEIGHT**depth * cross_entropy(logits, *wanted)
        return total

    train(trained, training, text, words=model.config.vocabulary, loss=loss, report=report)


def _states_before(states: torch.Tensor, depth: int) -> torch.Tensor:
    """States behind which `depth` + 1 tokens follow; the first token's, which is of another kind,
    is left out.
    """
    return states[..., 1 : states.shape[-2] - 1 - depth, :]
