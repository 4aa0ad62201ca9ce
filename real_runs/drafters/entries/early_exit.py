"""Early exit: the target's first layers and a fitted bridge to its last one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from hardware_profiles.errors import InputError
from real_runs.decoding.batch_speculative import BatchEarlyExit
from real_runs.decoding.generate import Generation
from real_runs.decoding.tree_speculative import EarlyExitReader, by_levels
from real_runs.drafters.bridge_fit import FitRecipe, fit_bridge
from real_runs.drafters.drafter import (
    Drafter,
    LoopDrafter,
    RecordedDrafter,
    Validated,
    observed_ranks,
)
from real_runs.drafters.early_exit import DRAFT_DEPTH, RANK_WIDTH, EarlyExit, token_ranks
from real_runs.drafters.expansion import ExpansionLimits, LlamaReader
from real_runs.drafters.observed import invariant_drafter
from real_runs.drafters.options import DrafterOptions
from real_runs.drafters.target import Target
from real_runs.models.bridge import Bridge
from real_runs.models.llama import Llama


def exit_after(options: DrafterOptions, layers: int) -> int:
    """Layers before the exit: a third of them where none are stated."""
    return max(1, round(layers / 3)) if options.exit_layer is None else options.exit_layer


def early_exit_drafter(
    model: Llama, bridge: Bridge, *, parameters: Mapping[str, Any]
) -> RecordedDrafter:
    """Ranks alone, from states that were captured while the target wrote."""
    observe, fields = observed_ranks(
        lambda prompt, generation: token_ranks(
            model, bridge, _hidden(generation), generation.tokens
        )
    )
    return RecordedDrafter(
        title=_title(model, bridge),
        parameters={**parameters, "draft_depth": DRAFT_DEPTH, "candidates": RANK_WIDTH},
        notes=(
            "Depth invariant: the first layers are the target's, so true tokens are re-read at"
            f" every depth. Meant for drafts of up to {DRAFT_DEPTH} levels; exact at any depth, for"
            f" chains and for static trees over the top {RANK_WIDTH} candidates."
        ),
        observe=observe,
        trace_fields=fields,
        capture_layer=bridge.exit_layer,
    )


def observed_early_exit(
    model: Llama,
    bridge: Bridge,
    *,
    parameters: Mapping[str, Any],
    limits: ExpansionLimits | None = None,
) -> RecordedDrafter:
    """Ranks, probabilities and trees."""
    return invariant_drafter(
        LlamaReader(model, bridge), limits, title=_title(model, bridge), parameters=parameters
    )


def _hidden(generation: Generation) -> torch.Tensor:
    assert generation.hidden is not None
    return generation.hidden


def _title(model: Llama, bridge: Bridge) -> str:
    return f"early exit after {bridge.exit_layer} of {model.config.layers} layers, ridge bridge"


def _bridge(target: Target) -> tuple[Bridge, dict[str, Any]]:
    layer = exit_after(target.options, target.layers)
    return target.bridge(
        f"exit{layer}-bridge.safetensors",
        FitRecipe(exit_layer=layer, **target.recipe),
        partial(fit_bridge, target.model, exit_layer=layer, ridge=target.options.ridge),
    )


def _observe(target: Target) -> RecordedDrafter:
    bridge, fitted = _bridge(target)
    parameters = {"exit_layer": bridge.exit_layer, "layers": target.layers, **fitted}
    if not target.wants_probabilities:
        return early_exit_drafter(target.model, bridge, parameters=parameters)
    return observed_early_exit(target.model, bridge, parameters=parameters, limits=target.limits)


def _propose(target: Target) -> LoopDrafter:
    model, bridge = target.model, _bridge(target)[0]
    return LoopDrafter(
        chain=lambda: EarlyExit(model, bridge),
        tree=lambda: by_levels(EarlyExitReader(model, bridge)),
        reader=lambda: EarlyExitReader(model, bridge),
        batch=lambda prompts: BatchEarlyExit(model, bridge),
    )


def _check(options: DrafterOptions, layers: int) -> None:
    layer = exit_after(options, layers)
    if not 1 <= layer < layers:
        raise InputError(f"must lie in 1..{layers - 1}", key="exit_layer", value=layer)


DRAFTER = Drafter(
    method="early-exit",
    records="probabilities",
    observe=_observe,
    propose=_propose,
    check=_check,
    validated=Validated(static_trees=True),
)
