"""What do heads and other model-based drafters leave in a recording?

Per drafter: how it is named, what a reader of the trace must know, and a function from a finished
text to arrays over output positions, probabilities and draft trees included. Leaves out where heads
come from and how recordings are written (`record`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from real_runs.drafters.early_exit import DRAFT_DEPTH, RANK_WIDTH, chain_lengths
from real_runs.drafters.expansion import (
    ExpansionLimits,
    LlamaReader,
    TextReader,
    best_candidates,
    expansions,
    path_ranks,
    true_ranks,
)
from real_runs.drafters.layer_skip import GapLlama
from real_runs.drafters.recorded import RecordedDrafter
from real_runs.models.bridge import Bridge
from real_runs.models.llama import Llama

if TYPE_CHECKING:
    from real_runs.drafters.heads.feature_head import FeatureHead
    from real_runs.drafters.heads.hydra_heads import HydraHeads
    from real_runs.drafters.heads.medusa_heads import MedusaHeads
    from real_runs.drafters.heads.prompt_tokens import PromptTokens

CANDIDATES = 8

_INVARIANT = (
    "Depth invariant: the drafter re-reads true tokens at every depth. Ranks come from one pass"
    " over the text, where a step reads a token or a few at a time: a near tie may round the other"
    f" way. Exact at any depth, for chains and for static trees over the top {RANK_WIDTH}"
    " candidates."
)


def observe_invariant(
    reader: TextReader, prompt: Sequence[int], tokens: Sequence[int], limits: ExpansionLimits | None
) -> dict[str, Any]:
    """Arrays of a drafter that re-reads true tokens at every depth; `rank` is int8[n]."""
    logits, arrays = (
        _grown(reader, prompt, tokens, limits)
        if limits
        else (reader.read_text(prompt, tokens, 0), {})
    )
    rank = true_ranks(logits, tokens)
    return {"emitted": chain_lengths(rank), "rank": rank, **_candidates(logits), **arrays}


def observe_by_depth(
    reader: TextReader,
    prompt: Sequence[int],
    tokens: Sequence[int],
    limits: ExpansionLimits | None,
    *,
    depth: int,
) -> dict[str, Any]:
    """Arrays of a drafter whose candidates depend on where a step starts; `rank` is int8[n,
    depth].
    """
    rank, logits = path_ranks(reader, prompt, tokens, depth=depth)
    arrays = _grown(reader, prompt, tokens, limits)[1] if limits else {}
    return {"emitted": started_lengths(rank), "rank": rank, **_candidates(logits), **arrays}


def started_lengths(ranks: NDArray[np.int8]) -> NDArray[np.int16]:
    """What a step starting at every position emits with a chain as long as ranks go, int16[n].

    The leading zeros of its row plus one, cut at the end of the text.
    """
    n = len(ranks)
    run = np.cumprod(ranks == 0, axis=1).sum(axis=1)
    lengths: NDArray[np.int16] = np.minimum(run + 1, n - np.arange(n)).astype(np.int16)
    return lengths


def observed_early_exit(
    model: Llama,
    bridge: Bridge,
    *,
    parameters: Mapping[str, Any],
    limits: ExpansionLimits | None = None,
) -> RecordedDrafter:
    """Early exit through a fitted bridge."""
    return _invariant(
        LlamaReader(model, bridge),
        limits,
        name="early-exit",
        method="early-exit",
        title=f"early exit after {bridge.exit_layer} of {model.config.layers} layers, ridge bridge",
        parameters=parameters,
    )


def observed_layer_skip(
    model: Llama,
    gap: tuple[int, int],
    bridge: Bridge | None,
    *,
    parameters: Mapping[str, Any],
    limits: ExpansionLimits | None = None,
) -> RecordedDrafter:
    """The target less the layers gap[0]..gap[1]-1, with a fitted bridge or none in their place."""
    start, stop = gap
    crossing = "ridge bridge" if bridge else "no bridge"
    return _invariant(
        LlamaReader(GapLlama(model, start=start, stop=stop, bridge=bridge)),
        limits,
        name="layer-skip",
        method="layer-skip",
        title=f"layers {start} to {stop - 1} of {model.config.layers} skipped, {crossing}",
        parameters=parameters,
    )


def observed_draft_model(
    draft: Llama,
    *,
    title: str,
    parameters: Mapping[str, Any],
    limits: ExpansionLimits | None = None,
) -> RecordedDrafter:
    """A model of its own with the target's vocabulary."""
    return _invariant(
        LlamaReader(draft),
        limits,
        name="draft-model",
        method="speculative-decoding",
        title=title,
        parameters={
            **parameters,
            "draft_layers": draft.config.layers,
            "draft_width": draft.config.width,
        },
    )


def observed_feature_head(
    model: Llama,
    head: FeatureHead,
    *,
    parameters: Mapping[str, Any],
    limits: ExpansionLimits | None = None,
) -> RecordedDrafter:
    """One layer over the target's states."""
    from real_runs.drafters.heads.feature_head import FeatureHeadText

    return _by_depth(
        FeatureHeadText(model, head),
        limits,
        DRAFT_DEPTH,
        name="feature-head",
        method="eagle-3",
        title=f"one-layer head over the target's states after {_listed(head.capture)} layers",
        parameters={**parameters, "capture": list(head.capture)},
        notes=(
            "the first level reads the target's states, deeper ones the head's own. Ranks come from"
            " passes over the whole text, where a step reads a few tokens at a time: a near tie may"
            " round the other way."
        ),
    )


def observed_medusa_heads(
    model: Llama,
    heads: MedusaHeads,
    *,
    parameters: Mapping[str, Any],
    limits: ExpansionLimits | None = None,
) -> RecordedDrafter:
    """Independent heads for the tokens after the next one."""
    from real_runs.drafters.heads.medusa_heads import MedusaText

    return _by_depth(
        MedusaText(model, heads),
        limits,
        heads.heads,
        name="medusa-heads",
        method="medusa",
        title=f"{heads.heads} independent heads over the target's last state",
        parameters=parameters,
        notes=(
            "all candidates of a step follow from the state before its last known token, so a"
            " node's depend on its depth alone."
        ),
    )


def observed_hydra_heads(
    model: Llama,
    heads: HydraHeads,
    *,
    parameters: Mapping[str, Any],
    limits: ExpansionLimits | None = None,
) -> RecordedDrafter:
    """Heads that read the tokens drafted before theirs."""
    from real_runs.drafters.heads.hydra_heads import HydraText

    return _by_depth(
        HydraText(model, heads),
        limits,
        heads.heads,
        name="hydra",
        method="hydra",
        title=(
            f"{heads.heads} heads over the target's last state and the tokens drafted before theirs"
        ),
        parameters=parameters,
        notes=(
            "a node's candidates follow from the state before the step's last known token and from"
            " the node's whole path."
        ),
    )


def observed_prompt_tokens(
    model: Llama,
    prompts: PromptTokens,
    *,
    parameters: Mapping[str, Any],
    limits: ExpansionLimits | None = None,
) -> RecordedDrafter:
    """Trained prompt tokens that ride behind every node of the tree."""
    from real_runs.drafters.heads.prompt_tokens import PromptText

    return _by_depth(
        PromptText(model, prompts),
        limits,
        prompts.count,
        name="ppd",
        method="ppd",
        title=f"{prompts.count} trained prompt tokens",
        parameters=parameters,
        notes=(
            "all candidates of a step follow from the text before its last known token, so a"
            f" node's depend on its depth alone. All {prompts.count} prompt tokens ride behind"
            " every node; trees that save some of them draft less deeply after those nodes."
        ),
    )


def _by_depth(
    reader: TextReader,
    limits: ExpansionLimits | None,
    depth: int,
    *,
    name: str,
    method: str,
    title: str,
    parameters: Mapping[str, Any],
    notes: str,
) -> RecordedDrafter:
    """A drafter whose candidates depend on where a step starts, down to so many levels; `notes` say
    on what.
    """
    return RecordedDrafter(
        name=name,
        method=method,
        title=title,
        parameters={"draft_depth": depth, "candidates": RANK_WIDTH, **parameters},
        notes=(
            f"Not depth invariant: {notes} Exact to {depth} levels, for chains and for static trees"
            f" over the top {RANK_WIDTH} candidates."
        ),
        observe=lambda prompt, made: observe_by_depth(
            reader, prompt, made.tokens, limits, depth=depth
        ),
        trace_fields={"rank_width": RANK_WIDTH, "depth_invariant": False},
    )


def _invariant(
    reader: TextReader,
    limits: ExpansionLimits | None,
    *,
    name: str,
    method: str,
    title: str,
    parameters: Mapping[str, Any],
) -> RecordedDrafter:
    return RecordedDrafter(
        name=name,
        method=method,
        title=title,
        parameters={**parameters, "draft_depth": DRAFT_DEPTH, "candidates": RANK_WIDTH},
        notes=_INVARIANT,
        observe=lambda prompt, made: observe_invariant(reader, prompt, made.tokens, limits),
        trace_fields={"rank_width": RANK_WIDTH, "depth_invariant": True},
    )


def _grown(
    reader: TextReader, prompt: Sequence[int], tokens: Sequence[int], limits: ExpansionLimits
) -> tuple[torch.Tensor, dict[str, Any]]:
    """Logits before every output token, and the trees."""
    trees, logits = expansions(reader, prompt, tokens, limits)
    return logits, {"expansions": trees}


def _candidates(logits: torch.Tensor) -> dict[str, Any]:
    """The likeliest candidates of depth 0 and their probabilities."""
    ids, probabilities = best_candidates(logits, CANDIDATES)
    return {"draft_ids": ids, "draft_probs": probabilities.astype(np.float16)}


def _listed(layers: Sequence[int]) -> str:
    return ", ".join(map(str, layers[:-1])) + (" and " if len(layers) > 1 else "") + str(layers[-1])
