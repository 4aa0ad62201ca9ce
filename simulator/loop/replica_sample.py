"""Which replicas of a large fleet are simulated, and which of its requests are theirs?

Where the router looks at nothing (`simulator.loop.dealing`), a replica takes its requests whatever
becomes of the others: a few replicas can be simulated whole. Leaves out when requests arrive
(`simulator.scenario.arrivals`) and what a sample says of the fleet (`simulator.results.sampled`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from simulator.loop.dealing import Dealer, Places, dealt_at_random, places_of


@dataclass(frozen=True, kw_only=True, slots=True)
class ReplicaSample:
    """Some replicas of a fleet, all equally likely to be among them.

    Args:
        replicas: of the fleet, n.
        requests: of the fleet, at least one for every replica.
        chosen: numbers of the replicas in 0..n-1, rising.
        router: that deals requests out.
        seed: of a random router.

    Raises:
        InputError: fewer requests than replicas.
    """

    replicas: int
    requests: int
    chosen: tuple[int, ...]
    router: Dealer = "round-robin"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.requests < self.replicas:
            rule = f"a fleet of {self.replicas} replicas is sampled from as many requests, or more"
            raise InputError(rule, key="requests.count", value=self.requests)

    @property
    def places(self) -> Places:
        """int64[r], where the requests of the chosen replicas stand among all of the fleet, rising."""
        return _places(self)

    @property
    def owners(self) -> NDArray[np.int32]:
        """int32[r], which of the chosen replicas takes each of them, counted from 0."""
        numbers = self.places % self.replicas
        if self.router == "random":
            numbers = dealt_at_random(self.places, self.replicas, self.seed).astype(np.int64)
        return np.searchsorted(np.array(self.chosen), numbers).astype(np.int32)

    @property
    def remaining_ratio(self) -> float:
        """Share of the fleet that is not simulated."""
        return 1.0 - len(self.chosen) / self.replicas


@lru_cache(2)
def _places(sample: ReplicaSample) -> Places:
    """Kept, since a random router is asked about every request of the fleet."""
    places = places_of(sample.chosen, sample.replicas, sample.requests, sample.router, sample.seed)
    places.setflags(write=False)
    return places


def drawn_sample(
    replicas: int, size: int, requests: int, seed: int, router: Dealer = "round-robin"
) -> ReplicaSample:
    """A sample of a fleet, drawn without replacement.

    Args:
        replicas: of the fleet.
        size: replicas of the sample.
        requests: of the fleet.
        seed: of the draw, and of a random router.
        router: that deals requests out.

    Raises:
        InputError: fewer replicas, or fewer requests, than are needed.
    """
    if size > replicas:
        rule = f"the fleet has {replicas} replicas"
        raise InputError(rule, key="sample_replicas", value=size)
    drawn = np.random.default_rng((seed, replicas)).choice(replicas, size, replace=False)
    return ReplicaSample(
        replicas=replicas,
        requests=requests,
        chosen=tuple(sorted(drawn.tolist())),
        router=router,
        seed=seed,
    )
