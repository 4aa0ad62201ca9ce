"""How is the small masked model trained, and kept?

Every position of the canvas is masked with the same probability, drawn anew per row, and predicted from the rest: the
bound on the likelihood of masked diffusion. A model is read from a folder if this very recipe made it, and trained
and kept otherwise. Leaves out what it computes (`network`) and its text (`corpus`).

Reference: Nie et al. 2025, LLaDA, arXiv 2502.09992, eq. 3.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from hardware_profiles.errors import InputError
from hardware_profiles.whole_file import whole_file
from real_runs.masked.corpus import Corpus
from real_runs.masked.network import MaskedModel, MaskedShape

_LEAST_MASKED = 0.05  # of a canvas: a weight of 1/ratio beyond that is noise
_FIRST_MASKED = 0.25
_WARMUP_RATIO = 0.05
_LARGEST_NORM = 1.0


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
    steps: int = 1000
    rows: int = 8
    learning_rate: float = 2e-3
    seed: int = 0
    width: int = 128
    layers: int = 3
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
            vocabulary=self.corpus.vocabulary, positions=self.corpus.window_tokens, width=self.width,
            layers=self.layers, heads=self.heads, ffn_width=self.ffn_width,
        )  # fmt: skip


def masked_model(
    folder: Path, recipe: MaskedRecipe, report: Callable[[int, int, float], None] | None = None
) -> MaskedModel:
    """The model of a recipe, read from `folder` or trained and kept there.

    Args:
        folder: made if it is not there.
        recipe: what the model depends on.
        report: called with (steps done, steps, loss).
    """
    model, path = MaskedModel(recipe.shape, seed=recipe.seed), folder / "masked-model.safetensors"
    if not _load(model, recipe, path):
        train(model, recipe, report)
        folder.mkdir(parents=True, exist_ok=True)
        _save(model, recipe, path)
    for value in model.parameters():
        value.requires_grad_(False)
    return model.eval()


def train(model: MaskedModel, recipe: MaskedRecipe, report: Callable[[int, int, float], None] | None = None) -> None:
    """Train a model in place.

    Args:
        model: of the recipe's shape.
        recipe: how.
        report: called with (steps done, steps, loss): the mean of -log p over masked positions of one step.
    """
    generator = torch.Generator().manual_seed(recipe.seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    text = torch.from_numpy(recipe.corpus.training_windows()).long()
    for step in range(recipe.steps):
        for group in optimiser.param_groups:
            group["lr"] = recipe.learning_rate * _warmed(step, recipe.steps)
        rows = text[torch.randint(0, len(text), (recipe.rows,), generator=generator)]
        masked, ratio = _masks(recipe, step, generator)
        canvas, shown = rows[:, recipe.prompt_tokens :], rows.clone()
        shown[:, recipe.prompt_tokens :][masked] = recipe.corpus.mask_id
        logits = model(shown)[:, recipe.prompt_tokens :]
        surprise = functional.cross_entropy(logits[masked], canvas[masked], reduction="none")
        weight = (1.0 / ratio)[:, None].expand_as(masked)[masked]
        loss = (weight * surprise).sum() / canvas.numel()
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), _LARGEST_NORM)
        optimiser.step()
        if report:
            report(step + 1, recipe.steps, float(surprise.detach().mean()))


def _masks(recipe: MaskedRecipe, step: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Masked positions of a step's rows, bool[rows, L], and their probability by row; evenly spread.

    The highest probability rises to 1 over the first half of the steps: with much of the text shown a model finds
    out sooner that it should look at it.
    """
    most = min(1.0, _FIRST_MASKED + (1.0 - _FIRST_MASKED) * 2.0 * step / recipe.steps)
    even = (torch.rand(1, generator=generator) + torch.randperm(recipe.rows, generator=generator) / recipe.rows) % 1.0
    ratio = _LEAST_MASKED + (most - _LEAST_MASKED) * even
    drawn = torch.rand(recipe.rows, recipe.canvas_tokens, generator=generator)
    return drawn < ratio[:, None], ratio


def _warmed(step: int, steps: int) -> float:
    """Share of the learning rate: a linear rise, then half a cosine down to zero."""
    warmup = max(1, round(_WARMUP_RATIO * steps))
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def model_sha256(model: MaskedModel) -> str:
    """Digest of the weights."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode() + value.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _save(model: MaskedModel, recipe: MaskedRecipe, path: Path) -> None:
    from safetensors.torch import save_file

    tensors = {name: value.detach().contiguous() for name, value in model.state_dict().items()}
    with whole_file(path) as part:
        save_file(tensors, part, metadata=_metadata(recipe))


def _load(model: MaskedModel, recipe: MaskedRecipe, path: Path) -> bool:
    """Fill a model from a file that this very recipe made; False, and nothing changed, where there is none."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        return False
    wanted = model.state_dict()
    try:
        with safe_open(path, framework="pt") as stored:
            if (stored.metadata() or {}) != _metadata(recipe) or set(stored.keys()) != set(wanted):
                return False
            tensors = {name: stored.get_tensor(name) for name in wanted}
    except (SafetensorError, OSError, ValueError):
        return False
    if any(tensors[name].shape != value.shape for name, value in wanted.items()):
        return False
    model.load_state_dict(tensors)
    return True


def _metadata(recipe: MaskedRecipe) -> dict[str, str]:
    values = asdict(recipe) | {"data_sha256": recipe.corpus.sha256}
    return {"format": "pt", "recipe": json.dumps(values, sort_keys=True)}
