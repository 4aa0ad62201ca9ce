"""How is a trained head loaded, or trained when there is none?

Per kind of head: read it from a folder if this very recipe made it, train and keep it otherwise.
All kinds share one text, which the model writes when the first of them has to be trained. Leaves
out drafting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from real_runs.drafters.draft_model import load_draft_model
from real_runs.drafters.heads.draft_model_fit import (
    LAYERS,
    fit_draft_model,
    is_draft_model,
    save_draft_model,
)
from real_runs.drafters.heads.feature_head import FeatureHead
from real_runs.drafters.heads.feature_head_fit import (
    FeatureHeadTraining,
    default_capture,
    fit_feature_head,
    needed_layers,
)
from real_runs.drafters.heads.head_data import HeadData, HeadText, write_text
from real_runs.drafters.heads.head_training import HeadRecipe, HeadTraining, load_head, save_head
from real_runs.drafters.heads.hydra_heads import HEADS as HYDRA_HEADS
from real_runs.drafters.heads.hydra_heads import HydraHeads
from real_runs.drafters.heads.medusa_heads import HEADS, MedusaHeads
from real_runs.drafters.heads.prompt_tokens import PROMPT_TOKENS, PromptTokens
from real_runs.drafters.heads.prompt_tokens_fit import PromptTraining, fit_prompt_tokens
from real_runs.drafters.heads.state_heads_fit import fit_hydra_heads, fit_medusa_heads
from real_runs.models.llama import Llama
from real_runs.models.loading.tokenizer import Tokenizer
from real_runs.training import module_sha256

Report = Callable[[str, int, int], None]
"""What is being done, how much of it is done, how much there is."""

# each takes a few minutes of one CPU core for a target of 135M parameters
FEATURE_TRAINING = FeatureHeadTraining(steps=85, learning_rate=1e-3)
MEDUSA_TRAINING = HeadTraining(steps=60, learning_rate=5e-4)
HYDRA_TRAINING = HeadTraining(steps=60, learning_rate=5e-4)
PROMPT_TRAINING = PromptTraining(steps=100, learning_rate=1e-2)
DRAFT_TRAINING = HeadTraining(steps=120, learning_rate=1e-3)


class _Rows(nn.Module):
    """Token ids [R, T] as they are stored."""

    tokens: torch.Tensor

    def __init__(self, rows: int, length: int) -> None:
        super().__init__()
        self.register_buffer("tokens", torch.zeros(rows, length, dtype=torch.int64))


@dataclass(kw_only=True, slots=True)
class HeadStore:
    """One target with the folder of its heads.

    Attributes:
        model: the target.
        tokenizer: its tokenizer.
        model_sha256: digest of its weights.
        data: what heads are trained on.
        folder: where heads are kept, and under which first part of their names.
        name: that first part.
        report: called with progress.
    """

    model: Llama
    tokenizer: Tokenizer
    model_sha256: str
    data: HeadData
    folder: Path
    name: str
    report: Report | None = None
    _text: HeadText | None = field(default=None, init=False)

    def feature_head(
        self, training: FeatureHeadTraining = FEATURE_TRAINING
    ) -> tuple[FeatureHead, dict[str, Any]]:
        """The one-layer head, which reads states of `default_capture`, and the parameters that tell
        it from others.
        """
        chosen = tuple(default_capture(self.model.config.layers))
        recipe = self._recipe("feature-head", {"capture": list(chosen)}, training)
        head, path = (
            FeatureHead(self.model.config, capture=chosen),
            self._path("feature-head.safetensors"),
        )
        if not load_head(head, recipe, path):
            head = fit_feature_head(
                self.model,
                self._written(chosen),
                training,
                capture=chosen,
                report=self._steps("feature head"),
            )
            save_head(head, recipe, path)
        return head, _parameters(recipe) | {"head_sha256": module_sha256(head)}

    def medusa_heads(
        self, training: HeadTraining = MEDUSA_TRAINING, *, heads: int = HEADS
    ) -> tuple[MedusaHeads, dict[str, Any]]:
        """Independent heads and the parameters that tell them from others."""
        recipe = self._recipe("medusa-heads", {"heads": heads}, training)
        made, path = (
            MedusaHeads(self.model.config, heads=heads),
            self._path("medusa-heads.safetensors"),
        )
        if not load_head(made, recipe, path):
            report = self._steps("Medusa heads")
            made = fit_medusa_heads(
                self.model, self._written(), training, heads=heads, report=report
            )
            save_head(made, recipe, path)
        return made, _parameters(recipe) | {"head_sha256": module_sha256(made)}

    def texts(self) -> tuple[list[list[int]], dict[str, Any]]:
        """Token ids of the text that heads are trained on, row by row, and the parameters that tell
        it from others.
        """
        recipe, path = self._recipe("text", {}, HeadTraining()), self._path("text.safetensors")
        rows = _Rows(self.data.rows + self.data.help_rows, self.data.row_tokens)
        if not load_head(rows, recipe, path):
            rows.tokens.copy_(self._written().tokens)
            save_head(rows, recipe, path)
        return rows.tokens.tolist(), {"store": recipe.data, "store_sha256": recipe.data_sha256}

    def hydra_heads(
        self, training: HeadTraining = HYDRA_TRAINING, *, heads: int = HYDRA_HEADS
    ) -> tuple[HydraHeads, dict[str, Any]]:
        """Heads that read drafted tokens and the parameters that tell them from others."""
        recipe = self._recipe("hydra-heads", {"heads": heads}, training)
        made, path = (
            HydraHeads(self.model.config, heads=heads),
            self._path("hydra-heads.safetensors"),
        )
        if not load_head(made, recipe, path):
            report = self._steps("Hydra heads")
            made = fit_hydra_heads(
                self.model, self._written(), training, heads=heads, report=report
            )
            save_head(made, recipe, path)
        return made, _parameters(recipe) | {"head_sha256": module_sha256(made)}

    def prompt_tokens(
        self, training: PromptTraining = PROMPT_TRAINING, *, count: int = PROMPT_TOKENS
    ) -> tuple[PromptTokens, dict[str, Any]]:
        """Prompt tokens and the parameters that tell them from others."""
        recipe = self._recipe("prompt-tokens", {"prompt_tokens": count}, training)
        made, path = (
            PromptTokens(self.model.config.width, count=count),
            self._path("prompt-tokens.safetensors"),
        )
        if not load_head(made, recipe, path):
            report = self._steps("prompt tokens")
            made = fit_prompt_tokens(
                self.model, self._written(), training, count=count, report=report
            )
            save_head(made, recipe, path)
        return made, _parameters(recipe) | {"head_sha256": module_sha256(made)}

    def draft_model(
        self, training: HeadTraining = DRAFT_TRAINING, *, layers: int = LAYERS
    ) -> tuple[Llama, dict[str, Any]]:
        """A draft model made out of the target and the parameters that tell it from others."""
        recipe = self._recipe("draft-model", {"layers": layers}, training)
        folder = self._path("draft-model")
        if not is_draft_model(folder, recipe):
            report = self._steps("draft model")
            stack = fit_draft_model(
                self.model, self._written(), training, layers=layers, report=report
            )
            save_draft_model(self.model, stack, recipe, folder)
        return load_draft_model(folder, self.model), _parameters(recipe)

    def _written(self, capture: Sequence[int] = ()) -> HeadText:
        """The text, with the states that any of the heads needs."""
        layers = self.model.config.layers
        wanted = set(needed_layers((*default_capture(layers), *capture), layers))
        if self._text is None or not wanted <= set(self._text.states):
            report = self.report

            def passed(done: int, total: int) -> None:
                if report:
                    report("text for heads", done, total)

            kept = sorted(wanted | set(self._text.states if self._text else ()))
            self._text = write_text(
                self.model, self.tokenizer, self.data, layers=kept, report=passed
            )
        return self._text

    def _recipe(self, kind: str, shape: dict[str, Any], training: HeadTraining) -> HeadRecipe:
        return HeadRecipe(
            model_sha256=self.model_sha256,
            dtype=str(self.model.dtype).removeprefix("torch."),
            kind=kind,
            shape=shape,
            training=training,
            data=self.data.title,
            data_sha256=self.data.sha256,
        )

    def _path(self, name: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{self.name}--{name}"

    def _steps(self, what: str) -> Callable[[int, int, float], None]:
        def report(done: int, total: int, loss: float) -> None:
            if self.report:
                self.report(f"{what}, loss {loss:.3f}", done, total)

        return report


def _parameters(recipe: HeadRecipe) -> dict[str, Any]:
    return {
        **recipe.shape,
        "training": asdict(recipe.training),
        "train_data": recipe.data,
        "train_data_sha256": recipe.data_sha256,
        "torch": torch.__version__,
    }
