"""How do prompt tokens learn, when every weight of the target stays?

They are read behind drawn places of a text that the target wrote, and their embeddings alone are
trained to the target's distribution at the words that they speak of. The text's keys and values
come from a plain pass; gradients run through the target's layers over the prompt tokens. Leaves out
the text (`head_data`) and storage (`head_training`).

Reference: Chen et al., arXiv 2405.18628, sec. 3.3 (places drawn at random, the target's
distribution as label, losses of further prompt tokens count less).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from real_runs.drafters.heads.decoder_layer import (
    DecoderLayer,
    embedded,
    frozen_layers,
    head_logits,
    rotation,
)
from real_runs.drafters.heads.head_data import HeadText
from real_runs.drafters.heads.head_training import HeadTraining, Labels, cross_entropy, train
from real_runs.drafters.heads.prompt_tokens import PROMPT_TOKENS, PromptTokens
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama

_LOSS_WEIGHT = 0.8
_INITIAL_SPREAD = (
    0.1  # of the embeddings around their mean at the start, relative to those of words
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PromptTraining(HeadTraining):
    """How prompt tokens are trained.

    Attributes:
        rows: of the text in a step.
        places: drawn in every row; prompt tokens stand behind each.
    """

    rows: int = 1
    places: int = 48


def fit_prompt_tokens(
    model: Llama,
    text: HeadText,
    training: PromptTraining,
    *,
    prompt_tokens: int = PROMPT_TOKENS,
    report: Callable[[int, int, float], None] | None = None,
) -> PromptTokens:
    """Train prompt tokens.

    Args:
        model: the target, of plain Llama layers.
        text: what it wrote; rows longer than prompt_tokens + 2 tokens.
        training: how.
        prompt_tokens: how many.
        report: called with (steps done, steps, loss).

    Raises:
        InputError: a family whose layers cannot pass gradients on here.
    """
    layers = frozen_layers(model)
    generator = torch.Generator().manual_seed(training.seed)
    prompts = PromptTokens(model.config.width, count=prompt_tokens)
    words_used = embedded(model, text.tokens.flatten())
    with torch.no_grad():
        noise = torch.randn(prompts.embeddings.shape, generator=generator)
        prompts.embeddings.copy_(
            words_used.mean(dim=0) + _INITIAL_SPREAD * words_used.std(dim=0) * noise
        )

    def loss(rows: torch.Tensor, words: torch.Tensor, labels: Labels) -> torch.Tensor:
        places, probabilities = labels.rows(rows, words)
        total = torch.zeros(())
        for row, at, mass in zip(text.tokens[rows], places, probabilities, strict=True):
            # the first token's state is of another kind; the last place still has a label for the
            # last prompt token
            drawn = (
                1
                + torch.randperm(len(row) - 1 - prompt_tokens, generator=generator)[
                    : training.places
                ]
                .sort()
                .values
            )
            cache = model.new_cache(len(row))
            model.forward(row, cache, logits="none")
            states = states_behind(layers, prompts, cache, drawn)
            for depth in range(prompt_tokens):
                wanted = drawn + 1 + depth
                logits = head_logits(model, states[:, depth], words)
                total = total + _LOSS_WEIGHT**depth * cross_entropy(
                    logits, at[wanted], mass[wanted]
                )
        return total / len(rows)

    train(prompts, training, text, words=model.config.vocabulary, loss=loss, report=report)
    return prompts


def states_behind(
    layers: list[DecoderLayer], prompts: PromptTokens, cache: KVCache, places: torch.Tensor
) -> torch.Tensor:
    """States of prompt tokens that follow places of a text, as the target would have them.

    Args:
        layers: of the target, frozen.
        prompts: the prompt tokens.
        cache: of the text, all of which the target has read.
        places: int64 [P], ascending.

    Returns:
        After the last layer, float32 [P, prompt tokens, width]; gradients reach the prompt tokens.
    """
    count, length = prompts.count, cache.capacity
    turned = rotation(layers[0].config, (places[:, None] + 1 + torch.arange(count)).flatten())
    own = torch.kron(torch.eye(len(places)), torch.ones(count, count).tril()).bool()
    mask = torch.cat([torch.arange(length) <= places.repeat_interleave(count)[:, None], own], dim=1)
    x = prompts.embeddings.repeat(len(places), 1)[None]
    for index, layer in enumerate(layers):
        q, k, v = layer.heads(x, turned)
        keys = torch.cat([cache.keys[index].float().cpu(), k], dim=2)
        values = torch.cat([cache.values[index].float().cpu(), v], dim=2)
        x = layer.mixed(x, q, keys, values, mask)
    return x[0].view(len(places), count, -1)
