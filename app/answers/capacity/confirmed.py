"""What do some replicas of a large plan show, simulated whole behind its router?

A plan is found with one replica whose arrivals know nothing of each other. A router that deals
requests out in turn spreads them more evenly: a few replicas of the plan, each with every n-th
request of the whole load, say what that is worth, with the interval that sampling costs.
"""

from dataclasses import replace
from typing import Any

from app.answers.capacity.fleet import SampledFleet
from app.answers.capacity.rows import PlanRow, ServedRow
from app.answers.capacity.service import Service
from app.answers.sizing.replicas import LONGER
from app.answers.sizing.traffic import open_requests
from costmodel.answers.workload import Load, RequestTimes
from hardware_profiles.errors import RooftreeError
from simulator.engine import simulate
from simulator.results.metrics import SimulationResult
from simulator.results.sampled import with_interval
from simulator.results.steady import SteadyWindow, steady_window

LEAST_REPLICAS = 16  # of a plan, from which arrivals of one are far from Poisson; ASSUMED
SAMPLED = 4


def sampled_fleet(service: Service, best: ServedRow, load: Load) -> SampledFleet | None:
    """Some replicas of a plan; None where it is small, has no limits or serves users in a closed
    loop, or nothing simulates it.

    Args:
        service: of the plan.
        best: the plan.
        load: requests to serve.
    """
    large = isinstance(best, PlanRow) and best.replicas >= LEAST_REPLICAS
    if not large or not service.limits.limited or best.simulated is None:
        return None
    if load.population is not None:  # users go on where their answer came from, on any replica
        return None
    limits = service.limits
    try:
        result, window = _simulated(service, best, load)
    except RooftreeError:
        return None

    def held(own: SimulationResult) -> dict[str, Any]:
        steady = window.counts(own)
        counted = own.finished & steady
        if not counted.any():
            return dict.fromkeys(["ttft_s", "tpot_s", "e2e_s", "good_ratio"])
        times = limits.held(own.times.of(counted))
        good = float(own.within(limits)[steady].mean())
        return {
            "ttft_s": times.ttft_s,
            "tpot_s": times.tpot_s,
            "e2e_s": times.e2e_s,
            "good_ratio": good,
        }

    seen, bounds = with_interval(result, held)
    if any(pair is None for pair in bounds.values()):
        return None
    times = RequestTimes(ttft_s=seen["ttft_s"], tpot_s=seen["tpot_s"], e2e_s=seen["e2e_s"])
    low, high = bounds["good_ratio"]
    return SampledFleet(
        replicas=best.replicas,
        simulated_replicas=SAMPLED,
        requests=int(result.request.size),
        ttft_s=seen["ttft_s"],
        ttft_s_interval=tuple(bounds["ttft_s"]),
        tpot_s=seen["tpot_s"],
        tpot_s_interval=tuple(bounds["tpot_s"]),
        e2e_s=seen["e2e_s"],
        e2e_s_interval=tuple(bounds["e2e_s"]),
        good_ratio=seen["good_ratio"],
        good_ratio_interval=(low, min(high, 1.0)),
        keeps_limits=bool(limits.met(times)) and not window.is_growing,
    )


def _simulated(
    service: Service, best: ServedRow, load: Load
) -> tuple[SimulationResult, SteadyWindow]:
    """A sample of a plan's replicas under its load, in a run that is lengthened while a backlog
    seems to grow, and its steady part.
    """
    (draft,), sizing = service.with_draft(best.draft).drafts, service.sizing(load)
    alone = sizing.prepared(draft)
    copies = {"replicas": best.replicas, "sample_replicas": SAMPLED}
    fleet = replace(alone, written=alone.written.model_copy(update=copies))
    first = open_requests(service.limits) * best.replicas
    count = first
    while True:
        result = simulate(fleet.scenario(sizing.seed, count=count))
        window = steady_window(result)
        if not window.is_growing or count >= LONGER * first:
            return result, window
        count *= 2
