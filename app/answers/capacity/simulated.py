"""How few replicas keep percentiles of latency under a load, by simulation?

One replica serves its share of the load, with arrivals that know nothing of each other: a router
that spreads them more evenly does better. The same draws serve every number of replicas, and which
numbers are tried depends on the load alone: looser limits never need more. Leaves out what a plan
costs (`costmodel.answers.capacity`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.answers.optimize.simulated import open_requests
from costmodel.answers.capacity import CapacityPlan, plan
from costmodel.answers.estimate import Setting
from costmodel.answers.workload import Limits, Load
from costmodel.configuration import DecodingConfiguration
from costmodel.laws.acceptance import Acceptance
from costmodel.optimizers.allowed import drafting
from hardware_profiles.errors import InfeasibleError, RooftreeError
from hardware_profiles.units import MILLI
from simulator.engine import simulate
from simulator.results.steady import steady_window
from simulator.scenario.build import Prepared, prepare
from simulator.scenario.configured import sections_of
from simulator.scenario.file import checked_scenario

DOUBLINGS = (
    10  # of the replicas that the rate needs; in a thousandth of its load nobody meets anybody
)
LONGER = 8  # times as many requests at most, where a backlog seems to grow


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic:
    """The requests of simulations.

    Args:
        load: that is planned for.
        requests: recorded ones, whose lengths are taken in their order; None: all of mean length.
        limits: on their times.
        seed: of all draws.
        utilisation: most that a replica is sent, as a share of what it could finish.
    """

    load: Load
    requests: Path | None
    limits: Limits
    seed: int
    utilisation: float


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedTimes:
    """A simulation in its steady part.

    Attributes:
        ttft_s: time to first token that is held against the limit: a percentile, or the mean.
        tpot_s: time per output token, alike.
        good_ratio: share of the requests within both limits.
        sustained: whether the backlog does not grow.
        keeps_limits: whether it does not, and the limits are kept.
        requests: that were simulated.
    """

    ttft_s: float
    tpot_s: float
    good_ratio: float
    sustained: bool
    keeps_limits: bool
    requests: int

    def keeps(self, limits: Limits) -> bool:
        """Whether the limits are kept."""
        times = {"ttft_s": np.asarray(self.ttft_s), "tpot_s": np.asarray(self.tpot_s)}
        return self.sustained and bool(limits.met(**times))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SimulatedPlan:
    """A plan that simulations confirm.

    Attributes:
        plan: what it needs and costs.
        times: of one of its replicas.
    """

    plan: CapacityPlan
    times: SimulatedTimes


def simulated_plan(
    configuration: DecodingConfiguration,
    setting: Setting,
    drafts: Sequence[Acceptance],
    traffic: Traffic,
    *,
    most_batch: int | None = None,
    token_budget: int | None = None,
) -> SimulatedPlan:
    """The fewest replicas, with the best of several drafts, that keep limits in simulation.

    Args:
        configuration: model, device, engine and drafter.
        setting: the same as records.
        drafts: to choose among, at least one.
        traffic: to serve.
        most_batch: most requests in flight of a replica; None: 1,024 of every scheduler.
        token_budget: most query tokens of an iteration; None: the engine's default.

    Raises:
        InputError: nothing that can be simulated.
        InfeasibleError: memory holds no request, or no number of replicas keeps the limits.
    """
    refused: list[InfeasibleError] = []
    served: list[SimulatedPlan] = []
    limits = {"most_batch": most_batch, "token_budget": token_budget}
    scheduler = scheduler_limits(setting, most_batch, token_budget)
    for draft in drafts:
        try:
            by_rate = planned_by_rate(setting, draft, traffic, limits)
            prepared = prepared_traffic(drafting(configuration, draft), traffic, scheduler)
            replicas, times = _least_replicas(prepared, by_rate, traffic)
            whole = planned_by_rate(setting, draft, traffic, limits, replicas)
        except InfeasibleError as error:
            refused.append(error)
        else:
            served.append(SimulatedPlan(plan=whole, times=times))
    if not served:
        raise refused[0]
    return min(served, key=lambda option: (option.plan.replicas, option.times.tpot_s))


def seen_by_plan(
    configuration: DecodingConfiguration,
    planned: CapacityPlan,
    traffic: Traffic,
    *,
    most_batch: int | None = None,
    token_budget: int | None = None,
) -> SimulatedTimes | None:
    """What a plan for means shows in simulation; None without limits, or where nothing simulates it.

    Args:
        configuration: of one replica.
        planned: the plan.
        traffic: to serve.
        most_batch: most requests in flight of a replica; None: the engine's.
        token_budget: most query tokens of an iteration; None: the engine's default.
    """
    if not traffic.limits.limited:
        return None
    scheduler = scheduler_limits(planned.setting, most_batch, token_budget)
    try:
        prepared = prepared_traffic(drafting(configuration, planned.acceptance), traffic, scheduler)
        return simulated_times(prepared, traffic.load.requests_per_s / planned.replicas, traffic)
    except RooftreeError:
        return None


def scheduler_limits(
    setting: Setting, most_batch: int | None, token_budget: int | None
) -> dict[str, int | None]:
    """Limits of one scheduler, of which every data copy has its own."""
    copies = 1 if setting.plan is None else setting.plan.data
    most = None if most_batch is None else max(most_batch // copies, 1)
    return {"max_requests": most, "token_budget": token_budget}


def prepared_traffic(
    configuration: DecodingConfiguration,
    traffic: Traffic,
    scheduler: Mapping[str, int | None],
    **sections: Any,
) -> Prepared:
    """A service and its requests, ready to be simulated at any rate.

    Args:
        configuration: of one replica.
        traffic: to serve.
        scheduler: its limits; None: the engine's.
        sections: further ones of the scenario.

    Raises:
        InputError: a part that simulations do not have.
        InfeasibleError: the model leaves no room for a cache.
    """
    load = traffic.load
    lengths: dict[str, Any] = (
        {
            "prompt_tokens": str(max(round(load.mean_prompt_tokens), 1)),
            "output_tokens": str(max(round(load.output_tokens), 1)),
        }
        if traffic.requests is None
        else {"file": str(traffic.requests)}
    )
    requests = {
        **lengths,
        "count": open_requests(traffic.limits),
        "arrivals": "poisson",
        "rate_per_s": load.requests_per_s,
    }
    stated = {name: value for name, value in scheduler.items() if value is not None}
    written = {**sections_of(configuration), "requests": requests, **sections}
    return prepare(checked_scenario(written | ({"scheduler": stated} if stated else {}), None))


def simulated_times(
    prepared: Prepared,
    rate_per_s: float,
    traffic: Traffic,
    *,
    workers: tuple[int, int] | None = None,
    least_requests: int = 0,
) -> SimulatedTimes:
    """What requests see that arrive at a rate, of a run long enough to say that no backlog grows.

    Args:
        prepared: the service.
        rate_per_s: requests per second.
        traffic: whose limits and seed count.
        workers: that compute prompts, and that decode; None: one replica does both.
        least_requests: that are simulated.

    Raises:
        InfeasibleError: no request fits the cache.
    """
    first = max(open_requests(traffic.limits), least_requests)
    count = first
    while True:
        scenario = prepared.scenario(traffic.seed, rate_per_s=rate_per_s, count=count)
        if workers is not None and scenario.disaggregation is not None:
            scenario = replace(
                scenario,
                replicas=workers[1],
                router="least-loaded",
                disaggregation=replace(scenario.disaggregation, prefill_replicas=workers[0]),
            )
        result = simulate(replace(scenario, series=False))
        window = steady_window(
            result, slo_ttft_s=traffic.limits.ttft_s, slo_tpot_s=traffic.limits.tpot_s
        )
        if not window.is_growing or count >= LONGER * first:
            break
        count *= 2
    counted = result.finished & (result.arrival_s >= window.begin_s)
    if not counted.any():
        raise InfeasibleError("memory: a request does not fit the cache of a replica")
    ttft, tpot = traffic.limits.held(ttft_s=result.ttft_s[counted], tpot_s=result.tpot_s[counted])
    met = traffic.limits.met(ttft_s=np.asarray(ttft), tpot_s=np.asarray(tpot))
    return SimulatedTimes(
        ttft_s=ttft,
        tpot_s=tpot,
        good_ratio=window.good_ratio,
        sustained=not window.is_growing,
        keeps_limits=bool(met) and not window.is_growing,
        requests=count,
    )


def planned_by_rate(
    setting: Setting,
    draft: Acceptance,
    traffic: Traffic,
    limits: dict[str, int | None],
    replicas: int = 1,
) -> CapacityPlan:
    """The plan of a draft by the rate alone, with so many replicas at least."""
    return plan(
        setting,
        [draft],
        traffic.load,
        Limits(),
        generator=np.random.default_rng(traffic.seed),
        utilisation=traffic.utilisation,
        least_replicas=replicas,
        **limits,
    )


def _least_replicas(
    prepared: Prepared, by_rate: CapacityPlan, traffic: Traffic
) -> tuple[int, SimulatedTimes]:
    """The fewest replicas whose simulation keeps the limits, and what it saw.

    Raises:
        InfeasibleError: not even a thousand times as many as the rate needs do.
    """
    seen: dict[int, SimulatedTimes] = {}

    def keeps(replicas: int) -> bool:
        rate = traffic.load.requests_per_s / replicas
        seen[replicas] = simulated_times(prepared, rate, traffic)
        return seen[replicas].keeps(traffic.limits)

    most = by_rate.replicas << DOUBLINGS
    enough = fewest(keeps, by_rate.replicas, most)
    if enough is None:
        setting, times = by_rate.setting, seen[most]
        raise InfeasibleError(
            f"SLO: {traffic.limits.words} cannot be met by {setting.target.name} on"
            f" {setting.devices} x {setting.device.name}; the least are"
            f" {times.ttft_s / MILLI:.3g} and {times.tpot_s / MILLI:.3g} ms, with"
            f" {most:,} replicas"
        )
    return enough, seen[enough]


def fewest(keeps: Callable[[int], bool], least: int, most: int) -> int | None:
    """The smallest number that keeps limits, by doubling and bisection; None: not even the most does.

    Which numbers are tried follows from the least and from what was kept: where limits are looser,
    the answer is never larger, even if chance lets a number miss them that is larger than one that
    keeps them.

    Args:
        keeps: whether a number does.
        least: number that there is in any case, >= 1.
        most: the least times a power of two.
    """
    enough = least
    while not keeps(enough):
        if enough >= most:
            return None
        enough *= 2
    too_few = least - 1 if enough == least else enough // 2
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        if keeps(middle):
            enough = middle
        else:
            too_few = middle
    return enough
