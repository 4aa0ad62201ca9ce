"""What some replicas of a large plan show behind its router, as a row."""

from dataclasses import dataclass
from typing import Annotated

from app.answers.answer import Column, Row
from app.answers.numbers import plain, time_unit
from simulator.results.sampled import LEVEL

Interval = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class SampledFleet(Row):
    """What the requests of a plan's replicas see behind a router that deals them out in turn."""

    replicas: Annotated[int, Column("Of the plan.")]
    simulated_replicas: Annotated[int, Column("That were simulated.")]
    requests: Annotated[int, Column("That were simulated.")]
    ttft_s: Annotated[
        float, Column("Time to first token, as its limit takes it: a percentile, or the mean.")
    ]
    ttft_s_interval: Annotated[Interval, Column("95 %, of the sampling.")]
    tpot_s: Annotated[float, Column("Time per output token, alike.")]
    tpot_s_interval: Annotated[Interval, Column("95 %, of the sampling.")]
    e2e_s: Annotated[float, Column("Time of a whole request, alike.")]
    e2e_s_interval: Annotated[Interval, Column("95 %, of the sampling.")]
    good_ratio: Annotated[float, Column("Requests within all limits.", unit="ratio")]
    good_ratio_interval: Annotated[Interval, Column("95 %, of the sampling.")]
    keeps_limits: Annotated[bool, Column("Whether the limits are kept and no backlog grows.")]

    @property
    def words(self) -> str:
        """What was simulated, and what it shows."""
        times = [("TTFT", self.ttft_s_interval), ("TPOT", self.tpot_s_interval)]
        unit = time_unit([bound for _, bounds in times for bound in bounds])
        shown = [
            f"{name} {unit.show(low)} to {unit.show(high)} {unit.name}"
            for name, (low, high) in times
        ]
        low, high = self.good_ratio_interval
        return (
            f"{self.simulated_replicas} of {plain(self.replicas)} replicas, simulated with requests"
            f" dealt out in turn: {', '.join(shown)}, {low:.1%} to {high:.1%} of the requests within"
            f" the limits ({LEVEL:.0%} intervals of the sampling), which are"
            f" {'kept' if self.keeps_limits else 'missed'}"
        )
