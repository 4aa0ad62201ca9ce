"""Which replica takes a request?

Round robin, the one with fewest requests, or the one that has seen most of the prompt. Leaves out
routers that look into queues in more detail.

Reference: Zheng et al. 2023, "SGLang" (arXiv:2312.07104), section 3; its router's thresholds for
prefix-aware routing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hardware_profiles.errors import UnknownNameError
from simulator.cluster.replica import SimulatedReplica
from simulator.loop.options import ROUTERS, Router
from simulator.loop.request import Workload

MATCH_RATIO = 0.5  # share of a prompt's blocks that must have been seen for it to count
# requests by which a replica may lead the least loaded one before prefixes count no more
IMBALANCE = 32


class Choose(Protocol):
    """Picks the replica of a request, and remembers what it has to."""

    def __call__(self, request: int) -> int:
        """Index of the replica for a request of the workload."""


def router(name: Router, replicas: Sequence[SimulatedReplica], workload: Workload) -> Choose:
    """A router over replicas.

    Args:
        name: how it chooses.
        replicas: to choose among.
        workload: the requests.

    Raises:
        UnknownNameError: no such router.
    """
    if name == "round-robin":
        return _RoundRobin(len(replicas))
    if name == "least-loaded":
        return lambda request: least_loaded(replicas)
    if name == "prefix":
        return _Prefix(replicas, workload)
    raise UnknownNameError("router", name, list(ROUTERS))


def least_loaded(replicas: Sequence[SimulatedReplica]) -> int:
    """The first of those with fewest requests that have not ended."""
    return min(range(len(replicas)), key=lambda i: replicas[i].unfinished)


class _RoundRobin:
    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self.sent = 0

    def __call__(self, request: int) -> int:
        self.sent += 1
        return (self.sent - 1) % self.replicas


class _Prefix:
    """Remembers the blocks that every replica was sent, without ever forgetting any."""

    def __init__(self, replicas: Sequence[SimulatedReplica], workload: Workload) -> None:
        self.replicas = replicas
        self.ids = workload.prefix_ids
        self.cached: list[set[int]] = [set() for _ in replicas]

    def __call__(self, request: int) -> int:
        ids = self.ids[request] if self.ids is not None else ()
        chosen = least_loaded(self.replicas)
        matches = [_leading(ids, cached) for cached in self.cached]
        best = max(range(len(matches)), key=lambda i: (matches[i], -self.replicas[i].unfinished))
        balanced = self.replicas[best].unfinished - self.replicas[chosen].unfinished <= IMBALANCE
        if ids and matches[best] > MATCH_RATIO * len(ids) and balanced:
            chosen = best
        self.cached[chosen].update(ids)
        return chosen


def _leading(ids: Sequence[int], cached: set[int]) -> int:
    """How many of a prompt's blocks, from the first on, a replica was sent before."""
    for count, block in enumerate(ids):
        if block not in cached:
            return count
    return len(ids)
