"""Which design should be run, which come next, and how sure is that?

A joint search, its best designs and a part of its front simulated, and their objectives drawn
together; where it is asked, the same designs with prompts on workers of their own beside them
(`app.answers.optimize.pools`). Where a design misses a limit in simulation, what it took there
corrects the law, and the next design that should meet the limits is simulated. Where none does, the
nearest is first. Leaves out what is said of them (`app.answers.optimize.load`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.answers.optimize.pools import Pooled, pooled
from app.answers.optimize.simulated import DesignRun, Simulations
from app.answers.sizing.traffic import Traffic
from costmodel.answers.ties import NOTICED, SAME, preferred
from costmodel.answers.workload import Limits, RequestTimes
from costmodel.optimizers.joint.comparison import DesignComparison, compare_designs
from costmodel.optimizers.joint.evaluation import LoadEvaluation, under_load
from costmodel.optimizers.joint.search import (
    Design,
    JointOptimum,
    design_at,
    joint_search,
)
from costmodel.optimizers.joint.space import JointQuestion
from costmodel.optimizers.unmet import NothingAllowedError
from hardware_profiles.errors import InfeasibleError, InputError

SEEDS = 3
LOWER_CAPS = 3  # further batch caps that are simulated of a design whose goodput may gain
TRIES = (
    8  # further designs of a drafter and placement that are simulated where one misses its limits
)
# times the value of a design that meets the limits, from which on another one is simulated
MORE = 1.01
FRONT_RUNS = 8
Report = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Finalist:
    """A design with its simulations.

    Args:
        design: as it is simulated.
        run: None: it was not simulated.
        reason: why not; empty where it was.
        pooled: workers of two pools, which the design then counts; None: its replicas do both.
    """

    design: Design
    run: DesignRun | None
    reason: str = ""
    pooled: Pooled | None = None

    @property
    def value(self) -> float:
        """The objective: predicted, times what simulations say of the prediction."""
        return self.design.value * (1.0 if self.run is None else float(np.mean(self.run.ratios)))

    @property
    def seen(self) -> tuple[float, float]:
        """Mean time per output token and mean time to first token: simulated, else predicted."""
        times = self.design if self.run is None else self.run
        return times.tpot_s, times.ttft_s

    def reaches(self, other: Finalist) -> bool:
        """Whether it reaches as much as another design: in one of the simulations of the same seed
        and on average within 1 %, or as predicted where one of both was not simulated.
        """
        if NOTICED * self.value < other.value:
            return False
        if self.run is None or other.run is None:
            return self.value >= SAME * other.value
        pairs = zip(self.run.ratios, other.run.ratios, strict=False)
        return any(
            own * self.design.value >= SAME * others * other.design.value for own, others in pairs
        )

    def is_as_fast_as(self, other: Finalist) -> bool:
        """Whether nobody tells its time per output token from that of another design: both are within
        1 %, or simulations of the same seeds say now the one, now the other is shorter.
        """
        (own_s, _), (others_s, _) = self.seen, other.seen
        if max(own_s, others_s) <= NOTICED * min(own_s, others_s):
            return True
        if self.run is None or other.run is None:
            return False
        pairs = zip(self.run.tpots_s, other.run.tpots_s, strict=False)
        return len({own > others for own, others in pairs}) > 1

    @property
    def law(self) -> Design:
        """The design whose errors are drawn."""
        return self.design if self.pooled is None else self.pooled.one_pool

    @property
    def ratios(self) -> Sequence[float] | None:
        """Simulated over predicted objective of that, by seed; None where nothing was simulated."""
        if self.run is None or self.pooled is None:
            return None if self.run is None else self.run.ratios
        return [ratio * self.design.value / self.law.value for ratio in self.run.ratios]

    def meets(self, slo: Limits) -> bool:
        """Whether it carries what is asked within the limits, in simulation where there is one."""
        design = self.design
        predicted = slo.met(design.times)
        return design.carries and (bool(predicted) if self.run is None else self.run.meets)

    def excess(self, slo: Limits) -> float:
        """By how much the limits would have to be multiplied to be met."""
        times = self.design.times
        if self.run is not None:
            ratios = self.run.excess_ratios
            times = RequestTimes(
                ttft_s=times.ttft_s * ratios.ttft_s,
                tpot_s=times.tpot_s * ratios.tpot_s,
                e2e_s=times.e2e_s * ratios.e2e_s,
            )
        return float(slo.excess(times))


@dataclass(frozen=True, kw_only=True)
class ConfirmedSearch:
    """What was found.

    Args:
        question: what was asked.
        optimum: of the search.
        finalists: best first; the first one is the winner.
        tied: how many of them, from the first on, meet what is asked and reach as much as the best
            of them; the time per output token, then that to the first token order these.
        front: designs on the front, some of them simulated.
        comparison: of the finalists.
        simulations: that were run.
        refused: designs without pools of their own, and why they have none.

    Whether the winner meets what is asked is for `Finalist.meets` to say: where nothing does, it is
    the nearest.
    """

    question: JointQuestion
    optimum: JointOptimum
    finalists: Sequence[Finalist]
    tied: int
    front: Sequence[Finalist]
    comparison: DesignComparison
    simulations: int
    refused: Sequence[tuple[Design, str]] = ()


def confirmed_search(
    question: JointQuestion,
    traffic: Traffic,
    *,
    simulate: bool = True,
    disaggregate: bool = False,
    seeds: int = SEEDS,
    report: Report = lambda name, done, total: None,
) -> ConfirmedSearch:
    """Search, simulate and compare.

    Args:
        question: what is asked.
        traffic: that designs are simulated with.
        simulate: False: predictions alone.
        disaggregate: prompts on workers of their own compete, too.
        seeds: simulations of a finalist.
        report: called with what is done, and how much of how much.

    Raises:
        NothingAllowedError: nothing fits, or nothing carries the load.
        InputError: an unknown name.
    """
    searched, optimum = _nearest_search(question, report)
    simulations = Simulations(question, traffic)
    finalists: list[Finalist] = []
    for place, design in enumerate(optimum.ranked):
        report("simulating", place, len(optimum.ranked) + FRONT_RUNS)
        finalist = _confirmed(simulations, design, seeds) if simulate else _unsimulated(design)
        # two shapes of a node may end in one design, once simulations correct their limits
        if not any(finalist.design.is_same(other.design) for other in finalists):
            finalists.append(finalist)
    front = [_unsimulated(design) for design in optimum.front]
    if simulate and question.rate_stated is False:
        places = sorted(
            {round(at) for at in np.linspace(0, len(front) - 1, min(FRONT_RUNS, len(front)))}
        )
        for done, at in enumerate(places):
            report("simulating", len(finalists) + done, len(finalists) + len(places))
            front[at] = _run(simulations, front[at].design, 1)
    refused: list[tuple[Design, str]] = []
    for design in [finalist.design for finalist in finalists] if disaggregate else []:
        report("sizing pools", len(refused), len(finalists))
        try:
            both = pooled(question, traffic, design)
        except (InputError, InfeasibleError) as error:
            refused.append((design, str(error)))
        else:
            finalists.append(Finalist(design=both.design, run=both.run, pooled=both))
    finalists, tied = _best_first(question.slo, finalists)
    comparison = compare_designs(
        searched,
        [finalist.law for finalist in finalists],
        seed=question.seed,
        simulated=[finalist.ratios for finalist in finalists],
        tpot_ratios=[finalist.seen[0] / finalist.law.tpot_s for finalist in finalists],
    )
    return ConfirmedSearch(
        question=question,
        optimum=optimum,
        finalists=finalists,
        tied=tied,
        front=front,
        comparison=comparison,
        simulations=simulations.count
        + sum(f.pooled.plan.simulations for f in finalists if f.pooled is not None),
        refused=refused,
    )


def _nearest_search(question: JointQuestion, report: Report) -> tuple[JointQuestion, JointOptimum]:
    """The search, and its question: with the least limits that anything meets, where nothing meets
    its own.
    """
    try:
        return question, joint_search(question, progress=report)
    except NothingAllowedError as error:
        if not np.isfinite(error.excess_ratio):
            raise
        ratio = error.excess_ratio * (1.0 + 1e-9)
    scaled = question.slo.scaled(RequestTimes(ttft_s=ratio, tpot_s=ratio, e2e_s=ratio))
    within = replace(question, slo=scaled)
    return within, joint_search(within, progress=report)


def _rank(slo: Limits, finalist: Finalist) -> tuple[bool, bool, float]:
    """What meets the limits comes first, of that what was simulated; else what is nearest to
    them.
    """
    meets = finalist.meets(slo)
    return (
        not meets,
        slo.limited and finalist.run is None,
        -finalist.value if meets else finalist.excess(slo),
    )


def _best_first(slo: Limits, finalists: Sequence[Finalist]) -> tuple[list[Finalist], int]:
    """Finalists in the order in which they would be run, and how many of them tie with the first.

    What no simulation tells apart is ordered by what users see, then by what costs less.
    """
    ranked = sorted(finalists, key=lambda finalist: _rank(slo, finalist))
    if not ranked[0].meets(slo):
        return ranked, 1
    top = _rank(slo, ranked[0])[:2]
    left = [f for f in ranked if _rank(slo, f)[:2] == top and f.reaches(ranked[0])]
    others = [f for f in ranked if not any(f is tied for tied in left)]
    ordered: list[Finalist] = []
    while left:
        tpot_s, ttft_s = (np.array(times) for times in zip(*(f.seen for f in left), strict=True))
        devices = np.array([float(f.design.devices) for f in left])
        drafts = np.array([float(f.design.acceptance.draft_tokens) for f in left])
        equal = np.ones(len(left), dtype=np.bool_)
        ordered.append(left.pop(preferred(equal, tpot_s, ttft_s, devices, drafts)[0]))
    return [*ordered, *others], len(ordered)


def _unsimulated(design: Design) -> Finalist:
    return Finalist(design=design, run=None, reason="not simulated")


def _run(simulations: Simulations, design: Design, seeds: int) -> Finalist:
    first = simulations.question.seed
    run = simulations.run(design, range(first, first + seeds))
    return (
        Finalist(design=design, run=None, reason=run)
        if isinstance(run, str)
        else Finalist(design=design, run=run)
    )


def _confirmed(simulations: Simulations, design: Design, seeds: int) -> Finalist:
    """A design with its simulations, or the next of the same drafter and placement that meets the
    limits there.
    """
    question = simulations.question
    tried = [_run(simulations, design, 1)]
    if tried[0].run is None:
        return tried[0]
    if question.maximise == "goodput" and question.slo.limited:
        tried += [_run(simulations, lower, 1) for lower in _lower_caps(question, design)]
        tried.sort(key=lambda finalist: finalist.value)
    if question.slo.limited:
        base = under_load(question, design.contender)
        for _ in range(TRIES):
            following = _following(question, base, tried)
            if following is None:
                break
            tried.append(_run(simulations, following, 1))
    for finalist in sorted(tried, key=lambda finalist: _rank(question.slo, finalist)):
        whole = _run(simulations, finalist.design, seeds)
        if whole.meets(question.slo) or not finalist.meets(question.slo):
            return whole
    nearest = min(tried, key=lambda finalist: finalist.excess(question.slo))
    return _run(simulations, nearest.design, seeds)


def _following(
    question: JointQuestion, base: LoadEvaluation, tried: Sequence[Finalist]
) -> Design | None:
    """The best design that should meet the limits by the law as simulations correct it, and better
    than those that do.

    Where none of those that were tried meets them, and none should, it is the nearest.
    """
    runs = [finalist.run for finalist in tried if finalist.run is not None]
    if len(runs) < len(tried):
        return None
    ttft, tpot, e2e = (
        float(np.exp(-np.mean(np.log([getattr(run.excess_ratios, name) for run in runs]))))
        for name in ("ttft_s", "tpot_s", "e2e_s")
    )
    scaled = question.slo.scaled(RequestTimes(ttft_s=ttft, tpot_s=tpot, e2e_s=e2e))
    corrected = replace(question, slo=scaled)
    under = under_load(corrected, base.node)
    fresh = np.ones(under.fits.shape, dtype=np.bool_)
    for finalist in tried:
        place = _place(question, base, finalist.design)
        fresh[place] &= under.replicas[place] != finalist.design.replicas
    met = [finalist.value for finalist in tried if finalist.meets(question.slo)]
    values = np.where(fresh & (under.value > MORE * max(met, default=0.0)), under.value, -np.inf)
    if np.isfinite(values).any():
        return design_at(corrected, under, under.preferred(values))
    excess = np.where(fresh & under.carries, under.excess(corrected.slo), np.inf)
    least = min(finalist.excess(question.slo) for finalist in tried)
    if met or excess.min() >= least:
        return None
    return design_at(corrected, under, under.preferred(-excess))


def _place(question: JointQuestion, base: LoadEvaluation, design: Design) -> tuple[int, int, int]:
    """Where a design stands among those of its node: its shape, token budget and batch cap."""
    shape = next(at for at, a in enumerate(base.node.candidates) if a is design.acceptance)
    budget = question.token_budgets.index(design.scheduler.token_budget)
    return shape, budget, int(np.flatnonzero(base.node.batch == design.batch)[0])


def _lower_caps(question: JointQuestion, design: Design) -> list[Design]:
    """The same design with the next lower batch caps that meet the limits."""
    evaluation = under_load(question, design.contender)
    shape, budget, cap = _place(question, evaluation, design)
    lower = [
        design_at(question, evaluation, (shape, budget, at))
        for at in range(cap - 1, max(cap - 1 - LOWER_CAPS, -1), -1)
    ]
    return [design for design in lower if design.meets]
