"""How is the one-layer head trained to predict what the target predicts?

It starts as the target's own last layer behind a least-squares guess of that layer's input, and is
then trained on text that the target wrote: to the target's distribution and to its states, with the
target's states given and then, several levels deep, with its own. Leaves out the text (`head_data`)
and storage (`head_training`).

Reference: Li et al., EAGLE, arXiv 2401.15077, sec. 4.2 (the two losses); EAGLE-3, arXiv 2503.01840,
sec. 3.2 (training-time test).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from real_runs.drafters.heads.decoder_layer import embedded, has_plain_layers, head_logits, rotation
from real_runs.drafters.heads.feature_head import FeatureHead
from real_runs.drafters.heads.head_data import HeadText
from real_runs.drafters.heads.head_training import HeadTraining, Labels, cross_entropy, ridge, train
from real_runs.models.bridge import unit_rms
from real_runs.models.llama import Llama

LEVELS = 3
_STATE_WEIGHT = 1.0
_LEVEL_WEIGHT = 0.8
_SCALE_TOKENS = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureHeadTraining(HeadTraining):
    """How a feature head is trained.

    Attributes:
        levels: read in a row, >= 1: the first with the target's states, the others with the head's.
    """

    levels: int = LEVELS


def default_capture(layers: int) -> tuple[int, ...]:
    """Layers whose states are read unless others are asked for: a third, two thirds, all."""
    return tuple(sorted({max(1, layers // 3), max(1, 2 * layers // 3), layers}))


def needed_layers(capture: Sequence[int], layers: int) -> tuple[int, ...]:
    """Layers whose states the text must hold: those captured, and the input of the last layer."""
    return tuple(sorted({*capture, layers - 1} - {0}))


def fit_feature_head(
    model: Llama,
    text: HeadText,
    training: FeatureHeadTraining,
    *,
    capture: Sequence[int],
    report: Callable[[int, int, float], None] | None = None,
) -> FeatureHead:
    """Train a head.

    Args:
        model: the target.
        text: what it wrote, with the states of `needed_layers`.
        training: how.
        capture: layer counts whose states the head reads.
        report: called with (steps done, steps, loss).
    """
    generator = torch.Generator().manual_seed(training.seed)
    head = FeatureHead(model.config, capture=capture, generator=generator)
    _start(model, head, text)

    def loss(rows: torch.Tensor, words: torch.Tensor, labels: Labels) -> torch.Tensor:
        return _loss(model, head, text, rows, words, labels, training.levels)

    train(head, training, text, words=model.config.vocabulary, loss=loss, report=report)
    return head


def _start(model: Llama, head: FeatureHead, text: HeadText) -> None:
    """Weights before training: the target's last layer, and both ways into it by least squares."""
    layers = model.config.layers
    if not has_plain_layers(model.config) or layers - 1 not in text.states:
        return
    head.layer.copy_from(model, layers - 1)
    sample = text.tokens[0, :_SCALE_TOKENS]
    output = model.forward(
        sample, model.new_cache(len(sample)), logits="none", capture=(layers - 1,)
    )
    scale = float(output.hidden[layers - 1][0, 1:].float().square().mean(dim=-1).sqrt().mean())
    tokens = unit_rms(embedded(model, text.tokens[:, 2:]))
    wanted = [scale * target_states.float() for target_states in text.states[layers - 1][:, 2:]]
    for weight, captured in ((head.true_in, head.capture), (head.own_in, head.capture[-1:])):
        before = [
            torch.cat(
                [row, *(text.states[layer][index, 1:-1].float() for layer in captured)], dim=-1
            )
            for index, row in enumerate(tokens)
        ]
        with torch.no_grad():
            weight.copy_(ridge(before, wanted))


def _loss(
    model: Llama,
    head: FeatureHead,
    text: HeadText,
    rows: torch.Tensor,
    words: torch.Tensor,
    labels: Labels,
    levels: int,
) -> torch.Tensor:
    """Loss over some rows: level after level, each read with the results of the level above it."""
    layer, length = head.layer, text.tokens.shape[1]
    tokens = embedded(model, text.tokens[rows])
    turned = rotation(head.config, torch.arange(length))
    places, probabilities = labels.rows(rows, words)
    wanted = text.states[head.capture[-1]][rows].float()
    states = [
        functional.pad(text.states[captured][rows, :-1].float(), (0, 0, 1, 0))
        for captured in head.capture
    ]
    x = head.fused_true(tokens, states)
    keys, values = [], []
    total = torch.zeros(())
    for level in range(levels):
        q, k, v = layer.heads(x, turned)
        keys.append(k)
        values.append(v)
        results = layer.mixed(
            x, q, torch.cat(keys, dim=2), torch.cat(values, dim=2), level_mask(level, length)
        )
        first = (
            level + 1
        )  # the first token's state is of another kind, and so is all that follows from it
        logits = head_logits(model, results[:, first:], words)
        entropy = cross_entropy(logits, places[:, first:], probabilities[:, first:])
        distance = functional.smooth_l1_loss(unit_rms(results[:, first:]), wanted[:, first:])
        total = total + _LEVEL_WEIGHT**level * (entropy + _STATE_WEIGHT * distance)
        if level + 1 < levels:
            x = head.fused_own(tokens, functional.pad(results[:, :-1], (0, 0, 1, 0)))
    return total


def level_mask(level: int, length: int) -> torch.Tensor:
    """What the nodes of a level see, bool [length, (level + 1) · length].

    The node that stands at token t on level d belongs to the step whose root is token t - d: it
    sees the text up to the root, the step's nodes on the levels between, and itself.
    """
    at, slots = torch.arange(length)[:, None], torch.arange(length)
    parts = [slots <= at - level] + [slots == at - (level - above) for above in range(1, level + 1)]
    mask = torch.cat(parts, dim=1)
    # the first tokens have no step that deep; they see themselves so that no row is empty
    mask[:, level * length :] |= slots == at
    return mask
