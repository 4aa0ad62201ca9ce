"""Which replicas of a large fleet are simulated, and which of its requests are theirs?

Dealt out in turn, request p of a fleet of n goes to replica p mod n, whatever becomes of the others:
a few replicas can be simulated whole, and their requests follow from where they stand in the traffic.
Leaves out when these arrive (`simulator.scenario.arrivals`) and what a sample says of the fleet
(`simulator.results.sampled`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicaSample:
    """Some replicas of a fleet, all equally likely to be among them.

    Args:
        replicas: of the fleet, n.
        requests: of the fleet, at least one for every replica.
        chosen: numbers of the replicas in 0..n-1, rising.

    Raises:
        InputError: fewer requests than replicas.
    """

    replicas: int
    requests: int
    chosen: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.requests < self.replicas:
            rule = f"a fleet of {self.replicas} replicas is sampled from as many requests, or more"
            raise InputError(rule, key="requests.count", value=self.requests)

    @property
    def places(self) -> NDArray[np.int64]:
        """Where the requests of the chosen replicas stand among all of the fleet, rising.

        >>> ReplicaSample(replicas=4, requests=10, chosen=(1, 3)).places.tolist()
        [1, 3, 5, 7, 9]
        """
        turns = np.arange(-(-self.requests // self.replicas), dtype=np.int64) * self.replicas
        places = np.add.outer(turns, np.array(self.chosen, dtype=np.int64)).ravel()
        return places[places < self.requests]

    @property
    def remaining_ratio(self) -> float:
        """Share of the fleet that is not simulated."""
        return 1.0 - len(self.chosen) / self.replicas


def drawn_sample(replicas: int, size: int, requests: int, seed: int) -> ReplicaSample:
    """A sample of a fleet, drawn without replacement.

    Args:
        replicas: of the fleet.
        size: replicas of the sample.
        requests: of the fleet.
        seed: of the draw.

    Raises:
        InputError: fewer replicas, or fewer requests, than are needed.
    """
    if size > replicas:
        rule = f"the fleet has {replicas} replicas"
        raise InputError(rule, key="sample_replicas", value=size)
    drawn = np.random.default_rng((seed, replicas)).choice(replicas, size, replace=False)
    return ReplicaSample(replicas=replicas, requests=requests, chosen=tuple(sorted(drawn.tolist())))
