"""What does a schedule by batch lose where requests differ in length?

No engine takes draft lengths by context, so one schedule serves all of them. It stands beside the
schedules that every context would have for itself. Leaves out contexts that are mixed within one
batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.configuration import DecodingConfiguration
from costmodel.optimizers.against_off import under_schedule
from costmodel.optimizers.chain_gains import chains_of, gain_doubt
from costmodel.optimizers.pricing import Evaluation, evaluate
from costmodel.optimizers.schedule import Schedule, batch_schedule
from costmodel.optimizers.search import Optimum
from hardware_profiles.errors import InfeasibleError


@dataclass(frozen=True, kw_only=True, slots=True)
class ContextSchedule:
    """One schedule of a drafter for several contexts.

    Args:
        source: index of the drafter.
        configuration: with the ranges as its schedule, at no context.
        schedule: the ranges, and what they lose on average over contexts and batches.
        losses: by context, what it loses on average over the batches against the best draft length
            of each, and what the schedule of that context alone loses.
    """

    source: int
    configuration: DecodingConfiguration
    schedule: Schedule
    losses: Mapping[int, tuple[float, float]]


def context_schedules(optimum: Optimum) -> list[ContextSchedule]:
    """One schedule for all contexts, of every drafter with chains; none where one context was asked
    about.

    Args:
        optimum: of the search.
    """
    schedules: list[ContextSchedule] = []
    if len(optimum.contexts) < 2:
        return schedules
    for source in dict.fromkeys(e.contender.source for e in optimum.evaluations):
        # one evaluation, or one by context where acceptance is known by context
        evaluations = [e for e in optimum.evaluations if e.contender.source == source]
        contender = evaluations[0].contender
        own = {s.context: s.schedule for s in optimum.schedules if s.source == source}
        chains = chains_of(contender)
        if len(own) < 2 or not any(drafts for s in own.values() for *_, drafts in s.ranges):
            continue
        columns = [column for column, context in enumerate(optimum.contexts) if context in own]
        known = np.stack([_rates(evaluation, chains) for evaluation in evaluations])
        rates = np.fmax.reduce(known).transpose(2, 1, 0)[columns]
        runs = np.asarray(np.isfinite(rates).any(axis=(0, 2)))
        batches = [batch for batch, ok in zip(optimum.batches, runs.tolist(), strict=True) if ok]
        lengths = [contender.candidates[i].draft_tokens for i in chains]
        try:
            doubt = gain_doubt(contender, sorted(own)[len(own) // 2])
            shared = batch_schedule(batches, lengths, rates[:, runs], doubt=doubt)
        except InfeasibleError:
            continue
        losses = {
            context: (
                _loss(shared, batches, lengths, at),
                _loss(own[context], batches, lengths, at),
            )
            for context, at in zip(own, rates[:, runs], strict=True)
        }
        chosen = replace(
            contender.configuration,
            context=None,
            schedule=shared.ranges,
            draft_tokens=max(draft_tokens for *_, draft_tokens in shared.ranges),
        )
        schedules.append(
            ContextSchedule(source=source, configuration=chosen, schedule=shared, losses=losses)
        )
    return schedules


def _rates(evaluation: Evaluation, chains: Sequence[int]) -> NDArray[np.float64]:
    """Tokens per second of chains at every point, as a schedule runs them; NaN where they are not
    allowed.
    """
    value = evaluation.value[chains]
    off = [evaluation.contender.candidates[i] for i in chains[:1]]
    loaded = evaluate(
        under_schedule(evaluation.contender, off),
        batch=evaluation.batch,
        context=evaluation.context,
        limits=evaluation.limits,
        floor=evaluation.floor,
    )
    value[:1] = loaded.value
    return np.where(np.isfinite(value), value, np.nan)


def _loss(
    schedule: Schedule, batches: Sequence[int], lengths: Sequence[int], rates: NDArray[np.float64]
) -> float:
    """What a schedule loses on average over the batches at which anything runs."""
    lost = [
        1.0 - row[lengths.index(schedule.draft_tokens_at(batch))] / np.nanmax(row)
        for batch, row in zip(batches, rates, strict=True)
        if np.isfinite(row).any()
    ]
    return float(np.mean(lost))
