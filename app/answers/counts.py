"""What did an engine count, and what will the verbs make of it?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from app.answers.answer import Column, Row
from costmodel.laws.acceptance.stated import counted_rates
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.summary import Window


@dataclass(frozen=True, kw_only=True, slots=True)
class Counts(Row):
    """Counters of a trace without positions."""

    tokens_per_step: Annotated[
        float | None, Column("Emitted per step with a proposal, the bonus token included.")
    ]
    acceptance_by_depth: Annotated[
        Sequence[float], Column("Share of steps that keep the first d draft tokens.")
    ]
    drafts: Annotated[int, Column("Steps with a proposal; 0: not counted.")]
    draft_tokens: Annotated[int, Column("Tokens proposed; 0: not counted.")]
    accepted_tokens: Annotated[int, Column("Draft tokens accepted.")]
    draft_levels: Annotated[int | None, Column("Draft tokens K in use.")]
    match_rate: Annotated[float | None, Column("Share of steps with a proposal.")]
    windows: Annotated[int, Column("Logging windows that were pooled.")]
    tokens_per_step_by_batch: Annotated[
        Sequence[tuple[int, float]], Column("Running requests, and tokens per step with so many.")
    ]
    geometric_acceptance: Annotated[
        float | None, Column("Rate of every draft token under a geometric law with that mean.")
    ]
    sibling_vectors: Annotated[
        Sequence[Sequence[float]], Column("Share of every candidate of a head, by depth.")
    ]


def counts_of(trace: AcceptanceTrace) -> Counts | None:
    """What was counted, and what the verbs will make of it; None where nothing was."""
    summary = trace.summary
    if summary is None:
        return None
    rates = counted_rates(summary) if trace.level == 0 and not summary.acceptance_by_depth else None
    return Counts(
        tokens_per_step=summary.tokens_per_step,
        acceptance_by_depth=list(summary.acceptance_by_depth),
        drafts=summary.drafts,
        draft_tokens=summary.draft_tokens,
        accepted_tokens=summary.accepted_tokens,
        draft_levels=summary.draft_levels,
        match_rate=trace.match_rate,
        windows=len(summary.windows),
        tokens_per_step_by_batch=_by_batch(summary.windows),
        geometric_acceptance=(rates.by_depth[0] if rates and not summary.sibling_vectors else None),
        sibling_vectors=[list(vector) for vector in summary.sibling_vectors],
    )


def _by_batch(windows: Sequence[Window]) -> list[tuple[int, float]]:
    """Running requests and tokens per step of the windows that tell both, those of one batch pooled
    by their steps.
    """
    groups: dict[int, list[tuple[float, int]]] = {}
    for window in windows:
        if window.batch_requests is not None and window.tokens_per_step is not None:
            groups.setdefault(window.batch_requests, []).append(
                (window.tokens_per_step, window.drafts or 1)
            )
    return [
        (batch, sum(mean * steps for mean, steps in group) / sum(steps for _, steps in group))
        for batch, group in sorted(groups.items())
    ]
