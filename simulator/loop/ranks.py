"""Which rank takes a request, and what happens in an iteration that all ranks begin together?

The slowest rank's own part, then what all spend together. The front end sends every request when
its time has come, in turn, to whoever has fewest, or to whoever had when all last told it: counts
come every tenth of a second, a request that waits counts four times, and each one sent since counts
as one that waits. Leaves out timers that have no tables (`simulator.cluster.ranks`).

Reference: vLLM, vllm/v1/engine/core.py `DPEngineCoreProc`, core_client.py `DPLBAsyncMPClient`,
coordinator.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.loop.compiled import compiled
from simulator.loop.decoders.record import Decoder, Places, Steps
from simulator.loop.iteration import COMPOSED, COUNTED, DONE, begin, next_arrival_s, settle, start
from simulator.loop.passes import tabled_seconds
from simulator.loop.rank_time import IDLE_TOKENS
from simulator.loop.scheduling.waiting import receive
from simulator.loop.state import Buffers, Prefixes, Real, Replica, Requests, SchedulerLimits, Whole
from simulator.loop.tables import Tables

IN_TURN, FEWEST, REPORTED = range(3)
REPORT_S = 0.1
WAITING_WEIGHT = 4  # of a request that waits over one that runs
_HEARD, _REPORTED, _LATEST = range(3)

Replicas = tuple[Replica, ...]
Arrays = tuple[Buffers, ...]


class RankFront(NamedTuple):
    """What the front end of ranks remembers, in arrays that compiled code writes.

    Args:
        numbers: requests sent, requests that ended, passes of idle ranks.
        times: now, when the latest report was heard, end of the latest iteration, when it began.
        counts: [heard or reported or latest, waiting or running, rank].
        noted: ends that were counted, by rank.
        ends_s: of requests, in order.
        users: of a closed loop.
        think_s: between an end and the next request of its user.
        router: `IN_TURN`, `FEWEST` or `REPORTED`.
    """

    numbers: Whole
    times: Real
    counts: Whole
    noted: Whole
    ends_s: Real
    users: int
    think_s: float
    router: int


def new_front(
    requests: int, ranks: int, *, users: int | None, think_s: float, router: int
) -> RankFront:
    """A front end that has sent nothing."""
    return RankFront(
        numbers=np.zeros(3, np.int64),
        times=np.zeros(4),
        counts=np.zeros(6 * ranks, np.int64),
        noted=np.zeros(ranks, np.int64),
        ends_s=np.zeros(requests),
        users=requests if users is None else int(users),
        think_s=float(think_s),
        router=router,
    )


@compiled
def _choose(front: RankFront, replicas: Replicas, at_s: float) -> int:
    ranks = len(replicas)
    if front.router == IN_TURN:
        return front.numbers[0] % ranks
    if front.router == REPORTED:
        heard_s = int(at_s / REPORT_S) * REPORT_S
        if heard_s > front.times[1]:
            front.times[1] = heard_s
            told = _REPORTED if heard_s <= front.times[2] else _LATEST
            for i in range(2 * ranks):
                front.counts[_HEARD * 2 * ranks + i] = front.counts[told * 2 * ranks + i]
    chosen, least = 0, 0
    for i in range(ranks):
        if front.router == REPORTED:
            load = WAITING_WEIGHT * front.counts[i] + front.counts[ranks + i]
        else:
            load = replicas[i].sent - replicas[i].ended
        if i == 0 or load < least:
            chosen, least = i, load
    front.counts[chosen] += 1
    return chosen


@compiled
def _next_sent_s(front: RankFront, requests: Requests) -> float:
    """When the next request is sent, as far as is known."""
    r = front.numbers[0]
    if r == len(requests) or r >= front.users + front.numbers[1]:
        return np.inf
    if r < front.users:
        return requests[r].sent_s
    return max(requests[r].sent_s, front.ends_s[r - front.users] + front.think_s)


@compiled
def _send(
    front: RankFront,
    replicas: Replicas,
    buffers: Arrays,
    requests: Requests,
    limits: SchedulerLimits,
    before_s: float,
) -> None:
    """Send what is due before a time."""
    at_s = _next_sent_s(front, requests)
    while at_s < before_s:
        r = front.numbers[0]
        i = _choose(front, replicas, at_s)
        requests[r].sent_s = at_s
        requests[r].ready_s = at_s
        requests[r].replica = i
        buffers[i].queue[replicas[i].sent].inbox = r
        replicas[i].sent += 1
        if limits.intake_s + limits.intake_token_s > 0.0:
            receive(replicas[i], requests[r], limits)
        front.numbers[0] += 1
        at_s = _next_sent_s(front, requests)


@compiled
def _note_ends(front: RankFront, replicas: Replicas) -> None:
    for i in range(len(replicas)):
        while front.noted[i] < replicas[i].ended:
            front.noted[i] += 1
            front.ends_s[front.numbers[1]] = replicas[i].clock_s
            front.numbers[1] += 1


@compiled
def _report(front: RankFront, replicas: Replicas, now: float) -> None:
    """An iteration has ended; a report in between told how it was before."""
    ranks = len(replicas)
    crossed_s = int(now / REPORT_S) * REPORT_S
    if front.times[2] < crossed_s < now:
        for i in range(2 * ranks):
            front.counts[_REPORTED * 2 * ranks + i] = front.counts[_LATEST * 2 * ranks + i]
    for i in range(ranks):
        front.counts[_LATEST * 2 * ranks + i] = replicas[i].queued
        front.counts[_LATEST * 2 * ranks + ranks + i] = replicas[i].running
    if crossed_s == now:
        for i in range(2 * ranks):
            front.counts[_REPORTED * 2 * ranks + i] = front.counts[_LATEST * 2 * ranks + i]
    front.times[2] = now


@compiled
def begin_together(
    front: RankFront,
    replicas: Replicas,
    buffers: Arrays,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Decoder | None,
    places: Places | None,
    tables: Real | None,
    t: Tables,
    seconds: Real,
) -> int:
    """Compose an iteration of everybody who has something to do, at the time of the next request if
    nobody has.

    A rank that has nothing to do holds no rows then.

    Returns:
        Ranks that have something to do; 0: nothing is left, and nothing more will come.
    """
    while True:
        now = front.times[0]
        soon = np.nextafter(now, np.inf)
        _send(front, replicas, buffers, requests, limits, soon)
        busy = 0
        for i in range(len(replicas)):
            replica = replicas[i]
            if replica.clock_s < now:
                replica.clock_s = now
                replica.began_s = front.times[3]
            status = begin(
                replica,
                buffers[i],
                requests,
                prefixes,
                limits,
                d,
                places,
                tables,
                t,
                seconds,
                soon,
            )
            if status == COMPOSED:
                busy += 1
            else:
                replica.rows = 0
        _note_ends(front, replicas)
        if busy:
            return busy
        coming_s = _next_sent_s(front, requests)
        for i in range(len(replicas)):
            coming_s = min(
                coming_s, next_arrival_s(replicas[i], buffers[i].queue, requests, limits)
            )
        if coming_s == np.inf:
            return 0
        front.times[0] = max(now, coming_s)


@compiled
def start_together(
    front: RankFront,
    replicas: Replicas,
    buffers: Arrays,
    limits: SchedulerLimits,
    pass_s: float,
) -> None:
    """The composed iteration begins; `pass_s` holds whatever moves to and from the host."""
    front.times[3] = front.times[0]
    for i in range(len(replicas)):
        replicas[i].swap_s = 0.0
        if replicas[i].rows > 0:
            start(replicas[i], buffers[i].counts, limits, pass_s)
        else:
            front.numbers[2] += 1


@compiled
def settle_together(
    front: RankFront,
    replicas: Replicas,
    buffers: Arrays,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Decoder | None,
    steps: Steps | None,
    places: Places | None,
    tables: Real | None,
    pass_s: float,
) -> None:
    """End the iteration; requests that came meanwhile were sent by what was known then."""
    now = front.times[0] + pass_s
    _send(front, replicas, buffers, requests, limits, now)
    for i in range(len(replicas)):
        if replicas[i].busy:
            settle(
                replicas[i],
                buffers[i],
                requests,
                prefixes,
                limits,
                d,
                steps,
                places,
                tables,
            )
    front.times[0] = now
    _note_ends(front, replicas)
    _report(front, replicas, now)


@compiled
def _at(table: Real, position: float) -> float:
    """Value at a position of a table; beyond its end the last slope goes on."""
    low = min(int(position), len(table) - 2)
    return table[low] + (position - low) * (table[low + 1] - table[low])


@compiled
def advance_together(
    front: RankFront,
    replicas: Replicas,
    buffers: Arrays,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Decoder | None,
    steps: Steps | None,
    places: Places | None,
    tables: Real | None,
    t: Tables,
    seconds: Real,
    by_mean_s: Real,
    by_most_s: Real,
    most: int,
) -> int:
    """Run iterations by tables, at most so many; `by_mean_s` and `by_most_s` as of
    `TabledTogether`.

    Returns:
        DONE, or COUNTED after `most` iterations.
    """
    ranks = len(replicas)
    for _ in range(most):
        if not begin_together(
            front,
            replicas,
            buffers,
            requests,
            prefixes,
            limits,
            d,
            places,
            tables,
            t,
            seconds,
        ):
            return DONE
        own_s, tokens, fullest = 0.0, 0, 0
        for i in range(ranks):
            replica = replicas[i]
            if replica.rows > 0:
                rank_s = tabled_seconds(replica, buffers[i], requests, limits, d, t, seconds)
                own_s = max(own_s, rank_s + replica.swap_s)
            rows = max(replica.rows, IDLE_TOKENS)
            tokens += rows
            fullest = max(fullest, rows)
        pass_s = own_s + _at(by_mean_s, tokens / ranks) + _at(by_most_s, float(fullest))
        start_together(front, replicas, buffers, limits, pass_s)
        settle_together(
            front,
            replicas,
            buffers,
            requests,
            prefixes,
            limits,
            d,
            steps,
            places,
            tables,
            pass_s,
        )
    return COUNTED
