"""What was simulated: one case with its result, and one load with its metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulator.results.metrics import SimulationResult


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SimulationCase:
    """One simulation among those of a page.

    Args:
        name: label of the case.
        result: of the simulation.
        metrics: its summary, of the steady part where it has one.
    """

    name: str
    result: SimulationResult
    metrics: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class LoadPoint:
    """A case at one load.

    Args:
        name: of the case.
        rate_per_s: requests per second that arrive.
        metrics: summary of the simulation, of the steady part where it has one.
    """

    name: str
    rate_per_s: float
    metrics: Mapping[str, Any]
