"""One stage of a service: replicas of a pool behind a front end, as the stages around it see them.

Leaves out what stages have to do with each other (`simulator.cluster.service`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.cluster.asked import AskedTimers
from simulator.loop.compiled import laid_out
from simulator.loop.decoders.lengths import new_memory
from simulator.loop.decoders.record import BLOCK, PLAIN, SPLIT, Drafts, walk_of
from simulator.loop.entries import serve, start
from simulator.loop.fleet import Fleet, Rules, new_fleet, part_of, replica_of, with_room
from simulator.loop.front import ROUTES, Front, feeds_back, looks, new_front
from simulator.loop.iteration import ASKED, COUNTED
from simulator.loop.options import Router
from simulator.loop.request import Workload
from simulator.loop.service import FULL
from simulator.loop.stages import StageState
from simulator.loop.state import Prefixes, Requests, SchedulerLimits
from simulator.loop.step_time import DraftTimer, StepTimer
from simulator.loop.tables import Tables, no_tables
from simulator.results.metrics import Series

OnEnds = Callable[[int], None]
TURNS = 20_000  # iterations between two reports of progress
_NEVER = 1 << 62  # iterations between two noted states
# requests of replicas that run by themselves, from which on every core of the machine runs some
_SHARED_OUT = 50_000


class Pool(NamedTuple):
    """What the replicas of a stage share.

    Args:
        requests: of the workload.
        prefixes: their blocks.
        limits: of every replica.
        drafts: the decoder.
        tables: seconds of iterations; None: the timers are asked.
        timer: for iterations.
        draft_timer: for draft passes; None: they are free.
        merge: advance iterations that differ in context alone together.
        series: note states over time.
    """

    requests: Requests
    prefixes: Prefixes
    limits: SchedulerLimits
    drafts: Drafts
    tables: Tables | None
    timer: StepTimer
    draft_timer: DraftTimer | None
    merge: bool
    series: bool = True


class Stage:
    """Replicas of a pool behind a front end.

    Args:
        pool: what the replicas share.
        workload: the requests; a closed loop counts over all replicas.
        replicas: how many there are.
        how: which of them takes a request.
        report_s: seconds between two reports to the front end; 0: it always knows.
        dealt: int32[r], the replica of every request where that is drawn; None: it is not.
        listed: all requests are known to come; else they are listed later.
        disaggregated: another stage says which users are freed.
        asked: timers are asked for every iteration, even where there are tables.
        room: most requests that a replica can be sent before its queue grows; None: about its
            share.
    """

    def __init__(
        self,
        pool: Pool,
        workload: Workload,
        replicas: int,
        how: Router,
        *,
        report_s: float = 0.0,
        dealt: NDArray[np.int32] | None = None,
        listed: bool = True,
        disaggregated: bool = False,
        asked: bool = False,
        room: int | None = None,
    ) -> None:
        self.pool, self.replicas = pool, replicas
        self.front: Front = new_front(
            workload,
            replicas,
            ROUTES[how],
            listed=listed,
            disaggregated=disaggregated,
            report_s=report_s,
            dealt=dealt,
        )
        self.rules = _rules(pool, asked=asked or pool.tables is None)
        share = -(-workload.requests // replicas)
        # routers that look at loads deal out nearly evenly
        about = share if how == "round-robin" else min(2 * share + 64, workload.requests)
        if dealt is not None:
            about = int(np.bincount(dealt).max())
        self.fleet: Fleet = new_fleet(
            pool.limits,
            pool.prefixes,
            replicas,
            about if room is None else room,
            groups=pool.drafts.ragged != SPLIT and pool.drafts.decoder != BLOCK,
            memory=new_memory(pool.drafts, pool.limits),
        )
        if not pool.series:
            self.fleet.replicas["sample_stride"] = _NEVER
        self.timers = AskedTimers(
            pool.requests,
            self.rules,
            pool.drafts,
            pool.timer,
            pool.draft_timer,
            tabled=pool.tables is not None,
        )

    @property
    def state(self) -> StageState:
        """What the loop is handed of the stage."""
        return StageState(self.front, self.fleet, self.pool.requests, self.rules)

    @property
    def ended(self) -> int:
        """Requests that the stage is done with."""
        return int(self.fleet.ended.sum())

    @property
    def clock_s(self) -> float:
        """End of the latest iteration of any replica."""
        return max(float(clock) for clock in self.fleet.replicas["clock_s"])

    def run(self, until: float, on_ends: OnEnds | None) -> None:
        """Send what is listed and advance all replicas to a time in seconds; where requests end
        that another stage waits for, no further than that.
        """
        requests, cores = self.pool.requests, _cores()
        by_themselves = not looks(self.front) and not feeds_back(self.front, requests)
        large = len(requests) >= _SHARED_OUT and min(cores, self.replicas) > 1
        if by_themselves and large and not self.rules.asked:
            # sends everything and advances nobody
            serve(self.front, self.fleet, requests, self.rules, np.inf, 0)
            self._run_at_once(cores, on_ends)
            return
        left = TURNS
        while True:
            status, index = serve(self.front, self.fleet, requests, self.rules, float(until), left)
            left = left - 1 if status == ASKED else 0
            goes_on = self.answer(status, index)
            if left == 0 or not goes_on:
                left = TURNS
                if on_ends is not None:
                    on_ends(self.ended)
            if not goes_on:
                return

    def answer(self, status: int, index: int) -> bool:
        """Do what the loop stopped for, as its status says of a replica; whether it goes on."""
        if status == ASKED:
            self.begin(index, self.timers.seconds(self.fleet, index))
        elif status == FULL:
            self.fleet = with_room(self.fleet, 2 * self.fleet.queue.shape[1])
        return status in (ASKED, FULL, COUNTED)

    def begin(self, index: int, seconds: float) -> None:
        """Begin the iteration that a replica has composed."""
        replica, counts = replica_of(self.fleet, index), self.fleet.counts[index]
        start(replica, counts, self.rules.limits, seconds)

    def list_all(self, listed: NDArray[np.int64], at_s: NDArray[np.float64]) -> None:
        """Requests are going to be sent at times in seconds, in their order; none is listed yet."""
        self.pool.requests["sent_s"][listed] = at_s
        self.front.order[: listed.size] = listed
        self.front.state.listed = listed.size

    def series(self) -> list[Series]:
        """States of the replicas over time."""
        return [self._series(index) for index in range(self.replicas)]

    def _series(self, index: int) -> Series:
        replica = self.fleet.replicas[index]
        series, count = replica["series"], int(replica["samples"])
        return Series(
            t_s=series[0, :count].copy(),
            running=series[1, :count].astype(np.int32),
            waiting=series[2, :count].astype(np.int32),
            kv_used_ratio=series[3, :count] / self.pool.limits.kv_blocks,
        )

    def _run_at_once(self, cores: int, on_ends: OnEnds | None) -> None:
        """Let every replica run by itself, as many at once as there are cores."""

        def run_one(index: int) -> None:
            alone = self.front, part_of(self.fleet, index), self.pool.requests, self.rules
            while serve(*alone, np.inf, TURNS)[0] == COUNTED:
                pass

        with ThreadPoolExecutor(min(cores, self.replicas)) as threads:
            runs = [threads.submit(run_one, index) for index in range(self.replicas)]
            for done in as_completed(runs):
                done.result()
                if on_ends is not None:
                    on_ends(self.ended)


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _rules(pool: Pool, *, asked: bool) -> Rules:
    """What the replicas of a pool obey, as the loop reads it."""
    limits, _ = laid_out(pool.limits)
    t, seconds = laid_out(no_tables() if pool.tables is None else pool.tables)
    walk = walk_of(pool.drafts)
    # where requests draft or commit blocks, iterations differ in more than their context
    merge = pool.merge and pool.drafts.decoder == PLAIN and not asked
    return Rules(pool.prefixes, limits, *walk, t, seconds, True if merge else None, asked)
