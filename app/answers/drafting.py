"""Drafts that differ from step to step, as JSON and in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

from app.answers.answer import Column, Row
from costmodel.draft_shape import shape_of

if TYPE_CHECKING:
    from costmodel.laws.acceptance import Acceptance
    from costmodel.optimizers.search import TopologyBest

Json = dict[str, Any]
TOPOLOGY_WORDS = {
    "off": "no speculation",
    "chain": "chain",
    "tree": "static tree",
    "dynamic_tree": "dynamic tree",
    "state_trees": "trees with prompt tokens",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class MeanDrafts(Row):
    """Drafts that differ from step to step, on average."""

    mean_tokens: Annotated[float, Column("Draft tokens of a step.")]
    mean_passes: Annotated[float, Column("Draft passes of a step.")]
    lower_bound_steps_ratio: Annotated[
        float, Column("Share of steps in which the recording ended before the policy did.")
    ]


def mean_drafts(a: Acceptance) -> MeanDrafts | None:
    """The mean drafts of an acceptance; None where all steps draft the same."""
    if a.lengths is None:
        return None
    return MeanDrafts(
        mean_tokens=a.lengths.mean_tokens,
        mean_passes=a.lengths.mean_passes,
        lower_bound_steps_ratio=a.truncated_ratio,
    )


def drafting(a: Acceptance) -> Json:
    """What a step drafts where that is no fixed chain or tree: numbers of the policy and of the
    steps' drafts.
    """
    if (drafts := mean_drafts(a)) is None:
        return {}
    return {
        "topology": a.topology,
        "shape": asdict(a.shape) if a.shape is not None else None,
        "stop": asdict(a.stop) if a.stop is not None else None,
        "drafts": asdict(drafts),
    }


def topology_rows(winners: Sequence[TopologyBest], names: Sequence[str]) -> list[Json]:
    """The fastest of every topology at every batch and context, and which of them wins.

    Args:
        winners: of a search.
        names: of its drafters.
    """
    return [
        {
            "batch": best.batch,
            "context": best.context,
            "drafter": names[best.source],
            "method": best.method,
            "topology": best.acceptance.topology,
            "draft_tokens": best.acceptance.draft_tokens,
            "draft": str(shape_of(best.acceptance)),
            "tokens_per_step": best.acceptance.tokens_per_step,
            "tokens_per_s": best.tokens_per_s,
            "speedup": best.speedup,
            "wins": best.wins,
            **drafting(best.acceptance),
        }
        for best in winners
    ]


def who_wins(winners: Sequence[TopologyBest], names: Sequence[str]) -> list[str]:
    """One line per drafter and context: the fastest of every topology, batch by batch where the
    winner changes.

    Args:
        winners: of a search.
        names: of its drafters.
    """
    lines = []
    for drafter, context in dict.fromkeys((best.source, best.context) for best in winners):
        own = [best for best in winners if (best.source, best.context) == (drafter, context)]
        parts, last = [], ""
        for batch in dict.fromkeys(best.batch for best in own):
            here = [best for best in own if best.batch == batch]
            winner = TOPOLOGY_WORDS[here[0].acceptance.topology]
            if winner != last:
                others = ", ".join(
                    f"{shape_of(best.acceptance)!s} {best.speedup:.2f}" for best in here[1:]
                )
                first = f"{shape_of(here[0].acceptance)!s} {here[0].speedup:.2f}"
                parts.append(
                    f"{winner} from batch {batch} ({first}; {others})" if others else winner
                )
            last = winner
        lines.append(f"{names[drafter]} at context {context}: {'; '.join(parts)}")
    return lines
