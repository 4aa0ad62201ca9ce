"""How do the stages of a service feed each other?

Prompts that are computed on replicas of their own are sent on once their cache has been moved. In
an open loop nothing comes back: the second stage runs when the first has ended. In a closed loop
they take turns (`simulator.loop.stages`). Leaves out what happens in a stage
(`simulator.cluster.stage`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simulator.cluster.stage import TURNS, Stage
from simulator.loop.entries import arrive, serve_in_turn
from simulator.loop.iteration import ASKED
from simulator.loop.options import Disaggregation
from simulator.loop.request import FINISHED, Workload
from simulator.loop.stages import PROMPTS, new_link

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
        self.workload = workload
        self.prompts, self.decoders = prompts, decoders
        self.link = new_link(
            joined.transfer_latency_s,
            joined.transfer_token_s,
            deferred=joined.delivers == "decode",
        )

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
        arrives_s = np.zeros(moving.size)
        arrive(self.link, self.decoders.pool.requests, done, moving, arrives_s)
        order = np.lexsort((done["last_s"][moving], arrives_s))
        self.decoders.list_all(moving[order], arrives_s[order])
        self.decoders.run(np.inf, report)

    def _run_closed(self, report: Callable[[int], None]) -> None:
        """Stages in turn, each until something ends or the other comes first."""
        turns, goes_on = 0, True
        while goes_on:
            status, index = serve_in_turn(self.prompts.state, self.decoders.state, self.link, TURNS)
            stage = self.prompts if self.link.turn == PROMPTS else self.decoders
            goes_on = stage.answer(status, index)
            turns += 1
            if status != ASKED or turns % TURNS == 0:
                report(0)
