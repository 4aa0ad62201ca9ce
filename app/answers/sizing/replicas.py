"""How few replicas keep percentiles of latency under a load, by simulation?

One replica serves its share of the load, with arrivals that know nothing of each other: a router
that spreads them more evenly does better. The same draws serve every number of replicas, and which
numbers are tried depends on the load alone: looser limits never need more. Leaves out what a plan
costs (`costmodel.answers.capacity`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.answers.sizing.traffic import Traffic, open_requests
from costmodel.answers.capacity import CapacityPlan, plan
from costmodel.answers.estimate import Setting
from costmodel.answers.workload import NO_LIMITS, Limits, Load, RequestTimes
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
USER_REQUESTS = 10  # of a user at least, of which the first fifth warms up
LONGER = 8  # times as many requests at most, where a backlog seems to grow


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sizing:
    """Replicas that are alike, whose number is to keep limits under a load.

    Args:
        configuration: of one replica.
        setting: the same as records.
        drafts: to choose among, at least one.
        load: that is planned for.
        traffic: the requests of simulations.
        limits: on their times.
        seed: of all draws.
        utilisation: most that a replica is sent, as a share of what it could finish.
        most_batch: most requests in flight of a replica; None: 1,024 of every scheduler.
        token_budget: most query tokens of an iteration; None: the engine's default.
    """

    configuration: DecodingConfiguration
    setting: Setting
    drafts: Sequence[Acceptance]
    load: Load
    traffic: Traffic
    limits: Limits
    seed: int
    utilisation: float
    most_batch: int | None = None
    token_budget: int | None = None

    def by_limits(
        self, limits: Limits, drafts: Sequence[Acceptance], replicas: int = 1
    ) -> CapacityPlan:
        """The plan of the law of means.

        Args:
            limits: on means.
            drafts: to choose among.
            replicas: that there are at least.

        Raises:
            InfeasibleError: memory holds no request, or the limits are not met.
        """
        return plan(
            self.setting,
            drafts,
            self.load,
            limits,
            generator=np.random.default_rng(self.seed),
            utilisation=self.utilisation,
            least_replicas=replicas,
            most_batch=self.most_batch,
            token_budget=self.token_budget,
        )

    def by_rate(self, draft: Acceptance, replicas: int = 1) -> CapacityPlan:
        """The plan of a draft by the rate alone, with so many replicas at least."""
        return self.by_limits(NO_LIMITS, [draft], replicas)

    def prepared(self, draft: Acceptance, **sections: Any) -> Prepared:
        """The service and its requests, ready to be simulated at any rate.

        Args:
            draft: what is drafted.
            sections: further ones of the scenario.

        Raises:
            InputError: a part that simulations do not have.
            InfeasibleError: the model leaves no room for a cache.
        """
        requests = {
            **self.traffic.lengths,
            "count": open_requests(self.limits),
            "arrivals": "poisson",
            "rate_per_s": self.load.requests_per_s,
        }
        written = {
            **sections_of(drafting(self.configuration, draft)),
            "requests": requests,
            **({"scheduler": self._scheduler} if self._scheduler else {}),
            **sections,
        }
        return prepare(checked_scenario(written, None))

    @property
    def _scheduler(self) -> Mapping[str, int]:
        """Stated limits of one scheduler, of which every data copy has its own."""
        copies = 1 if self.setting.plan is None else self.setting.plan.data
        most = None if self.most_batch is None else max(self.most_batch // copies, 1)
        stated = {"max_requests": most, "token_budget": self.token_budget}
        return {name: value for name, value in stated.items() if value is not None}


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedTimes:
    """A simulation in its steady part.

    Attributes:
        held: times that are held against the limits, each a percentile or the mean.
        mean: mean times; 0 per output token where no request has a second one.
        good_ratio: share of the requests within all limits.
        sustained: whether the backlog does not grow.
        keeps_limits: whether it does not, and the limits are kept.
        requests_per_s: that were finished.
        requests: that were simulated.
    """

    held: RequestTimes[float]
    mean: RequestTimes[float]
    good_ratio: float
    sustained: bool
    keeps_limits: bool
    requests_per_s: float
    requests: int

    def keeps(self, limits: Limits) -> bool:
        """Whether the limits are kept."""
        several = sum(limit is not None for limit in (limits.ttft_s, limits.tpot_s, limits.e2e_s))
        enough = several < 2 or self.good_ratio >= (limits.share_ratio or 0.0)
        return self.sustained and enough and bool(limits.met(self.held))


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SimulatedPlan:
    """A plan that simulations confirm.

    Attributes:
        plan: what it needs and costs.
        times: of one of its replicas.
    """

    plan: CapacityPlan
    times: SimulatedTimes


def simulated_plan(sizing: Sizing) -> SimulatedPlan:
    """The fewest replicas, with the best of several drafts, that keep limits in simulation.

    Args:
        sizing: what is sized.

    Raises:
        InputError: nothing that can be simulated.
        InfeasibleError: memory holds no request, or no number of replicas keeps the limits.
    """
    refused: list[InfeasibleError] = []
    served: list[SimulatedPlan] = []
    for draft in sizing.drafts:
        try:
            replicas, times = _least_replicas(sizing, sizing.by_rate(draft))
            whole = sizing.by_rate(draft, replicas)
        except InfeasibleError as error:
            refused.append(error)
        else:
            served.append(SimulatedPlan(plan=whole, times=times))
    if not served:
        raise refused[0]
    return min(served, key=lambda option: (option.plan.replicas, option.times.held.tpot_s))


def seen_by_plan(sizing: Sizing, planned: CapacityPlan) -> SimulatedTimes | None:
    """What a plan for means shows in simulation; None without limits or users, or where nothing
    simulates it.

    Args:
        sizing: what was sized.
        planned: the plan.
    """
    if not sizing.limits.limited and sizing.load.population is None:
        return None
    share = sizing.load.share(planned.replicas)
    try:
        return simulated_times(sizing.prepared(planned.acceptance), share, sizing)
    except RooftreeError:
        return None


def simulated_times(
    prepared: Prepared,
    load: Load,
    sizing: Sizing,
    *,
    workers: tuple[int, int] | None = None,
    least_requests: int = 0,
) -> SimulatedTimes:
    """What requests see that arrive at a rate, of a run long enough to say that no backlog grows.

    Args:
        prepared: the service.
        load: of the replica, or of all workers.
        sizing: whose limits and seed count.
        workers: that compute prompts, and that decode; None: one replica does both.
        least_requests: that are simulated.

    Raises:
        InfeasibleError: no request fits the cache.
    """
    people = load.population
    rate_per_s = load.requests_per_s if people is None else None
    first = max(open_requests(sizing.limits), least_requests)
    if people is not None:
        users = math.ceil(people.users - 1e-9)
        prepared = prepared.of_users(users, people.think_s)
        first = max(first, USER_REQUESTS * users)
    count = first
    while True:
        scenario = prepared.scenario(sizing.seed, rate_per_s=rate_per_s, count=count)
        if workers is not None and scenario.disaggregation is not None:
            scenario = replace(
                scenario,
                replicas=workers[1],
                router="least-loaded",
                disaggregation=replace(scenario.disaggregation, prefill_replicas=workers[0]),
            )
        result = simulate(replace(scenario, series=False))
        window = steady_window(result, sizing.limits)
        if not window.is_growing or count >= LONGER * first:
            break
        count *= 2
    counted = result.finished & window.counts(result)
    if not counted.any():
        raise InfeasibleError("memory: a request does not fit the cache of a replica")
    times = result.times.of(counted)
    held = sizing.limits.held(times)
    return SimulatedTimes(
        held=held,
        mean=NO_LIMITS.held(times),
        good_ratio=window.good_ratio,
        sustained=not window.is_growing,
        keeps_limits=bool(sizing.limits.met(held)) and not window.is_growing,
        requests_per_s=(window.tokens_per_s or 0.0) / float(result.output_tokens.mean()),
        requests=count,
    )


def _least_replicas(sizing: Sizing, by_rate: CapacityPlan) -> tuple[int, SimulatedTimes]:
    """The fewest replicas whose simulation keeps the limits, and what it saw.

    Raises:
        InfeasibleError: not even a thousand times as many as the rate needs do.
    """
    prepared = sizing.prepared(by_rate.acceptance)
    seen: dict[int, SimulatedTimes] = {}

    def keeps(replicas: int) -> bool:
        seen[replicas] = simulated_times(prepared, sizing.load.share(replicas), sizing)
        return seen[replicas].keeps(sizing.limits)

    most = by_rate.replicas << DOUBLINGS
    enough = fewest(keeps, by_rate.replicas, most)
    if enough is None:
        setting, held = by_rate.setting, seen[most].held
        e2e = "" if sizing.limits.e2e_s is None else f" and whole requests {held.e2e_s:.3g} s"
        raise InfeasibleError(
            f"SLO: {sizing.limits.words} cannot be met by {setting.target.called} on"
            f" {setting.devices} x {setting.device.name}; the least are"
            f" {held.ttft_s / MILLI:.3g} and {held.tpot_s / MILLI:.3g} ms{e2e}, with"
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
