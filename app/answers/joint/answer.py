"""Which design should be run, which come next, and how sure is that?

A joint search, its best designs and a part of its front simulated, and their objectives drawn together. A design that
misses a limit in simulation is simulated with lower batch caps. Leaves out the object that is printed
(`app.answers.joint.rows`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from app.answers.joint.simulated import Run, Simulations, Traffic
from costmodel.optimizers.joint.comparison import Comparison, compare_designs
from costmodel.optimizers.joint.evaluation import evaluate
from costmodel.optimizers.joint.search import Design, JointOptimum, design_at, joint_search
from costmodel.optimizers.joint.space import JointQuestion

SEEDS = 3
LOWER_CAPS = 3  # further batch caps that are simulated of a design that misses its limits, or whose goodput may gain
FRONT_RUNS = 8
Report = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True)
class Finalist:
    """A design with its simulations.

    Args:
        design: as it is simulated.
        run: None: it was not simulated.
        reason: why not; empty where it was.
    """

    design: Design
    run: Run | None
    reason: str = ""

    @property
    def value(self) -> float:
        """The objective: predicted, times what simulations say of the prediction."""
        return self.design.value * (1.0 if self.run is None else float(np.mean(self.run.ratios)))

    @property
    def meets(self) -> bool:
        """Whether it meets the limits, in simulation where there is one."""
        return self.design.meets if self.run is None else self.run.meets


@dataclass(frozen=True, kw_only=True)
class JointAnswer:
    """What was found.

    Args:
        question: what was asked.
        optimum: of the search.
        finalists: best first; the first one is the winner.
        front: designs on the front, some of them simulated.
        comparison: of the finalists.
        simulations: that were run.
    """

    question: JointQuestion
    optimum: JointOptimum
    finalists: Sequence[Finalist]
    front: Sequence[Finalist]
    comparison: Comparison
    simulations: int


def joint_answer(question: JointQuestion, traffic: Traffic, *, simulate: bool = True, seeds: int = SEEDS,
                 report: Report = lambda name, done, total: None) -> JointAnswer:  # fmt: skip
    """Search, simulate and compare.

    Args:
        question: what is asked.
        traffic: that designs are simulated with.
        simulate: False: predictions alone.
        seeds: simulations of a finalist.
        report: called with what is done, and how much of how much.

    Raises:
        NoDesignError: nothing fits, or nothing meets the limits.
        InputError: an unknown name.
    """
    optimum = joint_search(question, progress=report)
    simulations = Simulations(question, traffic)
    finalists = []
    for place, design in enumerate(optimum.ranked):
        report("simulating", place, len(optimum.ranked) + FRONT_RUNS)
        finalists.append(_confirmed(simulations, design, seeds) if simulate else _unsimulated(design))
    front = [_unsimulated(design) for design in optimum.front]
    if simulate and question.rate_stated is False:
        places = sorted({round(at) for at in np.linspace(0, len(front) - 1, min(FRONT_RUNS, len(front)))})
        for done, at in enumerate(places):
            report("simulating", len(finalists) + done, len(finalists) + len(places))
            front[at] = _run(simulations, front[at].design, 1)
    finalists = sorted(finalists, key=lambda each: (not each.meets, -each.value))
    comparison = compare_designs(
        question, [each.design for each in finalists], seed=question.seed,
        simulated=[None if each.run is None else each.run.ratios for each in finalists],
    )  # fmt: skip
    return JointAnswer(
        question=question,
        optimum=optimum,
        finalists=finalists,
        front=front,
        comparison=comparison,
        simulations=simulations.count,
    )


def _unsimulated(design: Design) -> Finalist:
    return Finalist(design=design, run=None, reason="not simulated")


def _run(simulations: Simulations, design: Design, seeds: int) -> Finalist:
    first = simulations.question.seed
    run = simulations.run(design, range(first, first + seeds))
    return Finalist(design=design, run=None, reason=run) if isinstance(run, str) else Finalist(design=design, run=run)


def _confirmed(simulations: Simulations, design: Design, seeds: int) -> Finalist:
    """A design with its simulations, at a lower batch cap where that is needed or better."""
    question = simulations.question
    tried = [_run(simulations, design, 1)]
    limits = question.slo.tpot_s is not None or question.slo.ttft_s is not None
    if tried[0].run is None:
        return tried[0]
    if limits and (not tried[0].meets or question.maximise == "goodput"):
        for lower in _lower_caps(question, design):
            tried.append(_run(simulations, lower, 1))
            if question.maximise != "goodput" and tried[-1].meets:
                break
    best = max(tried, key=lambda each: (each.meets, each.value))
    return _run(simulations, best.design, seeds)


def _lower_caps(question: JointQuestion, design: Design) -> list[Design]:
    """The same design with the next lower batch caps that meet the limits."""
    node = design.node
    shape = next(at for at, a in enumerate(node.shapes) if a is design.acceptance)
    budget = question.token_budgets.index(design.token_budget)
    cap = int(np.flatnonzero(node.batch == design.batch)[0])
    found = evaluate(question, node)
    lower = [
        design_at(question, found, (shape, budget, at)) for at in range(cap - 1, max(cap - 1 - LOWER_CAPS, -1), -1)
    ]
    return [each for each in lower if each.meets]
