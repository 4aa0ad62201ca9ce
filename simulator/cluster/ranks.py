"""How do ranks run whose tokens go to experts of each other?

All of them begin an iteration together and end it together: each computes its own attention and dense layers, the
slowest decides, and the expert layers are computed for the tokens of all. A rank that has nothing to do takes part
with one token that nobody asked for. Leaves out where requests come from (`simulator.cluster.environment`), and the
passes without any request that an engine goes on with for a moment before it rests.

Reference: vLLM, vllm/v1/engine/core.py, `DPEngineCoreProc`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.cluster.replica import SimulatedReplica
from simulator.loop.rank_time import IDLE_TOKENS, Together

Counts = tuple[tuple[int, int], ...]  # waiting and running requests of every rank


class Ranks:
    """Ranks that begin every iteration together.

    Args:
        replicas: the ranks; their pool's timer or tables know what a rank computes by itself.
        together_s: seconds that all of them spend together, by the query tokens of every rank.

    Attributes:
        reports: when an iteration ended, and what waited and ran then; the latest last.
        idle_passes: of ranks that had nothing to do while others had.
    """

    def __init__(self, replicas: Sequence[SimulatedReplica], together_s: Together) -> None:
        self.replicas = replicas
        self.together_s = together_s
        self.reports: list[tuple[float, Counts]] = [(0.0, self._counts())]
        self.idle_passes = 0
        self._began_s = 0.0
        self._busy: list[SimulatedReplica] = []

    def begin(self, now: float) -> float | None:
        """Begin an iteration of everybody who has something to do; None: nobody has.

        Args:
            now: not before the end of the iteration before.

        Returns:
            Its seconds.
        """
        for replica in self.replicas:
            if replica.clock_s < now:
                replica.wait_until(now, self._began_s)
        until = np.nextafter(now, np.inf)
        self._busy = [replica for replica in self.replicas if replica.compose(until)]
        if not self._busy:
            return None
        rows = [int(replica.state.rows) if replica in self._busy else IDLE_TOKENS for replica in self.replicas]
        seconds = max(replica.pass_s() for replica in self._busy) + self.together_s(rows)
        for replica in self._busy:
            replica.start(seconds)
        self.idle_passes += len(self.replicas) - len(self._busy)
        self._began_s = now
        return seconds

    def settle(self) -> None:
        """End the iteration under way."""
        for replica in self._busy:
            replica.settle()
        counts = self._counts()
        if counts != self.reports[-1][1]:
            self.reports.append((self._busy[0].clock_s, counts))

    def next_s(self) -> float:
        """When the next request that was sent to any of them can start; infinity: none."""
        return min(replica.next_arrival_s() for replica in self.replicas)

    def reported(self, latest_s: float) -> Counts:
        """What the ranks last said of themselves, by `latest_s`; older reports are forgotten."""
        while len(self.reports) > 1 and self.reports[1][0] <= latest_s:
            self.reports.pop(0)
        return self.reports[0][1]

    def _counts(self) -> Counts:
        return tuple((int(each.state.queued), int(each.state.running)) for each in self.replicas)
