"""How do counts and printed rates become a trace of level 0?

The one place where importers build a summary: rates by position are checked and smoothed by what
printing rounds, and logging windows beyond a few thousand are pooled by batch size. Leaves out
where the numbers come from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.naming import naming
from traces.kinds.provenance import Provenance
from traces.kinds.summary import Summary, Window

MOST_POSITIONS = 1024
MOST_WINDOWS = 4096
MEAN_ALONE = "No rates by position: only the mean is known."


def counted(
    file: str,
    *,
    source: str,
    drafts: int = 0,
    draft_tokens: int = 0,
    accepted_tokens: int = 0,
    rates: Sequence[float] = (),
    slack: float = 0.01,
    mean_tokens_per_step: float | None = None,
    longest_draft: int = 0,
    windows: Sequence[Window] = (),
    match_rate: float | None = None,
    model: str = "",
    drafter: str = "",
    method: str = "",
    notes: Sequence[str] = (),
    extra: Mapping[str, Any] | None = None,
) -> AcceptanceTrace:
    """A trace of level 0.

    Args:
        file: name for messages.
        source: program that wrote the numbers.
        drafts: steps with a proposal; 0: not counted.
        draft_tokens: tokens proposed; 0: not counted.
        accepted_tokens: draft tokens accepted.
        rates: probability that the first d draft tokens are all accepted, d = 1..K.
        slack: by how much rates may exceed 1 or rise from one position to the next before they are
            refused: counters are read one after the other while an engine runs, and printed rates
            are rounded.
        mean_tokens_per_step: a mean that was stated where nothing was counted.
        longest_draft: draft levels in use, where no rates tell.
        windows: logging windows.
        match_rate: share of steps with a proposal, where it was counted.
        model: target model.
        drafter: what drafted.
        method: slug of the method.
        notes: what a reader must know, one sentence or more each.
        extra: further provenance.

    Raises:
        InputError: numbers that contradict each other, or nothing known at all.
    """
    remarks = [
        "Level 0: no positions, so no replay; holds for the draft lengths in use only.",
        *notes,
    ]
    with naming(file):
        summary = Summary(
            acceptance_by_depth=falling(rates, slack),
            drafts=drafts,
            draft_tokens=draft_tokens,
            accepted_tokens=accepted_tokens,
            windows=by_batch(windows),
            mean_tokens_per_step=mean_tokens_per_step,
            longest_draft=longest_draft,
        )
    if not summary.acceptance_by_depth:
        remarks.append(MEAN_ALONE if summary.tokens_per_step is not None else _UNKNOWN_STEPS)
    return AcceptanceTrace(
        summary=summary,
        match_rate=match_rate,
        provenance=Provenance(
            model=model,
            drafter=drafter,
            method=method,
            recorder_version=source,
            notes=" ".join(remarks),
            extra=extra or {},
        ),
        file=file,
    )


_UNKNOWN_STEPS = (
    "Steps were not counted: tokens per step follow from the share of draft tokens accepted once"
    " the draft length is named with --draft-tokens."
)


def falling(rates: Sequence[float], slack: float) -> tuple[float, ...]:
    """Rates by position that never rise.

    Args:
        rates: probability that the first d draft tokens are all accepted, d = 1..K.
        slack: by which they may rise or exceed 1.

    Raises:
        InputError: they rise, or leave [0, 1], by more than the slack, or are too many.
    """
    values = np.asarray(rates, dtype=np.float64)
    if values.size > MOST_POSITIONS:
        raise InputError(
            f"must have at most {MOST_POSITIONS} positions",
            key="acceptance by position",
            value=values.size,
        )
    within = (
        np.all((values >= 0) & (values <= 1 + slack)) and np.diff(values).max(initial=0.0) <= slack
    )
    if not within:
        rule = "acceptance must lie in [0, 1] and not rise from one position to the next"
        raise InputError(rule, key="acceptance by position", value=values[:16].tolist())
    return tuple(np.minimum.accumulate(np.minimum(values, 1.0)).tolist())


def by_batch(windows: Sequence[Window]) -> tuple[Window, ...]:
    """Windows as they are, or pooled by batch size where there are too many to keep."""
    if len(windows) <= MOST_WINDOWS:
        return tuple(windows)
    groups: dict[int | None, list[Window]] = {}
    for window in windows:
        groups.setdefault(window.batch_requests, []).append(window)
    return tuple(
        _pooled(batch, group)
        for batch, group in sorted(groups.items(), key=lambda item: item[0] or 0)
    )


def _pooled(batch: int | None, group: Sequence[Window]) -> Window:
    means = [
        window.mean_tokens_per_step for window in group if window.mean_tokens_per_step is not None
    ]
    return Window(
        drafts=sum(window.drafts for window in group),
        draft_tokens=sum(window.draft_tokens for window in group),
        accepted_tokens=sum(window.accepted_tokens for window in group),
        batch_requests=batch,
        mean_tokens_per_step=float(np.mean(means)) if means else None,
    )


def with_draft_length(trace: AcceptanceTrace, draft_tokens: int) -> AcceptanceTrace:
    """The same trace of level 0 where the user names the draft length that the source does not
    state.

    Args:
        trace: level 0.
        draft_tokens: K in use when it was measured.

    Raises:
        InputError: the source states another one, or the counts do not fit.
    """
    summary = trace.summary
    if trace.level or summary is None:
        raise InputError(
            "only counts without positions need a draft length", file=trace.file, key="draft_tokens"
        )
    levels = summary.draft_levels
    if levels is not None:
        raise InputError(
            f"the source says {levels}", file=trace.file, key="draft_tokens", value=draft_tokens
        )
    # rounded up: the last draft of a request may be shorter
    drafts = summary.drafts or -(-summary.draft_tokens // draft_tokens)
    note = f"The draft length of {draft_tokens} was named by hand."
    if not summary.drafts and summary.draft_tokens:
        note += " Every draft is taken to have had it."
    notes = trace.provenance.notes.replace(_UNKNOWN_STEPS, MEAN_ALONE)
    with naming(trace.file):
        if drafts and summary.accepted_tokens > drafts * draft_tokens:
            mean = 1 + summary.accepted_tokens / drafts
            raise InputError(
                f"{mean:.2f} tokens per step need longer drafts",
                key="draft_tokens",
                value=draft_tokens,
            )
        if (summary.mean_tokens_per_step or 1.0) > draft_tokens + 1:
            mean = summary.mean_tokens_per_step or 1.0
            raise InputError(
                f"{mean:.2f} tokens per step need longer drafts",
                key="draft_tokens",
                value=draft_tokens,
            )
        return replace(
            trace,
            summary=replace(summary, drafts=drafts, longest_draft=draft_tokens),
            provenance=replace(trace.provenance, notes=f"{notes} {note}"),
        )
