"""A service written for reading: every iteration of every replica is an event of simpy.

Its routers look at the replicas as they are, and everything that happens at a time before a replica
goes on happens before it does.
"""

import bisect
import math

import numpy as np
import simpy

from simulator.cluster.stage import Stage
from simulator.engine import after_prompts, new_pool, prompt_pool
from simulator.loop.dealing import dealt_at_random
from simulator.loop.fleet import with_room
from simulator.loop.front import IMBALANCE, MATCH_RATIO
from simulator.loop.iteration import COMPOSED
from simulator.loop.request import FINISHED
from simulator.loop.state import arrive_with_cache
from tests.simulator.stepping import SteppedReplica


class RoundRobin:
    def __init__(self, replicas, workload, seed):
        self.replicas, self.sent = replicas, 0

    def __call__(self, request):
        self.sent += 1
        return (self.sent - 1) % len(self.replicas)


class Random:
    def __init__(self, replicas, workload, seed):
        self.dealt = dealt_at_random(np.arange(workload.requests), len(replicas), seed)

    def __call__(self, request):
        return int(self.dealt[request])


class LeastLoaded:
    def __init__(self, replicas, workload, seed):
        self.replicas = replicas

    def unfinished(self, i):
        return int(self.replicas[i].state.sent - self.replicas[i].state.ended)

    def __call__(self, request):
        return min(range(len(self.replicas)), key=self.unfinished)


class Prefix(LeastLoaded):
    """Remembers the blocks that every replica was sent."""

    def __init__(self, replicas, workload, seed):
        self.replicas, self.ids = replicas, workload.prefix_ids
        self.cached = [set() for _ in replicas]

    def __call__(self, request):
        ids = self.ids[request] if self.ids is not None else ()
        chosen = super().__call__(request)
        matches = [leading(ids, cached) for cached in self.cached]
        best = max(range(len(matches)), key=lambda i: (matches[i], -self.unfinished(i)))
        balanced = self.unfinished(best) - self.unfinished(chosen) <= IMBALANCE
        if ids and matches[best] > MATCH_RATIO * len(ids) and balanced:
            chosen = best
        self.cached[chosen].update(ids)
        return chosen


def leading(ids, cached):
    """How many of a prompt's blocks, from the first on, a replica was sent before."""
    return next((count for count, block in enumerate(ids) if block not in cached), len(ids))


ROUTERS = {
    "round-robin": RoundRobin,
    "random": Random,
    "least-loaded": LeastLoaded,
    "prefix": Prefix,
}


class Service:
    """Replicas of a scenario behind a router."""

    def __init__(self, scenario):
        self.environment = simpy.Environment()
        self.workload, apart = scenario.workload, scenario.disaggregation
        self.disaggregation = apart
        self.ready_s, self._ended, self._wake, self._freed = [], 0, {}, None
        w, generator = self.workload, np.random.default_rng(scenario.seed)
        self._think_s = np.broadcast_to(w.think_s, w.requests).tolist()
        self._users = w.requests if w.users is None else w.users
        route = ROUTERS[scenario.router]
        pool = new_pool(scenario if apart is None else after_prompts(scenario), generator)
        self.stages = [stage_of(pool, w, scenario.replicas)]
        self.decoders = replicas_of(self.stages[0])
        self.prefill_router = self.decode_router = route(self.decoders, w, scenario.seed)
        self.prefillers = []
        if apart is not None:
            prompts = prompt_pool(scenario, generator)
            self.stages.append(stage_of(prompts, w, apart.prefill_replicas))
            self.prefillers = replicas_of(self.stages[1])
            self.prefill_router = route(self.prefillers, w, (scenario.seed, 1))

    def run(self):
        """Until nothing happens any more."""
        for replica in (*self.decoders, *self.prefillers):
            self.environment.process(self._serve(replica))
        self.environment.process(self._arrive())
        self.environment.run()

    def _arrive(self):
        """Send every request at its time, as far as the closed loop lets it."""
        first, choose = (
            (self.prefillers, self.prefill_router)
            if self.prefillers
            else (self.decoders, self.decode_router)
        )
        for request, listed_s in enumerate(self.workload.arrival_s.tolist()):
            while True:
                at_s = listed_s
                if request >= self._users:  # whoever has thought first, of those who have an answer
                    at_s = max(listed_s, self.ready_s[0]) if self.ready_s else math.inf
                if at_s <= self.environment.now:
                    break
                self._freed = self.environment.event()
                due = [self._freed]
                if at_s < math.inf:
                    due.append(self.environment.timeout(at_s - self.environment.now))
                yield self.environment.any_of(due)
            if request >= self._users:
                self.ready_s.pop(0)
            self._hand_over(first[choose(request)], request, at_s)

    def _hand_over(self, replica, request, at_s):
        replica.send(request, at_s)
        waiting = self._wake.pop(id(replica), None)
        if waiting is not None:
            waiting.succeed()

    def _serve(self, replica):
        """Iterations of one engine, one event each."""
        state = replica.state
        while True:
            yield self.environment.timeout(0)  # whatever else happens now comes first
            before = int(state.ended)
            now = self.environment.now
            status = replica.begin(now + 1e-12 * (1.0 + now))
            self._note_ends(replica, before)
            if status != COMPOSED:
                if state.sent == state.taken:
                    self._wake[id(replica)] = self.environment.event()
                    yield self._wake[id(replica)]
                else:
                    coming = replica.buffers.queue["inbox"][state.taken]
                    ready_s = float(replica.stage.pool.requests["ready_s"][coming])
                    yield self.environment.timeout(max(ready_s - now, 0.0))
                continue
            yield self.environment.timeout(
                max(float(replica.state.end_s) - self.environment.now, 0.0)
            )
            before = int(state.ended)
            replica.settle()
            self._note_ends(replica, before)

    def _note_ends(self, replica, before):
        """Requests that a replica is done with: the service is too, or another replica goes on with
        them.
        """
        requests = replica.stage.pool.requests
        for request in replica.buffers.queue["over"][before : replica.state.ended].tolist():
            goes_on = replica.stage is not self.stages[0] and requests["phase"][request] == FINISHED
            if goes_on and self.workload.output_tokens[request] > 1:
                self.environment.process(self._transfer(request, requests))
                continue
            bisect.insort(self.ready_s, float(replica.state.clock_s) + self._think_s[self._ended])
            self._ended += 1
            if self._freed is not None and not self._freed.triggered:
                self._freed.succeed()

    def _transfer(self, request, prompts):
        """Move a prompt's cache to the replica that will decode it."""
        transfer = self.disaggregation
        seconds = transfer.transfer_latency_s + transfer.transfer_token_s * int(
            prompts["prompt"][request]
        )
        yield self.environment.timeout(seconds)
        replica = self.decoders[self.decode_router(request)]
        requests, at_s = replica.stage.pool.requests, float(prompts["last_s"][request]) + seconds
        arrive_with_cache(requests[request], prompts[request])
        if transfer.delivers == "decode":
            requests["first_s"][request] = requests["delivered_s"][request] = at_s
        self._hand_over(replica, request, at_s)


def stage_of(pool, workload, replicas):
    """A stage whose front end is never asked."""
    stage = Stage(pool, workload, replicas, "round-robin")
    stage.fleet = with_room(stage.fleet, workload.requests)
    return stage


def replicas_of(stage):
    return [SteppedReplica(stage, index) for index in range(stage.replicas)]
