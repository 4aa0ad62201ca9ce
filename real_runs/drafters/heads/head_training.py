"""On what are heads trained, whatever their shape, and from which recipe?

Soft labels of the target over the words that matter, every row of the text as often as every other.
Leaves out what each head computes, and the optimiser (`real_runs.training`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hardware_profiles.errors import InputError
from real_runs.drafters.heads.head_data import HeadText
from real_runs.training import load_module, minimise, save_module

_FORMAT = "1"


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadTraining:
    """How long and how a head is trained.

    Attributes:
        steps: of the optimiser.
        rows: rows of text per step.
        learning_rate: of AdamW after the warm-up; falls to zero by a cosine.
        vocabulary: the likeliest tokens of the text, over which labels and predictions are
            compared.
        others: further tokens, drawn anew for every step, that no prediction may lean on.
        seed: of the order of rows, of initial weights and of those tokens.

    Raises:
        InputError: out of range.
    """

    steps: int = 150
    rows: int = 4
    learning_rate: float = 1e-3
    vocabulary: int = 4096
    others: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        rules = {
            "steps": 1 <= self.steps <= 10_000_000,
            "rows": 1 <= self.rows <= 4096,
            "learning_rate": 0 < self.learning_rate < 1,
            "vocabulary": self.vocabulary >= 2,
            "others": self.others >= 0,
        }
        for key, holds in rules.items():
            if not holds:
                raise InputError("is out of range", key=key, value=getattr(self, key))


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadRecipe:
    """Everything that a trained head depends on.

    Attributes:
        model_sha256: digest of the target's weights.
        dtype: number format that it runs in.
        kind: of head.
        shape: its own numbers, by name.
        training: how it was trained.
        data: the text in words.
        data_sha256: its digest.
    """

    model_sha256: str
    dtype: str
    kind: str
    shape: dict[str, Any]
    training: HeadTraining
    data: str
    data_sha256: str


class Labels:
    """What the target holds likely after every token, over the words compared in a step.

    Args:
        text: the text with the target's likeliest tokens.
        vocabulary: words compared in every step.
        words: ids that the target has.
    """

    def __init__(self, text: HeadText, *, vocabulary: int, words: int) -> None:
        mass = torch.zeros(words)
        mass.index_add_(0, text.likeliest.flatten().long(), text.probabilities.flatten().float())
        self._text, self._words = text, words
        self._common = mass.topk(min(vocabulary, words)).indices.sort().values

    def words(self, others: int, generator: torch.Generator) -> torch.Tensor:
        """Ids compared in one step, ascending: the common ones and a few drawn ones."""
        drawn = torch.randint(0, self._words, (others,), generator=generator)
        compared: torch.Tensor = torch.unique(torch.cat([self._common, drawn]))
        return compared

    def rows(self, rows: torch.Tensor, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Places among `words` [rows, T, likeliest] and probabilities there; 0 for what is not
        among them.
        """
        ids = self._text.likeliest[rows].long()
        places = torch.searchsorted(words, ids).clamp(max=len(words) - 1)
        return places, self._text.probabilities[rows].float() * (words[places] == ids)


def cross_entropy(
    logits: torch.Tensor, places: torch.Tensor, probabilities: torch.Tensor
) -> torch.Tensor:
    """Mean over positions of -sum p log q; p is zero but at some places of the last axis.

    Args:
        logits: of q [..., words].
        places: where p is not zero [..., likeliest].
        probabilities: p there [..., likeliest].
    """
    wanted = (probabilities * logits.gather(-1, places)).sum(dim=-1)
    return (probabilities.sum(dim=-1) * logits.logsumexp(dim=-1) - wanted).mean()


def train(
    module: nn.Module,
    training: HeadTraining,
    text: HeadText,
    *,
    words: int,
    loss: Callable[[torch.Tensor, torch.Tensor, Labels], torch.Tensor],
    report: Callable[[int, int, float], None] | None = None,
) -> None:
    """Minimise a loss over the rows of a text, every row as often as every other.

    Args:
        module: what is trained; its parameters change in place.
        training: how.
        text: rows.
        words: ids that the target has.
        loss: indices of the step's rows, ids compared, labels -> loss.
        report: called with (steps done, steps, loss).
    """
    labels = Labels(text, vocabulary=training.vocabulary, words=words)
    order: list[int] = []

    def of_step(_: int, generator: torch.Generator) -> torch.Tensor:
        while len(order) < training.rows:
            order.extend(torch.randperm(text.rows, generator=generator).tolist())
        chosen = torch.tensor(order[: training.rows])
        del order[: training.rows]
        return loss(chosen, labels.words(training.others, generator), labels)

    minimise(
        module,
        of_step,
        steps=training.steps,
        learning_rate=training.learning_rate,
        second_beta=0.95,
        seed=training.seed,
        report=report,
    )
    for parameter in module.parameters():
        parameter.requires_grad_(False)


def save_head(module: nn.Module, recipe: HeadRecipe, path: Path) -> None:
    """Write a head and its recipe as safetensors, whole or not at all."""
    save_module(module, _metadata(recipe), path)


def load_head(module: nn.Module, recipe: HeadRecipe, path: Path) -> bool:
    """Fill a head from a file that this very recipe made; False, and nothing changed, where there
    is none.
    """
    if not load_module(module, _metadata(recipe), path):
        return False
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    return True


_PENALTY = 1e-3  # per row, relative to inputs of unit size


def ridge(inputs: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> torch.Tensor:
    """The matrix [outputs, inputs] that maps inputs to what is wanted with least squares; parts
    come row by row.

    Args:
        inputs: parts [rows, inputs].
        wanted: parts [rows, outputs].
    """
    gram = sum((part.T @ part).double() for part in inputs)
    cross = sum((part.T @ other).double() for part, other in zip(inputs, wanted, strict=True))
    assert isinstance(gram, torch.Tensor)
    count = sum(len(part) for part in inputs)
    identity = torch.eye(len(gram), dtype=torch.float64)
    solved: torch.Tensor = torch.linalg.solve(gram + _PENALTY * count * identity, cross)
    return solved.T.float().contiguous()


def _metadata(recipe: HeadRecipe) -> dict[str, str]:
    return {"format": _FORMAT, "recipe": json.dumps(asdict(recipe), sort_keys=True)}
