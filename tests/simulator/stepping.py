"""One engine of a scenario, iteration by iteration, in the Python that its machine code is made
from."""

import numpy as np

from simulator.cluster.stage import Stage
from simulator.engine import new_pool
from simulator.loop import iteration
from simulator.loop.fleet import buffers_of, replica_of
from simulator.loop.iteration import COMPOSED
from simulator.loop.scheduling.waiting import receive


class SteppedReplica:
    """A replica of a stage that has sent it nothing."""

    def __init__(self, stage, index=0):
        self.stage, self.index = stage, index
        self.state, self.buffers = replica_of(stage.fleet, index), buffers_of(stage.fleet, index)
        rules, requests = stage.rules, stage.pool.requests
        self._shared = self.state, self.buffers, requests, rules.prefixes, rules.limits
        self._walk = rules.d, rules.steps, rules.places, rules.tables
        self._timing = rules.t, rules.seconds

    def send(self, request, at_s):
        """Send it a request."""
        requests, limits = self.stage.pool.requests, self.stage.rules.limits
        requests["sent_s"][request] = requests["ready_s"][request] = at_s
        requests["replica"][request] = self.index
        self.buffers.queue["inbox"][self.state.sent] = request
        self.state.sent += 1
        if limits.intake_s + limits.intake_token_s > 0.0:
            receive(self.state, requests[request], limits)

    def begin(self, until=np.inf):
        """Begin the next iteration; a status of `simulator.loop.iteration`."""
        d, _, places, tables = self._walk
        with np.errstate(all="ignore"):
            status = iteration.begin(*self._shared, d, places, tables, *self._timing, until)
            if status == COMPOSED:
                seconds = self.stage.timers.seconds(self.stage.fleet, self.index)
                iteration.start(self.state, self.buffers.counts, self.stage.rules.limits, seconds)
        return status

    def settle(self):
        """End the iteration under way."""
        with np.errstate(all="ignore"):
            iteration.settle(*self._shared, *self._walk)


def alone(scenario):
    """A replica that was sent all requests of a scenario at their times, and its pool."""
    pool = new_pool(scenario, np.random.default_rng(scenario.seed))
    stage = Stage(pool, scenario.workload, 1, "round-robin")
    replica = SteppedReplica(stage)
    for request, at_s in enumerate(scenario.workload.arrival_s.tolist()):
        replica.send(request, at_s)
    return replica, pool
