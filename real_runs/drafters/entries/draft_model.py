"""Draft model: a smaller model of the target's vocabulary, named or made out of the target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from real_runs.drafters.draft_model import DraftModelReader, load_draft_model
from real_runs.drafters.drafter import Drafter, LoopDrafter, RecordedDrafter
from real_runs.drafters.expansion import ExpansionLimits, LlamaReader
from real_runs.drafters.heads.draft_model_fit import (
    LAYERS,
    fit_draft_model,
    is_draft_model,
    save_draft_model,
)
from real_runs.drafters.heads.head_store import HeadStore, recipe_parameters
from real_runs.drafters.heads.head_training import HeadTraining
from real_runs.drafters.node_drafters import read_drafter
from real_runs.drafters.observed import invariant_drafter
from real_runs.drafters.target import Target
from real_runs.models.llama import Llama
from real_runs.models.loading.weights import file_sha256, find_model

TRAINING = HeadTraining(steps=120, learning_rate=1e-3)


def observed_draft_model(
    draft: Llama,
    *,
    title: str,
    parameters: Mapping[str, Any],
    limits: ExpansionLimits | None = None,
) -> RecordedDrafter:
    """A model of its own with the target's vocabulary."""
    return invariant_drafter(
        LlamaReader(draft),
        limits,
        title=title,
        parameters={
            **parameters,
            "draft_layers": draft.config.layers,
            "draft_width": draft.config.width,
        },
    )


def trained_draft_model(
    store: HeadStore, training: HeadTraining = TRAINING, *, layers: int = LAYERS
) -> tuple[Llama, dict[str, Any]]:
    """A draft model made out of the target and the parameters that tell it from others."""
    training = store.training(training)
    recipe = store.recipe("draft-model", {"layers": layers}, training)
    folder = store.path("draft-model")
    if not is_draft_model(folder, recipe):
        stack = fit_draft_model(
            store.model,
            store.written(),
            training,
            layers=layers,
            report=store.progress("draft model"),
        )
        save_draft_model(store.model, stack, recipe, folder)
    return load_draft_model(folder, store.model), recipe_parameters(recipe)


def _observe(target: Target) -> RecordedDrafter:
    path = target.options.draft_model
    if path is None:
        draft, parameters = trained_draft_model(target.heads)
        title = f"{draft.config.layers}-layer model trained on the target's own text"
    else:
        source = find_model(path)
        files = sorted(source.path.glob("*.safetensors")) if source.path.is_dir() else [source.path]
        parameters = {"title": source.title, "sha256": " ".join(map(file_sha256, files))}
        draft, title = load_draft_model(path, target.model), source.title
    return observed_draft_model(draft, title=title, parameters=parameters, limits=target.limits)


def _propose(target: Target) -> LoopDrafter:
    path = target.options.draft_model
    draft = load_draft_model(path, target.model) if path else trained_draft_model(target.heads)[0]
    return read_drafter(lambda: DraftModelReader(draft))


DRAFTER = Drafter(
    method="speculative-decoding",
    records="probabilities",
    observe=_observe,
    propose=_propose,
    serves_batches=False,
)
