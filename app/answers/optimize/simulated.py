"""What do short simulations say of designs that a search has found?

One replica of a design serves its share of the load: as many users as its batch cap where nothing
is stated of a rate, else arrivals at that share. What is simulated is put beside what the law
predicts of the same replica. Leaves out which designs are simulated (`app.answers.optimize.confirmed`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from app.answers.sizing.traffic import OPEN_REQUESTS, Traffic, open_requests
from costmodel.answers.workload import RequestTimes
from costmodel.optimizers.joint.search import Design
from costmodel.optimizers.joint.space import JointQuestion
from hardware_profiles.errors import RooftreeError
from simulator.engine import simulate
from simulator.results.metrics import SimulationResult
from simulator.results.steady import WARM_UP_WAVES, steady_window
from simulator.scenario.build import Prepared, prepare
from simulator.scenario.configured import sections_of
from simulator.scenario.file import checked_scenario

WAVES = 6  # requests of a user, of which those of warm-up and draining do not count
LEAST_REQUESTS = 32  # that count, where users are few
MOST_OPEN_REQUESTS = 16 * OPEN_REQUESTS  # where a backlog seems to grow


@dataclass(frozen=True, kw_only=True)
class DesignRun:
    """Simulations of one design.

    Args:
        ratios: simulated over predicted objective, by seed.
        tokens_per_s: of one replica, mean over seeds.
        tpot_s: mean time per output token.
        tpots_s: the same by seed.
        ttft_s: mean time to first token.
        e2e_s: mean time of a whole request.
        good_ratio: share of requests within all limits.
        sustained: whether the backlog does not grow.
        meets: whether it is sustained and the limits are met, by their own definition.
        excess_ratios: simulated times, as the limits take them, over the predicted means.
    """

    ratios: tuple[float, ...]
    tokens_per_s: float
    tpot_s: float
    tpots_s: tuple[float, ...]
    ttft_s: float
    e2e_s: float
    good_ratio: float
    sustained: bool
    meets: bool
    excess_ratios: RequestTimes[float]


class _Outcome(NamedTuple):
    """One simulation: what `DesignRun` says of several, and times as limits take them."""

    ratio: float
    tokens_per_s: float
    tpot_s: float
    ttft_s: float
    e2e_s: float
    good_ratio: float
    sustained: float
    held_ttft_s: float
    held_tpot_s: float
    held_e2e_s: float

    @property
    def held(self) -> RequestTimes[float]:
        """Times as limits take them."""
        return RequestTimes(ttft_s=self.held_ttft_s, tpot_s=self.held_tpot_s, e2e_s=self.held_e2e_s)


class Simulations:
    """Simulations of the designs of a search, of which none is run twice.

    Args:
        question: what is asked.
        traffic: of the load.
    """

    def __init__(self, question: JointQuestion, traffic: Traffic) -> None:
        self.question, self.traffic = question, traffic
        self._results: dict[tuple[str, int], _Outcome] = {}
        self._prepared: tuple[str, Prepared] | None = (
            None  # the latest, with the tables of its timers
        )

    @property
    def count(self) -> int:
        """That were run."""
        return len(self._results)

    def run(self, design: Design, seeds: Sequence[int]) -> DesignRun | str:
        """Simulations of one replica of a design, or why there are none.

        Args:
            design: of a search.
            seeds: of the simulations, at least one.
        """
        sections = _sections(self.question, design, self.traffic)
        try:
            runs = [self._one(design, sections, seed) for seed in seeds]
        except RooftreeError as error:
            return str(error)
        ratios = tuple(run.ratio for run in runs)
        mean = _Outcome(*np.mean(np.array(runs), axis=0).tolist())
        slo, sustained = self.question.slo, mean.sustained > 0.5
        if slo.share_ratio is None:
            met = bool(slo.met(mean.held))
        else:
            met = not slo.limited or mean.good_ratio >= slo.share_ratio
        return DesignRun(
            ratios=ratios,
            tokens_per_s=mean.tokens_per_s,
            tpot_s=mean.tpot_s,
            tpots_s=tuple(run.tpot_s for run in runs),
            ttft_s=mean.ttft_s,
            e2e_s=mean.e2e_s,
            good_ratio=mean.good_ratio,
            sustained=sustained,
            meets=met and sustained,
            excess_ratios=RequestTimes(
                ttft_s=mean.held_ttft_s / design.ttft_s,
                tpot_s=mean.held_tpot_s / design.tpot_s,
                e2e_s=mean.held_e2e_s / design.e2e_s,
            ),
        )

    def _one(self, design: Design, sections: dict[str, Any], seed: int) -> _Outcome:
        written = json.dumps([sections, design.replicas, design.requests_per_s], default=str)
        if (written, seed) not in self._results:
            if self._prepared is None or self._prepared[0] != written:
                self._prepared = (written, prepare(checked_scenario(sections, None)))
            self._results[written, seed] = _one(self.question, design, self._prepared[1], seed)
        return self._results[written, seed]


def _sections(question: JointQuestion, design: Design, traffic: Traffic) -> dict[str, Any]:
    requests = traffic.lengths
    if traffic.requests is not None and question.rate_stated:
        # the recorded arrivals, sped up to the share of a replica
        requests |= {"count": traffic.count, "arrivals": "recorded"}
    elif question.rate_stated:
        requests |= {
            "count": open_requests(question.slo),
            "arrivals": "poisson",
            "rate_per_s": _share(question, design),
        }
    else:
        count = max(WAVES * design.batch, (WARM_UP_WAVES + 1) * design.batch + LEAST_REQUESTS)
        requests |= {"count": count, "arrivals": "closed", "users": design.batch}
    limits = question.slo
    slo = {"ttft_s": limits.ttft_s, "tpot_s": limits.tpot_s, "e2e_s": limits.e2e_s}
    return {
        **sections_of(design.configuration),
        "requests": requests,
        "slo": slo,
        "scheduler": {
            "token_budget": design.scheduler.token_budget,
            "max_requests": design.scheduler.max_requests,
        },
    }


def _share(question: JointQuestion, design: Design) -> float:
    """Requests per second of one replica; no more than it is planned to carry."""
    share = question.load.requests_per_s / design.replicas
    return min(share, question.utilisation * design.requests_per_s / design.replicas)


def _one(question: JointQuestion, design: Design, prepared: Prepared, seed: int) -> _Outcome:
    """One simulation, in longer and longer runs of a stated rate while the backlog grows."""
    slo, grows = question.slo, False
    if question.rate_stated:
        share = _share(question, design)
        result, grows = _unfilled(prepared, seed, share)
        window = steady_window(result)
        counted = result.finished & window.counts(result)
        rate = float(window.tokens_per_s or 0.0)
        carried = min(1.0, rate / (share * float(result.output_tokens.mean()))) if grows else 1.0
    else:
        result = simulate(prepared.scenario(seed))
        window = steady_window(result)
        counted = result.finished & window.counts(result)
        rate = (window.requests_per_s or 0.0) * float(result.output_tokens.mean())
        predicted = design.requests_per_s / design.replicas * float(result.output_tokens.mean())
        carried = rate / predicted
    times = result.times.of(counted)
    good, held = slo.met(times), slo.held(times)
    within = float(good.mean()) if good.size else 0.0
    return _Outcome(
        ratio=carried * within if question.maximise == "goodput" else carried,
        tokens_per_s=rate,
        tpot_s=float(np.nanmean(times.tpot_s)),
        ttft_s=float(np.mean(times.ttft_s)),
        e2e_s=float(np.mean(times.e2e_s)),
        good_ratio=within,
        sustained=float(not grows),
        held_ttft_s=held.ttft_s,
        held_tpot_s=held.tpot_s,
        held_e2e_s=held.e2e_s,
    )


def _unfilled(prepared: Prepared, seed: int, rate_per_s: float) -> tuple[SimulationResult, bool]:
    """A run at a rate that is long enough to say that no backlog grows, and whether one does."""
    count = None
    while True:
        result = simulate(prepared.scenario(seed, rate_per_s=rate_per_s, count=count))
        grows, count = steady_window(result).is_growing, 2 * result.request.size
        if not grows or count > MOST_OPEN_REQUESTS or not prepared.extends:
            return result, grows
