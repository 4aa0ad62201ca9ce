"""Who acts when? Arrivals, a router, replicas and transfers as simpy processes.

Every iteration of an engine is one event. Where nothing that happens later can change what a
replica is sent, it is sent everything at once and runs by itself. Leaves out what an engine does
(`simulator.cluster.replica`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import numpy as np
import simpy

from simulator.cluster.replica import Pool, SimulatedReplica
from simulator.cluster.router import Choose, router
from simulator.loop.iteration import COMPOSED, COUNTED
from simulator.loop.options import Disaggregation, Router
from simulator.loop.request import FINISHED, Workload
from simulator.loop.state import Requests, arrive_with_cache

Progress = Callable[[int, int], None]
Events = Generator[simpy.Event, None, None]
_TURNS = 20_000  # iterations between two reports of progress


def run_independently(
    replicas: Sequence[SimulatedReplica], workload: Workload, progress: Progress | None
) -> None:
    """Deal requests out in turn and let every replica run by itself."""
    for index, replica in enumerate(replicas):
        replica.send(np.arange(index, workload.requests, len(replicas), dtype=np.int32))
    for index, replica in enumerate(replicas):
        before = sum(int(other.state.ended) for other in replicas[:index])
        while replica.advance(np.inf, _TURNS) == COUNTED:
            if progress is not None:
                progress(before + int(replica.state.ended), workload.requests)


class Service:
    """Replicas behind a router, in a simpy environment.

    Args:
        workload: the requests; a closed loop counts over all replicas.
        decoders: the pool of replicas that decode, and how many of them.
        how: the router of both stages.
        prompts: the pool that computes prompts, where other replicas compute them.
        disaggregation: how the two stages are joined.
        progress: called with the requests that have ended, and all.
    """

    def __init__(
        self,
        workload: Workload,
        decoders: tuple[Pool, int],
        how: Router,
        *,
        prompts: Pool | None = None,
        disaggregation: Disaggregation | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.environment = simpy.Environment()
        self.workload = workload
        self.disaggregation = disaggregation
        self.progress = progress
        self.ends_s: list[float] = []
        self._wake: dict[int, simpy.Event] = {}
        self._freed: simpy.Event | None = None
        self._users = workload.requests if workload.users is None else workload.users
        self.decoders = self._stage(*decoders)
        self.decode_router = router(how, self.decoders, workload)
        self.prefillers: list[SimulatedReplica] = []
        self.prefill_router: Choose = self.decode_router
        if prompts is not None and disaggregation is not None:
            self.prefillers = self._stage(prompts, disaggregation.prefill_replicas)
            self.prefill_router = router(how, self.prefillers, workload)

    def run(self) -> None:
        """Until nothing happens any more."""
        for replica in (*self.decoders, *self.prefillers):
            self.environment.process(self._serve(replica))
        self.environment.process(self._arrive())
        self.environment.run()

    def _stage(self, pool: Pool, count: int) -> list[SimulatedReplica]:
        return [SimulatedReplica(pool, index, self.workload.requests) for index in range(count)]

    def _arrive(self) -> Events:
        """Send every request at its time, as far as the closed loop lets it."""
        first, choose = (
            (self.prefillers, self.prefill_router)
            if self.prefillers
            else (self.decoders, self.decode_router)
        )
        for request, listed_s in enumerate(self.workload.arrival_s.tolist()):
            while request >= self._users + len(self.ends_s):
                self._freed = self.environment.event()
                yield self._freed
            at_s = listed_s
            if request >= self._users:
                at_s = max(listed_s, self.ends_s[request - self._users] + self.workload.think_s)
            if at_s > self.environment.now:
                yield self.environment.timeout(at_s - self.environment.now)
            self._hand_over(first[choose(request)], request, at_s)

    def _hand_over(self, replica: SimulatedReplica, request: int, at_s: float) -> None:
        requests = replica.pool.requests
        requests["sent_s"][request] = requests["ready_s"][request] = at_s
        replica.send([request])
        waiting = self._wake.pop(id(replica), None)
        if waiting is not None:
            waiting.succeed()

    def _serve(self, replica: SimulatedReplica) -> Events:
        """Iterations of one engine, one event each."""
        state = replica.state
        while True:
            yield self.environment.timeout(0)  # whatever else happens now comes first
            before = int(state.ended)
            status = replica.begin()
            self._note_ends(replica, before)
            if status != COMPOSED:
                if state.sent == state.taken:
                    self._wake[id(replica)] = self.environment.event()
                    yield self._wake[id(replica)]
                continue
            yield self.environment.timeout(max(replica.end_s - self.environment.now, 0.0))
            before = int(state.ended)
            replica.settle()
            self._note_ends(replica, before)

    def _note_ends(self, replica: SimulatedReplica, before: int) -> None:
        """Requests that a replica is done with: the service is too, or another replica goes on with
        them.
        """
        requests = replica.pool.requests
        for request in replica.buffers.queue["over"][before : replica.state.ended].tolist():
            goes_on = (
                replica.pool is not self.decoders[0].pool and requests["phase"][request] == FINISHED
            )
            if goes_on and self.workload.output_tokens[request] > 1:
                self.environment.process(self._transfer(request, requests))
                continue
            self.ends_s.append(replica.clock_s)
            if self._freed is not None and not self._freed.triggered:
                self._freed.succeed()
            if self.progress is not None:
                self.progress(len(self.ends_s), self.workload.requests)

    def _transfer(self, request: int, prompts: Requests) -> Events:
        """Move a prompt's cache to the replica that will decode it."""
        transfer = self.disaggregation
        assert transfer is not None
        seconds = transfer.transfer_latency_s + transfer.transfer_token_s * int(
            prompts["prompt"][request]
        )
        yield self.environment.timeout(seconds)
        replica = self.decoders[self.decode_router(request)]
        requests, at_s = replica.pool.requests, float(prompts["last_s"][request]) + seconds
        arrive_with_cache(requests, prompts, request)
        if transfer.delivers == "decode":
            requests["first_s"][request] = requests["delivered_s"][request] = at_s
        self._hand_over(replica, request, at_s)
