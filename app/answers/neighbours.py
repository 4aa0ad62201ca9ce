"""Why a choice and not its neighbours, as the `neighbours` and `carried` of a cell of `optimize
--json`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from costmodel.draft_shape import shape_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.optimizers.neighbours import Neighbour, Neighbourhood

Json = dict[str, Any]


def neighbourhood(around: Neighbourhood, names: Sequence[str]) -> Json:
    """What stands beside a winner, nearest first, and what the winner loses at the neighbouring
    batches.

    Args:
        around: one batch and context.
        names: of the drafters.
    """
    return {
        "neighbours": [_neighbour(each, names) for each in around.neighbours],
        "carried": [
            {"batch": each.batch, "lost_ratio": each.lost_ratio} for each in around.carried
        ],
        "longest_compared": not any(each.kind == "longer" for each in around.neighbours),
    }


def _neighbour(beside: Neighbour, names: Sequence[str]) -> Json:
    plain = beside.acceptance.draft_tokens == 0
    return {
        "kind": beside.kind,
        "drafter": None if plain else names[beside.source],
        "topology": beside.acceptance.topology,
        "draft": str(shape_of(beside.acceptance)),
        "draft_tokens": beside.acceptance.draft_tokens,
        "tokens_per_step": beside.acceptance.tokens_per_step,
        "tokens_per_s": None if beside.barred else beside.tokens_per_s,
        "lost_ratio": beside.lost_ratio,
        "lost_by": dict(beside.terms),
        "barred": beside.barred or None,
    }
