"""What do drafters with probabilities leave in a recording?

From a finished text to arrays over output positions: ranks, candidates, probabilities and draft
trees. Leaves out which drafters there are (`entries`) and how recordings are written
(`real_runs.recording.record`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from real_runs.drafters.drafter import RecordedDrafter
from real_runs.drafters.early_exit import DRAFT_DEPTH, RANK_WIDTH, chain_lengths
from real_runs.drafters.expansion import (
    ExpansionLimits,
    TextReader,
    best_candidates,
    expansions,
    path_ranks,
    true_ranks,
)

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
    """Arrays of a drafter that re-reads true tokens at every depth.

    Args:
        reader: of the drafter.
        prompt: its ids.
        tokens: the n generated ids.
        limits: of the trees that are kept per position; None: none are.

    Returns:
        `emitted` int16[n], `rank` int8[n], the likeliest candidates with their probabilities, and
        `expansions` where trees are kept.
    """
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
    """Arrays of a drafter whose candidates depend on where a step starts.

    Args:
        reader: of the drafter.
        prompt: its ids.
        tokens: the n generated ids.
        limits: of the trees that are kept per position; None: none are.
        depth: levels that are ranked.

    Returns:
        As `observe_invariant`, but `rank` is int8[n, depth].
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


def by_depth_drafter(
    reader: TextReader,
    limits: ExpansionLimits | None,
    depth: int,
    *,
    title: str,
    parameters: Mapping[str, Any],
    notes: str,
) -> RecordedDrafter:
    """A drafter whose candidates depend on where a step starts, down to so many levels; `notes` say
    on what.
    """
    return RecordedDrafter(
        title=title,
        parameters={"draft_depth": depth, "candidates": RANK_WIDTH, **parameters},
        notes=(
            f"Not depth invariant: {notes} Exact to {depth} levels, for chains and for static trees"
            f" over the top {RANK_WIDTH} candidates."
        ),
        observe=lambda prompt, generation: observe_by_depth(
            reader, prompt, generation.tokens, limits, depth=depth
        ),
        trace_fields={"rank_width": RANK_WIDTH, "depth_invariant": False},
    )


def invariant_drafter(
    reader: TextReader,
    limits: ExpansionLimits | None,
    *,
    title: str,
    parameters: Mapping[str, Any],
) -> RecordedDrafter:
    """A drafter that re-reads true tokens at every depth."""
    return RecordedDrafter(
        title=title,
        parameters={**parameters, "draft_depth": DRAFT_DEPTH, "candidates": RANK_WIDTH},
        notes=_INVARIANT,
        observe=lambda prompt, generation: observe_invariant(
            reader, prompt, generation.tokens, limits
        ),
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
