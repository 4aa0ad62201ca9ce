"""How do the stages of a service feed each other?

Prompts that are computed on replicas of their own are sent on once their cache has been moved. In
an open loop nothing comes back: the second stage runs when the first has ended. In a closed loop
the stage where something may end first runs until it does. Leaves out what happens in a stage
(`simulator.cluster.stage`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from simulator.cluster.stage import Stage
from simulator.loop.front import next_sent_s
from simulator.loop.options import Disaggregation
from simulator.loop.request import FINISHED, Workload
from simulator.loop.state import arrive_with_cache

Progress = Callable[[int, int], None]


class Disaggregated:
    """Replicas for prompts, and replicas that decode.

    Args:
        workload: the requests.
        prompts: where all of them are sent.
        decoders: where nothing is listed yet.
        joined: how the two are joined.
    """

    def __init__(
        self, workload: Workload, prompts: Stage, decoders: Stage, joined: Disaggregation
    ) -> None:
        self.workload, self.joined = workload, joined
        self.prompts, self.decoders = prompts, decoders

    def run(self, progress: Progress | None) -> None:
        """Until nothing happens any more."""
        count = self.workload.requests

        def report(_: int) -> None:
            if progress is not None:
                progress((self.prompts.ended + self.decoders.ended) // 2, count)

        if self.workload.users is not None:
            self._run_closed(report)
            return
        self.prompts.run(np.inf, report)
        done = self.prompts.pool.requests
        goes_on = (done["phase"] == FINISHED) & (self.workload.output_tokens > 1)
        moving = np.nonzero(goes_on)[0]
        arrives_s = self._arrive(moving)
        order = np.lexsort((done["last_s"][moving], arrives_s))
        self.decoders.list_all(moving[order], arrives_s[order])
        self.decoders.run(np.inf, report)

    def _arrive(self, moved: NDArray[np.int64]) -> NDArray[np.float64]:
        """Let the caches of prompts that have ended reach the replicas that decode; when each
        does.
        """
        done, requests = self.prompts.pool.requests, self.decoders.pool.requests
        joined = self.joined
        moving_s = joined.transfer_latency_s + joined.transfer_token_s * done["prompt"][moved]
        arrives_s = np.asarray(done["last_s"][moved] + moving_s, dtype=np.float64)
        arrive_with_cache(requests, done, moved)
        if joined.delivers == "decode":
            requests["first_s"][moved] = requests["delivered_s"][moved] = arrives_s
        return arrives_s

    def _run_closed(self, report: Callable[[int], None]) -> None:
        """Stages in turn, each until something ends or the other comes first."""
        while True:
            first_s, second_s = (_next_s(stage) for stage in (self.prompts, self.decoders))
            if min(first_s, second_s) == np.inf:
                return
            if first_s <= second_s:
                self.prompts.run(np.nextafter(second_s, np.inf), report)
            else:
                self.decoders.run(first_s, report)
            self._hand_over()

    def _hand_over(self) -> None:
        """Send on what the prompts' stage has ended, and free the users of what is over."""
        over: list[tuple[float, int]] = []
        for stage in (self.prompts, self.decoders):
            front, requests = stage.front, stage.pool.requests
            for request in front.ended[stage.handed : front.state.ended].tolist():
                ended_s = float(requests["last_s"][request])
                goes_on = stage is self.prompts and requests["phase"][request] == FINISHED
                if goes_on and self.workload.output_tokens[request] > 1:
                    arrives_s = self._arrive(np.array([request]))
                    self.decoders.list_next(request, float(arrives_s[0]))
                else:
                    over.append((ended_s, request))
            stage.handed = int(front.state.ended)
        users = self.prompts.front
        for ended_s, _ in sorted(over):
            users.freed_s[users.state.freed] = ended_s
            users.state.freed += 1


def _next_s(stage: Stage) -> float:
    """When something may end in a stage, or is sent; infinity: never, as far as is known."""
    return min(float(stage.fleet.due_s.min()), float(next_sent_s(stage.front, stage.pool.requests)))
