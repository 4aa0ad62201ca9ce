"""Layer skip: the target less a span of its layers, with or without a fitted bridge in their
place.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from real_runs.decoding.tree_speculative import by_levels
from real_runs.drafters.drafter import (
    Drafter,
    LoopDrafter,
    RecordedDrafter,
    Validated,
    observed_ranks,
)
from real_runs.drafters.early_exit import DRAFT_DEPTH, RANK_WIDTH
from real_runs.drafters.expansion import ExpansionLimits, LlamaReader
from real_runs.drafters.layer_skip import (
    GapLlama,
    GapRecipe,
    LayerSkip,
    check_gap,
    default_gap,
    fit_gap,
    text_ranks,
)
from real_runs.drafters.observed import invariant_drafter
from real_runs.drafters.options import DrafterOptions
from real_runs.drafters.target import Target
from real_runs.models.bridge import Bridge
from real_runs.models.llama import Llama


def skipped_span(options: DrafterOptions, layers: int) -> tuple[int, int]:
    """The first layer that is left out, and the first one after them."""
    return options.skipped_layers or default_gap(layers)


def shorter_target(target: Target) -> tuple[GapLlama, Bridge | None, dict[str, Any]]:
    """The target less its skipped layers, what crosses them, and the parameters that say so."""
    start, stop = skipped_span(target.options, target.layers)
    parameters = {
        "skipped_layers": [start, stop],
        "layers": target.layers,
        "draft_layers": target.layers - (stop - start),
    }
    bridge = None
    if target.options.skip_bridge:
        bridge, fitted = target.bridge(
            f"skip{start}-{stop}-bridge.safetensors",
            GapRecipe(exit_layer=start, stop_layer=stop, **target.recipe),
            partial(fit_gap, target.model, start=start, stop=stop, ridge=target.options.ridge),
        )
        parameters |= fitted
    return GapLlama(target.model, start=start, stop=stop, bridge=bridge), bridge, parameters


def layer_skip_drafter(
    model: Llama, gap: tuple[int, int], bridge: Bridge | None, *, parameters: Mapping[str, Any]
) -> RecordedDrafter:
    """Ranks alone, of the target less the layers gap[0]..gap[1]-1."""
    drafter = GapLlama(model, start=gap[0], stop=gap[1], bridge=bridge)
    observe, fields = observed_ranks(
        lambda prompt, generation: text_ranks(drafter, prompt, generation.tokens)
    )
    return RecordedDrafter(
        title=_title(model, gap, bridge),
        parameters={**parameters, "draft_depth": DRAFT_DEPTH, "candidates": RANK_WIDTH},
        notes=(
            "Depth invariant: the drafter has a cache of its own, in which true tokens are re-read"
            " in draft mode at every depth. Ranks come from one pass over the text, where a step"
            " reads a token or a few at a time: a near tie may round the other way. Exact at any"
            f" depth, for chains and for static trees over the top {RANK_WIDTH} candidates."
        ),
        observe=observe,
        trace_fields=fields,
    )


def observed_layer_skip(
    model: Llama,
    gap: tuple[int, int],
    bridge: Bridge | None,
    *,
    parameters: Mapping[str, Any],
    limits: ExpansionLimits | None = None,
) -> RecordedDrafter:
    """Ranks, probabilities and trees."""
    drafter = GapLlama(model, start=gap[0], stop=gap[1], bridge=bridge)
    return invariant_drafter(
        LlamaReader(drafter), limits, title=_title(model, gap, bridge), parameters=parameters
    )


def _title(model: Llama, gap: tuple[int, int], bridge: Bridge | None) -> str:
    crossing = "ridge bridge" if bridge else "no bridge"
    return f"layers {gap[0]} to {gap[1] - 1} of {model.config.layers} skipped, {crossing}"


def _observe(target: Target) -> RecordedDrafter:
    _, bridge, parameters = shorter_target(target)
    gap, model = skipped_span(target.options, target.layers), target.model
    if not target.wants_probabilities:
        return layer_skip_drafter(model, gap, bridge, parameters=parameters)
    return observed_layer_skip(model, gap, bridge, parameters=parameters, limits=target.limits)


def _propose(target: Target) -> LoopDrafter:
    shorter = shorter_target(target)[0]
    return LoopDrafter(
        chain=lambda: LayerSkip(shorter),
        tree=lambda: by_levels(LayerSkip(shorter)),
        reader=lambda: LayerSkip(shorter),
    )


def check_span(options: DrafterOptions, layers: int) -> None:
    """Insist on a span that leaves layers on either side."""
    check_gap(*skipped_span(options, layers), layers)


DRAFTER = Drafter(
    method="layer-skip",
    records="probabilities",
    observe=_observe,
    propose=_propose,
    check=check_span,
    # it reads the prompt anew in every run
    validated=Validated(fitted_lengths=1, longest_prompt=512),
    serves_batches=False,
)
