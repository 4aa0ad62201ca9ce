"""Which configuration is fastest at each batch and context, and which schedule of draft lengths
follows?

Evaluates every candidate of every method on the whole grid, drops what does not fit memory, misses
a latency limit or agrees less than a floor, and ranks the rest by tokens per second. Leaves out
traffic: batches are steady (see the simulator).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.answers.estimate import Estimate, Intervals, estimate, intervals
from costmodel.answers.fit import fits
from costmodel.answers.workload import Limits
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.against_off import (
    AgainstOff,
    against_off,
    off_schedule,
    under_schedule,
)
from costmodel.optimizers.allowed import Contender, Pick, drafting
from costmodel.optimizers.chain_gains import chains_of, gain_doubt
from costmodel.optimizers.pricing import Evaluation, evaluate
from costmodel.optimizers.schedule import Schedule, batch_schedule
from costmodel.optimizers.unmet import NothingAllowedError, UnmetPoint, unmet_at
from costmodel.passes.ops import Array

_EVERY = 256  # batches up to which a schedule looks at each one


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice(Pick):
    """The best configuration of one method at one batch and context, and what it is expected to do.

    Args:
        result: its estimate.
        intervals: of the estimate.
    """

    result: Estimate
    intervals: Intervals

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second of the batch."""
        return float(self.result.tokens_per_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodSchedule:
    """Batch ranges and draft lengths of one method's chains at one context.

    Args:
        configuration: with the ranges as its schedule.
        schedule: the ranges, and what they lose; of no drafter at all where that is as fast on
            average as the best ranges.
        against_off: these ranges against no drafter; None where they draft nothing, or plain
            decoding does not run at some batch.
        source: index of the drafter.
    """

    configuration: DecodingConfiguration
    schedule: Schedule
    against_off: AgainstOff | None = None
    source: int = 0

    @property
    def method(self) -> str:
        """Slug of the method."""
        return self.configuration.method

    @property
    def context(self) -> int:
        """Cached tokens per request."""
        return self.configuration.context or 0


@dataclass(frozen=True, kw_only=True, slots=True)
class TopologyBest:
    """The fastest configuration of one method and topology at one batch and context.

    Args:
        batch: requests.
        context: cached tokens per request.
        method: slug.
        source: index of the drafter.
        acceptance: the configuration.
        tokens_per_s: of the batch.
        speedup: against plain decoding there; NaN where that fits no limit.
        wins: nothing else of the method is faster there.
    """

    batch: int
    context: int
    method: str
    source: int
    acceptance: Acceptance
    tokens_per_s: float
    speedup: float
    wins: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """Who wins at one batch and context over all drafters, where plain decoding competes too.

    Args:
        winner: the fastest.
        runner_up: the fastest of another drafter, or plain decoding; None where nothing else was
            allowed.
    """

    winner: Choice
    runner_up: Choice | None

    @property
    def lost_ratio(self) -> float | None:
        """Share of the winner's tokens per second that the runner-up loses."""
        return (
            None
            if self.runner_up is None
            else 1.0 - self.runner_up.tokens_per_s / self.winner.tokens_per_s
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimum:
    """Answer of a search.

    Args:
        ranked: for every context and batch, each method's best choice, fastest first.
        schedules: one per method and context.
        dropped_batches: batches that were left out because plain decoding does not fit there.
        by_topology: for every context, batch and method the fastest of each topology, fastest
            first.
        cells: winner and runner-up at every context and batch, in the order of `ranked`.
        unmet: contexts and batches at which nothing is allowed; they are absent from the rest.
        evaluations: of every contender.
        batches: of the evaluations, those that were not left out.
        contexts: of the evaluations.
    """

    ranked: Sequence[Sequence[Choice]]
    schedules: Sequence[MethodSchedule]
    dropped_batches: Sequence[int]
    by_topology: Sequence[TopologyBest] = ()
    cells: Sequence[Cell] = ()
    unmet: Sequence[UnmetPoint] = ()
    evaluations: Sequence[Evaluation] = field(default=(), compare=False)
    batches: Sequence[int] = ()
    contexts: Sequence[int] = ()

    def place(self, batch: int, context: int) -> tuple[int, int]:
        """Row and column of a point in the evaluations."""
        return self.batches.index(batch), self.contexts.index(context)


def search(
    contenders: Sequence[Contender],
    *,
    batches: Sequence[int],
    contexts: Sequence[int],
    seed: int = 0,
    limits: Limits | None = None,
    floor: float | None = None,
    drop_unfit: bool = False,
) -> Optimum:
    """Rank every contender at every batch and context, and derive batch schedules.

    Example:
        >>> from costmodel.answers.settings import build_setting
        >>> from costmodel.configuration import DeploymentNames
        >>> from costmodel.laws.acceptance import geometric
        >>> names = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none")
        >>> eagle = DecodingConfiguration(method="eagle-3", deployment=names)
        >>> lengths = [geometric(0.7, draft_tokens) for draft_tokens in (0, 1, 3, 5)]
        >>> contender = Contender(configuration=eagle, setting=build_setting(eagle), candidates=lengths)
        >>> found = search([contender], batches=[1, 256], contexts=[1024], seed=0)
        >>> [(best.batch, best.configuration.draft_tokens) for best, *_ in found.ranked]
        [(1, 5), (256, 3)]

    Args:
        contenders: methods with their candidates; all on the same target and device.
        batches: batch sizes, increasing.
        contexts: cached tokens per request.
        seed: of the intervals' draws; every choice takes those that it would take alone, so that
            its intervals do not depend on what competes.
        limits: latency limits.
        floor: least agreement of what may be chosen, 0 to 1, of policies of masked blocks; None:
            anything may.
        drop_unfit: leave out batches that do not fit, but for the smallest.

    Raises:
        NothingAllowedError: no configuration fits, or none meets the limits, at any batch and
            context.
    """
    fitting = [b for b in batches if not drop_unfit or _plain_fits(contenders[0], b, max(contexts))]
    if not fitting:
        fitting = list(batches[:1])
    b, c = (
        np.array(fitting, dtype=np.float64)[:, None],
        np.array(contexts, dtype=np.float64)[None, :],
    )
    evaluations = [
        evaluate(contender, batch=b, context=c, limits=limits, floor=floor)
        for contender in contenders
    ]
    ranked, cells, unmet = [], [], []
    for column, context in enumerate(contexts):
        for row, batch in enumerate(fitting):
            rates = [evaluation.value[:, row, column] for evaluation in evaluations]
            choices = [
                choice_of(contender, int(at.argmax()), batch, context, seed)
                for contender, at in zip(contenders, rates, strict=True)
                if np.isfinite(at.max())
            ]
            if not choices:
                unmet.append(unmet_at(evaluations, (row, column), batch, context))
                continue
            ranked.append(sorted(choices, key=lambda choice: -choice.tokens_per_s))
            cells.append(_cell(contenders, rates, ranked[-1], seed))
    if not ranked:
        raise NothingAllowedError(unmet)
    dropped = [x for x in batches if x not in fitting]
    return Optimum(
        ranked=ranked,
        schedules=_schedules(evaluations, fitting, contexts),
        dropped_batches=dropped,
        by_topology=_topologies(evaluations, fitting, contexts),
        cells=cells,
        unmet=unmet,
        evaluations=evaluations,
        batches=list(fitting),
        contexts=list(contexts),
    )


def _schedules(
    evaluations: Sequence[Evaluation],
    batches: Sequence[int],
    contexts: Sequence[int],
) -> list[MethodSchedule]:
    """The schedule of chains of every contender at every context, where it has chains, up to its
    largest batch.
    """
    return [
        schedule
        for evaluation in evaluations
        for column, context in enumerate(contexts)
        if (schedule := _schedule(evaluation, column, batches, context)) is not None
    ]


def _topologies(
    evaluations: Sequence[Evaluation], batches: Sequence[int], contexts: Sequence[int]
) -> list[TopologyBest]:
    """The best chain, static tree and dynamic tree of every contender in every cell."""
    return [
        best
        for column, context in enumerate(contexts)
        for row, batch in enumerate(batches)
        for evaluation in evaluations
        for best in _by_topology(
            evaluation.contender,
            evaluation.value[:, row, column],
            float(evaluation.speeds[0, row, column]),
            batch,
            context,
        )
    ]


def _cell(
    contenders: Sequence[Contender],
    rates_here: Sequence[Array],
    ranked: Sequence[Choice],
    seed: int,
) -> Cell:
    """The winner, and the best of what is neither it nor another name for it: every drafter can
    decode plainly.
    """
    winner = ranked[0]
    others = [choice for choice in ranked[1:] if choice.topology != "off"]
    rivals: list[tuple[float, Contender, int]] = []
    for contender, rates in zip(contenders, rates_here, strict=True):
        drafted = [
            i for i, candidate in enumerate(contender.candidates) if candidate.draft_tokens > 0
        ]
        group = drafted if winner.topology == "off" else [0]
        best = max(group, key=lambda i: float(rates[i]), default=None)
        if best is not None and np.isfinite(rates[best]):
            rivals.append((float(rates[best]), contender, best))
    if rivals:
        rate, contender, index = max(rivals, key=lambda rival: rival[0])
        if not others or rate > others[0].tokens_per_s:
            return Cell(
                winner=winner,
                runner_up=choice_of(contender, index, winner.batch, winner.context, seed),
            )
    return Cell(winner=winner, runner_up=others[0] if others else None)


def _by_topology(
    contender: Contender, rates: Array, plain: float, batch: int, context: int
) -> list[TopologyBest]:
    """The fastest candidate of every topology, fastest first; `rates` are theirs, -inf where not
    allowed, `plain` that of no speculation.
    """
    fastest: dict[str, TopologyBest] = {}
    for index in np.argsort(-rates, kind="stable").tolist():
        candidate = contender.candidates[index]
        if not np.isfinite(rates[index]) or candidate.topology in fastest:
            continue
        fastest[candidate.topology] = TopologyBest(
            batch=batch,
            context=context,
            method=contender.method,
            source=contender.source,
            acceptance=candidate,
            tokens_per_s=float(rates[index]),
            wins=not fastest,
            speedup=float(rates[index]) / plain if np.isfinite(plain) else float("nan"),
        )
    return list(fastest.values())


def choice_of(contender: Contender, index: int, batch: int, context: int, seed: int) -> Choice:
    """One candidate at one batch and context, with its intervals.

    Args:
        contender: that it is of.
        index: of the candidate.
        batch: requests.
        context: cached tokens per request.
        seed: of the intervals' draws.
    """
    candidate = contender.candidates[index]
    point = estimate(contender.setting, candidate, batch=batch, context=context)
    spread = intervals(contender.setting, point, batch=batch, generator=np.random.default_rng(seed))
    chosen = replace(drafting(contender.configuration, candidate), batch=batch, context=context)
    return Choice(
        configuration=chosen,
        contender=contender,
        acceptance=candidate,
        result=point,
        intervals=spread,
    )


def _scheduled(contender: Contender, schedule: Schedule, context: int) -> DecodingConfiguration:
    most = max(draft_tokens for _, _, draft_tokens in schedule.ranges)
    return replace(
        contender.configuration, draft_tokens=most, schedule=tuple(schedule.ranges), context=context
    )


def _schedule(
    evaluation: Evaluation, column: int, batches: Sequence[int], context: int
) -> MethodSchedule | None:
    """Ranges of draft lengths from the chains alone; None where no chain was compared, or none
    runs.

    Engines meet every batch up to the largest that was asked about and runs, whichever others were,
    so each is looked at.
    """
    contender = evaluation.contender
    places = chains_of(contender)
    is_allowed = np.isfinite(evaluation.value[places, :, column]).any(axis=0)
    if len(places) < 2 or not is_allowed.any():
        return None
    chains = [contender.candidates[i] for i in places]
    grid = scheduled_batches(int(np.array(batches)[is_allowed].max()))
    loaded = under_schedule(contender, chains)
    rates = _rates(loaded, grid, context, evaluation.limits)
    runs = np.isfinite(rates).any(axis=1)
    if not runs.any():  # memory holds the drafter at no batch, as a schedule must at every one
        return None
    grid, rates = grid[runs], rates[runs]
    lengths = [chain.draft_tokens for chain in chains]
    schedule = batch_schedule(grid.tolist(), lengths, rates, doubt=gain_doubt(loaded, context))
    alone = replace(contender, candidates=chains[:1])
    plain = _rates(alone, grid, context, evaluation.limits)[:, 0]
    compared = against_off(schedule, grid, lengths, rates, plain)
    if compared is not None and compared.off_altogether:
        schedule = off_schedule(grid, rates, plain)
    return MethodSchedule(
        configuration=_scheduled(contender, schedule, context),
        schedule=schedule,
        against_off=compared,
        source=contender.source,
    )


def _rates(
    contender: Contender, grid: NDArray[np.int64], context: int, limits: Limits
) -> NDArray[np.float64]:
    """Tokens per second [batches, candidates]; NaN where a candidate is not allowed."""
    batch = grid.astype(np.float64)
    value = evaluate(contender, batch=batch, context=context, limits=limits).value.T
    return np.where(np.isfinite(value), value, np.nan)


def scheduled_batches(most: int) -> NDArray[np.int64]:
    """Batches that a schedule is made for: every one up to 256, above it steps of one in 128.

    Args:
        most: the last of them, >= 1.
    """
    steps = [np.arange(1, min(most, _EVERY) + 1)]
    while steps[-1][-1] < most:
        last = int(steps[-1][-1])
        steps.append(np.minimum(np.arange(last, 2 * last, last // 128) + last // 128, most))
    return np.unique(np.concatenate(steps))


def _plain_fits(contender: Contender, batch: int, context: int) -> bool:
    return bool(
        np.all(fits(contender.setting, contender.candidates[0], batch=batch, context=context))
    )
