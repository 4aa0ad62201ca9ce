"""What does `optimize --metrics` say of an engine's counters, in rows?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from app.answers.answer import Column, Row
from app.answers.estimates import Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class CountedInUse(Row):
    """What runs now, as counted, and what is predicted for it where it runs."""

    draft_tokens: Annotated[int | None, Column("Longest draft.")]
    mean_draft_tokens: Annotated[float | None, Column("Mean draft.")]
    mixed: Annotated[bool, Column("Whether drafts of several lengths were counted together.")]
    compared_draft_tokens: Annotated[int, Column("The length that others are compared with.")]
    steps: Annotated[int | None, Column("Drafts counted.")]
    accepted_tokens: Annotated[int | None, Column("Draft tokens accepted.")]
    tokens_per_step: Annotated[float, Column("Tokens emitted per step.")]
    tokens_per_step_interval: Annotated[Interval, Column("Its interval.")]
    proposal_ratio: Annotated[float | None, Column("Share of steps with a proposal.")]
    batch: Annotated[float | None, Column("Mean requests of a step.")]
    batch_from: Annotated[str | None, Column("What tells them.")]
    prompt_tokens: Annotated[float | None, Column("Mean prompt.")]
    output_tokens: Annotated[float | None, Column("Mean output.")]
    tpot_s: Annotated[float | None, Column("Time per output token, stated by the engine.")]
    predicted_tpot_s: Annotated[float | None, Column("The same, predicted.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class CountedLength(Row):
    """What counters tell of a draft length."""

    draft_tokens: Annotated[int, Column("Draft tokens per request and step.")]
    how: Annotated[str, Column("How it is known: `counted`, `between` or `beyond`.")]
    tokens_per_step: Annotated[float, Column("Tokens emitted per step.")]
    tokens_per_step_interval: Annotated[Interval, Column("Its interval.")]
    least_tokens_per_step: Annotated[float, Column("The least that is possible.")]
    most_tokens_per_step: Annotated[float, Column("The most that is possible.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class CountedVerdict(Row):
    """Whether what runs should be changed at one batch and context."""

    batch: Annotated[int, Column("Requests that decode together.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    answer: Annotated[str, Column("`keep`, `change` or `unsure`.")]
    suffices: Annotated[bool, Column("Whether the counts suffice to say so.")]
    in_use_draft_tokens: Annotated[int, Column("Length that runs.")]
    in_use_tokens_per_s: Annotated[float | None, Column("Its tokens/s; none: it does not fit.")]
    best_draft_tokens: Annotated[int, Column("Best length of which counters tell.")]
    best_tokens_per_s: Annotated[float, Column("Its tokens/s.")]
    gain_ratio: Annotated[float | None, Column("What it gains.")]
    gain_ratio_interval: Annotated[Interval | None, Column("Its interval.")]
    gain_ratio_interval_of_counts: Annotated[Interval | None, Column("Of counts alone.")]
    faster_probability: Annotated[float, Column("That it is faster.")]
    counts_loss_ratio: Annotated[float, Column("What so few counts may hide.")]
    unknown_draft_tokens: Annotated[int | None, Column("Length that could gain most.")]
    unknown_gain_ratio: Annotated[float, Column("The most that it could gain.")]
    law_best_draft_tokens: Annotated[int, Column("Best length if acceptance goes on.")]
    law_gain_ratio: Annotated[float, Column("What that gains.")]
    runs_now: Annotated[bool, Column("Whether the engine runs at this batch.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class NextRunRow(Row):
    """What to measure next."""

    draft_tokens: Annotated[int, Column("Length to run.")]
    steps: Annotated[int, Column("Drafts to count; 0: only the time of steps is missing.")]
    batch: Annotated[int, Column("Requests that decode together.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    reason: Annotated[str, Column("Why it is not known.")]
    could_gain_ratio: Annotated[float, Column("The most that it could gain.")]
    law_gain_ratio: Annotated[float | None, Column("What it gains if acceptance goes on.")]
    interval_ratio: Annotated[float, Column("How closely it is known then.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class FlagsRow(Row):
    """What changes in the engine's options with its draft length."""

    draft_tokens: Annotated[int, Column("Draft length that the new options run.")]
    purpose: Annotated[
        str, Column("`change`: the best length that is known; `measure`: the one to measure next.")
    ]
    old: Annotated[
        str | None, Column("Options that run now; none where lengths were mixed or not told.")
    ]
    new: Annotated[str, Column("Options in their place; empty: they are left out.")]
    stated_by: Annotated[
        str, Column("`log`: the engine stated them; `export`: they are written for the method.")
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedLength(Row):
    """What runs, or what should, where the engine runs."""

    which: Annotated[str, Column("`runs now`, or `should run`.", "")]
    batch: Annotated[int, Column("Requests that decode together.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    draft_tokens: Annotated[int, Column("Draft length; 0: off.", "K")]
    tokens_per_step: Annotated[float, Column("Tokens emitted per step.", "tokens/step", decimals=2)]
    tokens_per_step_interval: Annotated[Interval, Column("Its interval.")]
    tokens_per_s: Annotated[
        float | None, Column("Tokens/s of the whole batch; none: it does not fit.", "tokens/s")
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class AdapterRow(Row):
    """What counts say of one adapter's draft length at one batch and context."""

    adapter: Annotated[str, Column("Adapter, or the model without one.")]
    steps: Annotated[int, Column("Drafts that were counted.", "drafts")]
    in_use_draft_tokens: Annotated[int, Column("Length that runs.", "runs K")]
    tokens_per_step: Annotated[float, Column("Tokens emitted per step.", decimals=2)]
    tokens_per_step_interval: Annotated[Interval, Column("Its interval.")]
    batch: Annotated[int, Column("Requests that decode together.")]
    context: Annotated[int, Column("Cached tokens per request.")]
    best_draft_tokens: Annotated[int, Column("Best length of which counts tell.", "best K")]
    gain_ratio: Annotated[float | None, Column("What it gains on what runs.")]
    gain_ratio_interval: Annotated[Interval | None, Column("Its interval.")]
    answer: Annotated[str, Column("`keep`, `change` or `unsure`.")]
    suffices: Annotated[bool, Column("Whether the counts suffice to say so.")]

    @property
    def gain(
        self,
    ) -> Annotated[float | None, Column("Of tokens/s.", "gain %", decimals=1, of=("gain_ratio",))]:
        """What the best length gains on what runs, in percent."""
        return None if self.gain_ratio is None else 100.0 * self.gain_ratio


@dataclass(frozen=True, kw_only=True, slots=True)
class Counters(Row):
    """What an engine's counters say of its draft length."""

    engine: Annotated[str, Column("Engine that was scraped.")]
    scrapes: Annotated[Sequence[str], Column("Files.")]
    reported_by: Annotated[str, Column("What tells it: `counters`, `log` or `responses`.")]
    model: Annotated[str, Column("Model that was served.")]
    method: Annotated[str, Column("What drafts.")]
    in_use: Annotated[CountedInUse, Column("What runs now.")]
    lengths: Annotated[Sequence[CountedLength], Column("What is known of each length.")]
    verdicts: Annotated[Sequence[CountedVerdict], Column("What to do, by batch and context.")]
    suffices: Annotated[bool, Column("Whether the counts suffice everywhere.")]
    suffices_now: Annotated[bool, Column("Whether they do where the engine runs.")]
    tolerance_ratio: Annotated[float, Column("Gain below which nothing is changed.")]
    headline: Annotated[str, Column("Keep, change or cannot tell, in a sentence.")]
    compared: Annotated[
        Sequence[ComparedLength], Column("What runs, and what should where that differs.")
    ]
    next: Annotated[Sequence[NextRunRow], Column("What to measure next.")]
    flags: Annotated[Sequence[FlagsRow], Column("Options of the engine to change.")]
    notes: Annotated[str, Column("Notes on the counts.")]
    adapters: Annotated[
        Sequence["AdapterRow"], Column("What is best for every adapter, where several are told of.")
    ] = ()
    remarks: Annotated[
        Sequence[str], Column("What was taken from the engine, assumed, or cannot be.")
    ] = ()
