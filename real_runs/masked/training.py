"""What is the small masked model trained on, and from which recipe?

Every position of the canvas is masked with the same probability, drawn anew per row, and predicted
from the rest: the bound on the likelihood of masked diffusion. A model is read from a folder if
this very recipe made it, and trained and kept otherwise. Leaves out the optimiser
(`real_runs.training`), what the model computes (`network`) and its text (`corpus`).

Reference: Nie et al. 2025, LLaDA, arXiv 2502.09992, eq. 3.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch.nn import functional

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import make_folder
from real_runs.masked.corpus import Corpus
from real_runs.masked.network import MaskedModel, MaskedShape
from real_runs.training import Checkpoint, load_module, minimise, save_module

_LEAST_MASKED = 0.05  # of a canvas: a weight of 1/ratio beyond that is noise
_FIRST_MASKED = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskedRecipe:
    """Everything that the model depends on, the version of torch aside.

    Attributes:
        corpus: its text.
        prompt_tokens: tokens of a window that are never masked.
        steps: of the optimiser.
        rows: rows per step.
        learning_rate: of AdamW after the warm-up; falls to zero by a cosine.
        seed: of rows, masks and initial weights.
        width, layers, heads, ffn_width: of the network.

    Raises:
        InputError: prompt, steps, rows or learning rate out of range.
    """

    corpus: Corpus = field(default_factory=Corpus)
    prompt_tokens: int = 40
    steps: int = 4500
    rows: int = 16
    learning_rate: float = 2e-3
    seed: int = 0
    width: int = 128
    layers: int = 4
    heads: int = 4
    ffn_width: int = 320

    def __post_init__(self) -> None:
        rules = {
            "prompt_tokens": 1 <= self.prompt_tokens < self.corpus.window_tokens,
            "steps": 1 <= self.steps <= 1_000_000,
            "rows": 1 <= self.rows <= 4096,
            "learning_rate": 0 < self.learning_rate < 1,
        }
        for key, holds in rules.items():
            if not holds:
                raise InputError("is out of range", key=key, value=getattr(self, key))

    @property
    def canvas_tokens(self) -> int:
        """Tokens behind the prompt."""
        return self.corpus.window_tokens - self.prompt_tokens

    @property
    def shape(self) -> MaskedShape:
        """Sizes of the network."""
        return MaskedShape(
            vocabulary=self.corpus.vocabulary,
            positions=self.corpus.window_tokens,
            width=self.width,
            layers=self.layers,
            heads=self.heads,
            ffn_width=self.ffn_width,
        )


def masked_model(
    folder: Path, recipe: MaskedRecipe, report: Callable[[int, int, float], None] | None = None
) -> MaskedModel:
    """The model of a recipe, read from `folder` or trained and kept there; training that was
    stopped goes on.

    Args:
        folder: made if it is not there.
        recipe: what the model depends on.
        report: called with (steps done, steps, loss).
    """
    model, path = MaskedModel(recipe.shape, seed=recipe.seed), folder / "masked-model.safetensors"
    made_by = _metadata(recipe)
    if not load_module(model, made_by, path):
        make_folder(folder)
        unfinished = Checkpoint(path=folder / "masked-model.part.safetensors", recipe=made_by)
        train(model, recipe, checkpoint=unfinished, report=report)
        save_module(model, made_by, path)
        unfinished.path.unlink(missing_ok=True)
    for value in model.parameters():
        value.requires_grad_(False)
    return model.eval()


def train(
    model: MaskedModel,
    recipe: MaskedRecipe,
    *,
    checkpoint: Checkpoint | None = None,
    report: Callable[[int, int, float], None] | None = None,
) -> None:
    """Train a model in place.

    Args:
        model: of the recipe's shape.
        recipe: how.
        checkpoint: where unfinished training is kept.
        report: called with (steps done, steps, loss): the bound on -log p of a token of the canvas,
            in nats.
    """
    text = torch.from_numpy(recipe.corpus.training_windows()).long()

    def loss(step: int, generator: torch.Generator) -> torch.Tensor:
        rows = text[torch.randint(0, len(text), (recipe.rows,), generator=generator)]
        masked, ratio = _masks(recipe, step, generator)
        canvas, shown = rows[:, recipe.prompt_tokens :], rows.clone()
        shown[:, recipe.prompt_tokens :][masked] = recipe.corpus.mask_id
        logits = model(shown)[:, recipe.prompt_tokens :]
        surprise = functional.cross_entropy(logits[masked], canvas[masked], reduction="none")
        weight = (1.0 / ratio)[:, None].expand_as(masked)[masked]
        return (weight * surprise).sum() / canvas.numel()

    minimise(
        model,
        loss,
        steps=recipe.steps,
        learning_rate=recipe.learning_rate,
        second_beta=0.98,
        seed=recipe.seed,
        checkpoint=checkpoint,
        report=report,
    )


def _masks(
    recipe: MaskedRecipe, step: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """Masked positions of a step's rows, bool[rows, L], and their probability by row; evenly
    spread.

    The highest probability rises to 1 over the first half of the steps: with much of the text shown
    a model finds out sooner that it should look at it.
    """
    most = min(1.0, _FIRST_MASKED + (1.0 - _FIRST_MASKED) * 2.0 * step / recipe.steps)
    even = (
        torch.rand(1, generator=generator)
        + torch.randperm(recipe.rows, generator=generator) / recipe.rows
    ) % 1.0
    ratio = _LEAST_MASKED + (most - _LEAST_MASKED) * even
    drawn = torch.rand(recipe.rows, recipe.canvas_tokens, generator=generator)
    return drawn < ratio[:, None], ratio


def _metadata(recipe: MaskedRecipe) -> dict[str, str]:
    values = asdict(recipe) | {"data_sha256": recipe.corpus.sha256}
    return {"format": "pt", "recipe": json.dumps(values, sort_keys=True)}
