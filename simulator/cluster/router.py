"""Which replica takes a request?

Round robin, the one with fewest requests, the one that has seen most of the prompt, or the one that said so of itself
a while ago.

Reference: Zheng et al. 2023, "SGLang" (arXiv:2312.07104), section 3; its router's thresholds for prefix-aware routing;
vLLM, vllm/v1/engine/core_client.py `DPLBAsyncMPClient` and coordinator.py for counts that are reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hardware_profiles.errors import UnknownNameError
from simulator.cluster.replica import SimulatedReplica
from simulator.loop.options import ROUTERS, Router
from simulator.loop.request import Workload

MATCH_RATIO = 0.5  # share of a prompt's blocks that must have been seen for it to count
IMBALANCE = 32  # requests by which a replica may lead the least loaded one before prefixes count no more
REPORT_S = 0.1  # between two messages that tell the front end how many requests wait and run
WAITING_WEIGHT = 4  # of a request that waits over one that runs


class Choose(Protocol):
    """Picks the replica of a request, and remembers what it has to."""

    def __call__(self, request: int, now: float) -> int:
        """Index of the replica for a request of the workload that is sent `now`."""


class Reports(Protocol):
    """What replicas say of themselves."""

    def reported(self, latest_s: float) -> Sequence[tuple[int, int]]:
        """Waiting and running requests of every replica, as the last one of them knew by `latest_s`."""


def router(
    name: Router, replicas: Sequence[SimulatedReplica], workload: Workload, reports: Reports | None = None
) -> Choose:
    """A router over replicas.

    Args:
        name: how it chooses.
        replicas: to choose among.
        workload: the requests.
        reports: of the replicas; None: they are asked when a request comes.

    Raises:
        UnknownNameError: no such router.
    """
    if name == "round-robin":
        return _RoundRobin(len(replicas))
    if name == "least-loaded":
        return lambda request, now: least_loaded(replicas)
    if name == "prefix":
        return _Prefix(replicas, workload)
    if name == "reported-load":
        return _ReportedLoad(_Asked(replicas) if reports is None else reports)
    raise UnknownNameError("router", name, list(ROUTERS))


def least_loaded(replicas: Sequence[SimulatedReplica]) -> int:
    """The first of those with fewest requests that have not ended."""
    return min(range(len(replicas)), key=lambda i: replicas[i].unfinished)


class _RoundRobin:
    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self.sent = 0

    def __call__(self, request: int, now: float) -> int:
        self.sent += 1
        return (self.sent - 1) % self.replicas


class _Asked:
    """Replicas that nobody has to wait for."""

    def __init__(self, replicas: Sequence[SimulatedReplica]) -> None:
        self.replicas = replicas

    def reported(self, latest_s: float) -> Sequence[tuple[int, int]]:
        return [(int(each.state.queued), int(each.state.running)) for each in self.replicas]


class _ReportedLoad:
    """Counts come every tenth of a second; until then each request sent counts as one that waits."""

    def __init__(self, reports: Reports) -> None:
        self.reports = reports
        self.heard_s = 0.0
        self.counts = [list(each) for each in reports.reported(0.0)]

    def __call__(self, request: int, now: float) -> int:
        heard_s = int(now / REPORT_S) * REPORT_S
        if heard_s > self.heard_s:
            self.heard_s = heard_s
            self.counts = [list(each) for each in self.reports.reported(heard_s)]
        chosen = min(range(len(self.counts)), key=lambda i: WAITING_WEIGHT * self.counts[i][0] + self.counts[i][1])
        self.counts[chosen][0] += 1
        return chosen


class _Prefix:
    """Remembers the blocks that every replica was sent, without ever forgetting any."""

    def __init__(self, replicas: Sequence[SimulatedReplica], workload: Workload) -> None:
        self.replicas = replicas
        self.ids = workload.prefix_ids
        self.seen: list[set[int]] = [set() for _ in replicas]

    def __call__(self, request: int, now: float) -> int:
        ids = self.ids[request] if self.ids is not None else ()
        chosen = least_loaded(self.replicas)
        matches = [_leading(ids, seen) for seen in self.seen]
        best = max(range(len(matches)), key=lambda i: (matches[i], -self.replicas[i].unfinished))
        balanced = self.replicas[best].unfinished - self.replicas[chosen].unfinished <= IMBALANCE
        if ids and matches[best] > MATCH_RATIO * len(ids) and balanced:
            chosen = best
        self.seen[chosen].update(ids)
        return chosen


def _leading(ids: Sequence[int], seen: set[int]) -> int:
    for count, each in enumerate(ids):
        if each not in seen:
            return count
    return len(ids)
