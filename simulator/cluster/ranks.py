"""How do ranks run whose tokens go to experts of each other?

All of them begin an iteration together and end it together, by tables at once or by asking timers.
A rank that has nothing to do takes part with one token that belongs to no request. Leaves out the
passes without any request with which an engine goes on for a moment before it rests, and that such
passes are prepared ahead: a request for an idle rank joins the next iteration.
"""

from __future__ import annotations

import numpy as np

from hardware_profiles.errors import InputError
from simulator.cluster.service import Progress
from simulator.cluster.stage import Pool, Stage
from simulator.loop.entries import serve_together
from simulator.loop.iteration import ASKED, COUNTED
from simulator.loop.options import Router
from simulator.loop.rank_time import IDLE_TOKENS, RankTimer, TabledTogether
from simulator.loop.ranks import InStep, new_step
from simulator.loop.request import Workload

_ROUTERS = ("round-robin", "least-loaded", "reported-load")
_TURNS = 20_000  # iterations between two reports of progress


class Ranks:
    """Ranks behind one front end.

    Args:
        pool: what they share; its timer or tables know what a rank computes by itself.
        timer: of the ranks.
        workload: the requests; a closed loop counts over all ranks.
        how: which rank takes a request.

    Raises:
        InputError: a router that looks into prompts.
    """

    def __init__(self, pool: Pool, timer: RankTimer, workload: Workload, how: Router) -> None:
        if how not in _ROUTERS:
            raise InputError(
                f"ranks in step take requests by {', '.join(_ROUTERS)}", key="router", value=how
            )
        together = timer.together_s
        tabled = pool.tables is not None and isinstance(together, TabledTogether)
        by_mean_s = by_most_s = np.zeros(2)
        if isinstance(together, TabledTogether):
            by_mean_s, by_most_s = together.by_mean_s, together.by_most_s
        self.timer = timer
        self.stage = Stage(
            pool, workload, timer.ranks, how, asked=not tabled, room=workload.requests
        )
        self.step: InStep = new_step(timer.ranks, by_mean_s, by_most_s)

    @property
    def idle_passes(self) -> int:
        """Passes of ranks that had nothing to do while others had."""
        return int(self.step.state.idle_passes)

    def run(self, progress: Progress | None) -> None:
        """Until nothing happens any more."""
        stage = self.stage
        requests = stage.pool.requests
        while True:
            status = serve_together(
                stage.front, stage.fleet, self.step, requests, stage.rules, _TURNS
            )
            if status == ASKED:
                self.step.state.pass_s = self._pass_s()
            elif status == COUNTED:
                if progress is not None:
                    progress(stage.ended, len(requests))
            else:
                return

    def _pass_s(self) -> float:
        """Seconds of the composed iteration, moving blocks to and from the host included."""
        stage, replicas = self.stage, self.stage.fleet.replicas
        rows = replicas["rows"].tolist()
        own_s = max(
            stage.timers.seconds(stage.fleet, i) + float(replicas["swap_s"][i])
            for i, own in enumerate(rows)
            if own
        )
        return own_s + float(self.timer.together_s([max(own, IDLE_TOKENS) for own in rows]))
