"""Why a choice and not its neighbours, as the `neighbours` and `carried` of a cell of `optimize --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from app.answers.drafting import draft_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costmodel.optimizers.neighbours import Neighbour, Neighbourhood

Json = dict[str, Any]


def neighbourhood(around: Neighbourhood, names: Sequence[str]) -> Json:
    """What stands beside a winner, nearest first, and what the winner loses at the neighbouring batches.

    Args:
        around: one batch and context.
        names: of the drafters.
    """
    return {
        "neighbours": [_neighbour(each, names) for each in around.neighbours],
        "carried": [{"batch": each.batch, "lost_ratio": each.lost_ratio} for each in around.carried],
        "longest_compared": not any(each.kind == "longer" for each in around.neighbours),
    }


def _neighbour(each: Neighbour, names: Sequence[str]) -> Json:
    plain = each.acceptance.draft_tokens == 0
    return {
        "kind": each.kind, "drafter": None if plain else names[each.source], "topology": each.acceptance.topology,
        "draft": draft_words(each.acceptance), "draft_tokens": each.acceptance.draft_tokens,
        "tokens_per_step": each.acceptance.tokens_per_step,
        "tokens_per_s": None if each.barred else each.tokens_per_s, "lost_ratio": each.lost_ratio,
        "lost_by": dict(each.terms), "barred": each.barred or None,
    }  # fmt: skip
