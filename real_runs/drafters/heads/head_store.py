"""How is a trained head loaded, or trained when there is none?

A head is read from a folder if this very recipe made it, trained and kept otherwise. All kinds
share one text, which the model writes when the first of them has to be trained. Leaves out which
heads there are (`real_runs.drafters.entries`) and drafting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn

from real_runs.drafters.heads.feature_head_fit import default_capture, needed_layers
from real_runs.drafters.heads.head_data import HeadData, HeadText, write_text
from real_runs.drafters.heads.head_training import HeadRecipe, HeadTraining, load_head, save_head
from real_runs.models.llama import Llama
from real_runs.models.loading.tokenizer import Tokenizer
from real_runs.training import module_sha256

Report = Callable[[str, int, int], None]
"""What is being done, how much of it is done, how much there is."""

Head = TypeVar("Head", bound=nn.Module)
Training = TypeVar("Training", bound=HeadTraining)


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
        steps: of every training; None: what each kind is known to need.
        report: called with progress.
    """

    model: Llama
    tokenizer: Tokenizer
    model_sha256: str
    data: HeadData
    folder: Path
    name: str
    steps: int | None = None
    report: Report | None = None
    _text: HeadText | None = field(default=None, init=False)

    def trained(
        self,
        blank: Head,
        title: str,
        training: Training,
        fit: Callable[..., Head],
        *,
        size: Mapping[str, Any],
    ) -> tuple[Head, dict[str, Any]]:
        """A head as kept in the folder, or trained now and kept there; and the parameters that tell
        it from others.

        Args:
            blank: untrained; takes the values of the file.
            title: what progress and, in small letters, its recipe and file call it.
            training: how it is trained, where no steps are stated.
            fit: trains it; called with the model, the text, the training, the size and `report`.
            size: what its recipe says of it; `capture` are layers whose states it reads, beside
                the usual ones.
        """
        training, kind = self.training(training), title.lower().replace(" ", "-")
        recipe, path = self.recipe(kind, dict(size), training), self.path(f"{kind}.safetensors")
        if not load_head(blank, recipe, path):
            text = self.written(size.get("capture", ()))
            blank = fit(self.model, text, training, **size, report=self.progress(title))
            save_head(blank, recipe, path)
        return blank, recipe_parameters(recipe) | {"head_sha256": module_sha256(blank)}

    def training(self, usual: Training) -> Training:
        """The usual training, with the stated number of steps where there is one."""
        return usual if self.steps is None else replace(usual, steps=self.steps)

    def texts(self) -> tuple[list[list[int]], dict[str, Any]]:
        """Token ids of the text that heads are trained on, row by row, and the parameters that tell
        it from others.
        """
        recipe, path = self.recipe("text", {}, HeadTraining()), self.path("text.safetensors")
        rows = _Rows(self.data.rows + self.data.help_rows, self.data.row_tokens)
        if not load_head(rows, recipe, path):
            rows.tokens.copy_(self.written().tokens)
            save_head(rows, recipe, path)
        return rows.tokens.tolist(), {"store": recipe.data, "store_sha256": recipe.data_sha256}

    def written(self, capture: Sequence[int] = ()) -> HeadText:
        """The text, with the states of the usual layers and of `capture`.

        It is written at the first call, and again where a layer is missing.
        """
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

    def recipe(self, kind: str, shape: dict[str, Any], training: HeadTraining) -> HeadRecipe:
        """All that a head of some kind and shape depends on."""
        return HeadRecipe(
            model_sha256=self.model_sha256,
            dtype=str(self.model.dtype).removeprefix("torch."),
            kind=kind,
            shape=shape,
            training=training,
            data=self.data.title,
            data_sha256=self.data.sha256,
        )

    def path(self, name: str) -> Path:
        """File of a head in the store's folder, which is made where it is missing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{self.name}--{name}"

    def progress(self, what: str) -> Callable[[int, int, float], None]:
        """What a training reports its steps and losses to."""

        def report(done: int, total: int, loss: float) -> None:
            if self.report:
                self.report(f"{what}, loss {loss:.3f}", done, total)

        return report


def recipe_parameters(recipe: HeadRecipe) -> dict[str, Any]:
    """What a recording says of how a head was made."""
    return {
        **recipe.shape,
        "training": asdict(recipe.training),
        "train_data": recipe.data,
        "train_data_sha256": recipe.data_sha256,
        "torch": torch.__version__,
    }
