"""Which replica takes a request where the router looks at nothing: the next in turn, or any at random?

Request p of a service goes to replica p mod n, or to one that a hash of p and the seed names. Either
says of every request by itself where it goes, however many there are. Leaves out routers that look at
replicas or prompts (`simulator.loop.front`).

Reference: Steele, Lea and Flood 2014, "Fast splittable pseudorandom number generators", whose
SplitMix64 finishes the hash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Dealer = Literal["round-robin", "random"]
Places = NDArray[np.int64]
_AT_ONCE = 1 << 20  # requests whose replicas are looked up together
_STEP, _FIRST, _SECOND = (
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def dealt_at_random(places: Places, replicas: int, seed: int | Sequence[int]) -> NDArray[np.int32]:
    """The replica of every request, each equally likely.

    Args:
        places: int64[r], where requests stand in the traffic.
        replicas: n >= 1.
        seed: of the draw.

    Returns:
        int32[r], in 0..n-1.

    >>> dealt_at_random(np.arange(8), 3, seed=0).tolist()
    [1, 1, 0, 0, 0, 0, 2, 2]
    """
    key = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
    mixed = places.astype(np.uint64) * _STEP + key
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    mixed ^= mixed >> np.uint64(31)
    dealt: NDArray[np.int32] = (mixed % np.uint64(replicas)).astype(np.int32)
    return dealt


def places_of(
    chosen: Sequence[int], replicas: int, requests: int, router: Dealer, seed: int
) -> Places:
    """Where the requests of some replicas stand in the traffic.

    Args:
        chosen: numbers of the replicas, rising.
        replicas: of the fleet, n.
        requests: of the fleet.
        router: that deals them out.
        seed: of a random one.

    Returns:
        int64[], rising.

    >>> places_of((1, 3), 4, 10, "round-robin", seed=0).tolist()
    [1, 3, 5, 7, 9]
    """
    numbers = np.array(chosen, dtype=np.int64)
    if router == "round-robin":
        turns = np.arange(-(-requests // replicas), dtype=np.int64) * replicas
        places = np.add.outer(turns, numbers).ravel()
        return places[places < requests]
    taken = np.zeros(replicas, dtype=np.bool_)
    taken[numbers] = True
    parts = []
    for first in range(0, requests, _AT_ONCE):
        some = np.arange(first, min(first + _AT_ONCE, requests), dtype=np.int64)
        parts.append(some[taken[dealt_at_random(some, replicas, seed)]])
    return np.concatenate(parts)
