"""How do ranks run whose tokens go to experts of each other?

All of them begin an iteration together and end it together, by tables at once or by asking timers.
A rank that has nothing to do takes part with one token that belongs to no request. Leaves out the
passes without any request with which an engine goes on for a moment before it rests, and that such
passes are prepared ahead: a request for an idle rank joins the next iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hardware_profiles.errors import InputError
from simulator.cluster.replica import Pool, SimulatedReplica
from simulator.loop.entries import (
    advance_together,
    begin_together,
    settle_together,
    start_together,
)
from simulator.loop.iteration import COUNTED
from simulator.loop.options import Router
from simulator.loop.rank_time import IDLE_TOKENS, RankTimer, TabledTogether
from simulator.loop.ranks import (
    FEWEST,
    IN_TURN,
    REPORTED,
    new_front,
)
from simulator.loop.request import Workload

_ROUTERS = {"round-robin": IN_TURN, "least-loaded": FEWEST, "reported-load": REPORTED}
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
        self.pool, self.timer = pool, timer
        self.replicas = [
            SimulatedReplica(pool, index, workload.requests) for index in range(timer.ranks)
        ]
        self.front = new_front(
            workload.requests,
            timer.ranks,
            users=workload.users,
            think_s=workload.think_s,
            router=_ROUTERS[how],
        )
        self._all: tuple[Any, ...] = (
            self.front,
            tuple(replica.state for replica in self.replicas),
            tuple(replica.buffers for replica in self.replicas),
        )

    @property
    def idle_passes(self) -> int:
        """Passes of ranks that had nothing to do while others had."""
        return int(self.front.numbers[2])

    def run(self, progress: Callable[[int, int], None] | None) -> None:
        """Until nothing happens any more."""
        together, first = self.timer.together_s, self.replicas[0]
        tabled = self.pool.tables is not None and isinstance(together, TabledTogether)
        while True:
            if tabled and isinstance(together, TabledTogether):
                going = advance_together(
                    *self._all,
                    *first.to_settle[2:],
                    *first.timing,
                    together.by_mean_s,
                    together.by_most_s,
                    _TURNS,
                )
                going = going == COUNTED
            else:
                going = all(self._iteration() for _ in range(_TURNS))
            if not going:
                return
            if progress is not None:
                progress(int(self.front.numbers[1]), len(self.front.ends_s))

    def _iteration(self) -> bool:
        """One iteration by timers that are asked; False: nothing is left."""
        first = self.replicas[0]
        if not begin_together(*self._all, *first.to_begin[2:]):
            return False
        rows = [int(replica.state.rows) for replica in self.replicas]
        own_s = max(
            replica.pass_s() for replica, own in zip(self.replicas, rows, strict=True) if own
        )
        seconds = own_s + float(self.timer.together_s([max(own, IDLE_TOKENS) for own in rows]))
        start_together(*self._all, first.limits, seconds)
        settle_together(*self._all, *first.to_settle[2:], seconds)
        return True
