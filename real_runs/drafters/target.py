"""From what are the drafters of a model made?

A target with the options of its drafters. What has to be fitted or trained is made once, kept in a
folder, and used again only if the very same recipe made it. Leaves out the drafters (`entries`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from real_runs.drafters.bridge_fit import FitRecipe, bridge_sha256, load_bridge, save_bridge
from real_runs.drafters.expansion import ExpansionLimits
from real_runs.drafters.heads.fit_data import FitData
from real_runs.drafters.heads.head_data import HeadData
from real_runs.drafters.heads.head_store import HeadStore
from real_runs.drafters.options import DrafterOptions
from real_runs.models.bridge import Bridge
from real_runs.models.llama import Llama
from real_runs.models.loading.tokenizer import Tokenizer
from real_runs.models.loading.weights import ModelSource, load_weights
from real_runs.prompt_set import PromptSet, fit_questions

TREE_LEVELS = 8
TREE_WIDTH = 10
Report = Callable[[str, int, int, str], None]
"""Stage, how much is done of how much, and what was finished last."""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A model to decode with, and what its drafters are made from.

    Attributes:
        model: the target.
        tokenizer: its tokenizer.
        sha256: digest of its weights.
        options: of the drafters.
        prompts: what is decoded; nothing is fitted on them.
        folder: keeps what was fitted.
        name: first part of the names of its files there.
        report: called with progress.
    """

    model: Llama
    tokenizer: Tokenizer
    sha256: str
    options: DrafterOptions
    prompts: PromptSet
    folder: Path
    name: str = "target"
    report: Report = lambda stage, done, total, detail: None

    @property
    def layers(self) -> int:
        """Layers of the target."""
        return self.model.config.layers

    @property
    def limits(self) -> ExpansionLimits | None:
        """Of the trees that are kept per position; None: none are."""
        if not self.options.expansion_nodes:
            return None
        width = min(TREE_WIDTH, self.model.config.vocabulary)
        return ExpansionLimits(nodes=self.options.expansion_nodes, depth=TREE_LEVELS, width=width)

    @property
    def wants_probabilities(self) -> bool:
        """Whether probabilities or trees are kept."""
        return self.options.level >= 3 or self.limits is not None

    @cached_property
    def fit_texts(self) -> FitData:
        """What bridges are fitted on."""
        return FitData(
            questions=fit_questions(self.prompts),
            answers=self.options.fit_answers,
            help_characters=self.options.fit_characters,
            seed=self.options.seed,
        )

    @cached_property
    def fit_sequences(self) -> list[list[int]]:
        """The token ids of that text; the model writes its part of it at the first call."""

        def written(done: int, total: int) -> None:
            self.report("fit", done, total, "own answers")

        self.report("fit", 0, len(self.fit_texts.questions), "own answers")
        return self.fit_texts.sequences(self.model, self.tokenizer, written)

    @cached_property
    def heads(self) -> HeadStore:
        """Trains heads and draft models, or reads those that it trained before."""
        options = self.options
        return HeadStore(
            model=self.model,
            tokenizer=self.tokenizer,
            model_sha256=self.sha256,
            data=HeadData(
                questions=fit_questions(self.prompts),
                rows=options.head_rows,
                row_tokens=options.head_row_tokens,
                seed=options.seed,
            ),
            folder=self.folder,
            name=self.name,
            steps=options.head_steps,
            report=lambda what, done, total: self.report(
                what.split(",", maxsplit=1)[0], done, total, what
            ),
        )

    @property
    def recipe(self) -> dict[str, Any]:
        """The part of a bridge's recipe that is the same for all of them."""
        return {
            "model_sha256": self.sha256,
            "dtype": self.options.dtype,
            "ridge": self.options.ridge,
            "data": self.fit_texts.title,
            "data_sha256": self.fit_texts.sha256,
        }

    def bridge(
        self,
        file: str,
        recipe: FitRecipe,
        fit: Callable[[Sequence[Sequence[int]]], Bridge],
    ) -> tuple[Bridge, dict[str, Any]]:
        """A bridge as kept in the folder, or fitted now and kept there; and how it was made.

        Args:
            file: last part of its file's name.
            recipe: all that it depends on.
            fit: makes it of texts.
        """
        path = self.folder / f"{self.name}--{file}"
        bridge = load_bridge(path, recipe)
        if bridge is None:
            bridge = fit(self.fit_sequences)
            save_bridge(bridge, recipe, path)
        return bridge, {
            "ridge": recipe.ridge,
            "fit_data": recipe.data,
            "fit_data_sha256": recipe.data_sha256,
            "fit_tokens": bridge.fit_tokens,
            "bridge_sha256": bridge_sha256(bridge),
        }


def load_target(
    source: ModelSource,
    options: DrafterOptions,
    prompts: PromptSet,
    *,
    device: torch.device,
    folder: Path,
    report: Report = lambda stage, done, total, detail: None,
) -> Target:
    """A model as drafters are made from it, read from its files.

    Args:
        source: its files.
        options: of its drafters; they say its number format.
        prompts: what is decoded.
        device: holds the weights.
        folder: keeps what is fitted.
        report: called with progress.

    Raises:
        InputError: a foreign, truncated or incomplete file; a family that is not supported.
    """
    weights = load_weights(source)
    return Target(
        model=Llama(weights, device=device, dtype=getattr(torch, options.dtype)),
        tokenizer=Tokenizer(source.path),
        sha256=weights.sha256,
        options=options,
        prompts=prompts,
        folder=folder,
        name=source.name,
        report=report,
    )
