"""What do an engine's counters say about acceptance, without positions?

Level 0 of a trace: pooled counts, unconditional acceptance by depth or a mean alone, sibling
vectors, and the logging windows they came from. Leaves out everything that needs to know where a
step started: no replay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hardware_profiles.errors import InputError

MOST_DRAFT_LEVELS = 32767
"""Longest draft that a trace can hold, as lengths by position can."""
_COUNTS = ("drafts", "draft_tokens", "accepted_tokens")


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """Counters of one logging window.

    Attributes:
        drafts: steps with a proposal (0 where the line does not tell).
        draft_tokens: tokens proposed (0 where the line does not tell).
        accepted_tokens: draft tokens accepted.
        batch_requests: requests running in the window; None where no engine line stood beside it.
        mean_tokens_per_step: the mean that was printed where no drafts were counted, bonus
            included; else None.

    Raises:
        InputError: a negative count, more accepted than drafted, or a mean below 1.
    """

    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    batch_requests: int | None = None
    mean_tokens_per_step: float | None = None

    def __post_init__(self) -> None:
        _check_counts(self, "window")
        if self.batch_requests is not None and self.batch_requests < 0:
            raise InputError("must be >= 0", key="window.batch_requests", value=self.batch_requests)

    @property
    def tokens_per_step(self) -> float | None:
        """Emitted tokens per step with a proposal (bonus included); None where neither drafts nor a
        mean are known.
        """
        return (
            1.0 + self.accepted_tokens / self.drafts if self.drafts else self.mean_tokens_per_step
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Level 0: acceptance without positions.

    Attributes:
        acceptance_by_depth: unconditional probability that the first d draft tokens are all
            accepted, d = 1..K; never increasing. Measured under the draft length in use: not
            invariant to K.
        sibling_vectors: per depth, the probability that the k-th candidate is the true token (a
            single one stands for all depths).
        drafts: steps with a proposal; 0 where they were not counted.
        draft_tokens: tokens proposed; 0 where they were not counted.
        accepted_tokens: draft tokens accepted.
        windows: the logging windows that were pooled, if any.
        mean_tokens_per_step: the mean that was stated where nothing was counted, bonus included;
            else None.
        longest_draft: draft levels of the steps where no acceptance by depth tells them; 0:
            unknown.

    Raises:
        InputError: counts that contradict each other, or probabilities that are none.
    """

    acceptance_by_depth: tuple[float, ...] = ()
    sibling_vectors: tuple[tuple[float, ...], ...] = ()
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    windows: tuple[Window, ...] = ()
    mean_tokens_per_step: float | None = None
    longest_draft: int = 0

    def __post_init__(self) -> None:
        _check_counts(self, "summary")
        if self.longest_draft < 0:
            raise InputError("must be >= 0", key="summary.longest_draft", value=self.longest_draft)
        if (self.draft_levels or 0) > MOST_DRAFT_LEVELS:
            rule = f"a draft has at most {MOST_DRAFT_LEVELS} tokens"
            raise InputError(rule, key="summary.draft_tokens", value=self.draft_levels)
        depths = np.asarray(self.acceptance_by_depth, dtype=float)
        if not np.all((depths >= 0) & (depths <= 1)) or np.any(np.diff(depths) > 0):
            raise InputError(
                "prefix probabilities must lie in [0, 1] and never increase with depth",
                key="summary.acceptance_by_depth",
                value=self.acceptance_by_depth,
            )
        for vector in self.sibling_vectors:
            values = np.asarray(vector, dtype=float)
            if not np.all((values >= 0) & (values <= 1)) or values.sum() > 1 + 1e-6:
                raise InputError(
                    "sibling probabilities must lie in [0, 1] and sum to at most 1",
                    key="summary.sibling_vectors",
                    value=vector,
                )

    @property
    def tokens_per_step(self) -> float | None:
        """Emitted tokens per step with a proposal, bonus included; None where it cannot be
        known.
        """
        if self.drafts:
            return 1.0 + self.accepted_tokens / self.drafts
        return (
            1.0 + sum(self.acceptance_by_depth)
            if self.acceptance_by_depth
            else self.mean_tokens_per_step
        )

    @property
    def draft_levels(self) -> int | None:
        """Draft levels K that the numbers were measured under; None where the source does not tell.

        The depths with a rate, else the longest draft that was stated, else the mean draft length
        rounded up.
        """
        if self.acceptance_by_depth or self.longest_draft:
            return len(self.acceptance_by_depth) or self.longest_draft
        return (
            math.ceil(self.draft_tokens / self.drafts)
            if self.drafts and self.draft_tokens
            else None
        )


def _check_counts(record: Window | Summary, name: str) -> None:
    for key in _COUNTS:
        if getattr(record, key) < 0:
            raise InputError("must be >= 0", key=f"{name}.{key}", value=getattr(record, key))
    mean = record.mean_tokens_per_step
    if mean is not None and not 1 <= mean < math.inf:
        raise InputError(
            "must be >= 1, the bonus token counted", key=f"{name}.mean_tokens_per_step", value=mean
        )
    if record.draft_tokens and record.accepted_tokens > record.draft_tokens:
        raise InputError(
            f"must not exceed the {record.draft_tokens} tokens drafted",
            key=f"{name}.accepted_tokens",
            value=record.accepted_tokens,
        )
