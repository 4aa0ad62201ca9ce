"""When does each replica of a stage advance, and how far?

Up to the next time at which the front end has to know how they stand: where requests are dealt out
in turn or at random never, else at every report, or at every request where it always knows. Where requests wait
for the ends of others, the replica that may end one first advances until it does. Leaves out
stages that feed each other (`simulator.cluster.service`).
"""

from __future__ import annotations

import math

import numpy as np

from simulator.loop.compiled import compiled
from simulator.loop.fleet import Fleet, Rules, buffers_of
from simulator.loop.front import (
    Front,
    choose,
    feeds_back,
    looks,
    next_sent_s,
    note_ends,
    send,
)
from simulator.loop.iteration import (
    ASKED,
    COMPOSED,
    COUNTED,
    DONE,
    begin,
    next_arrival_s,
    settle,
    start,
    steady_run,
)
from simulator.loop.passes import tabled_seconds
from simulator.loop.state import Requests

ENDED, FULL = 10, 11  # beside the statuses of `iteration`


@compiled
def _first_due(fleet: Fleet) -> tuple[int, float]:
    """The replica that may end a request first, at equal times one whose iteration ends; and when
    the next one may.
    """
    first, second_s = 0, np.inf
    for i in range(1, len(fleet.due_s)):
        mine, best = fleet.due_s[i], fleet.due_s[first]
        if mine < best or (mine == best and fleet.replicas[i].busy > fleet.replicas[first].busy):
            second_s = min(second_s, best)
            first = i
        else:
            second_s = min(second_s, mine)
    return first, second_s


@compiled
def _report_due_s(front: Front, now: float) -> float:
    """When replicas told the front end what it goes by at a time, in seconds; before the start: it
    was told before, or goes by nothing.
    """
    state = front.state
    if not looks(front):
        return -1.0
    if state.report_s == 0.0:
        return now
    reported_s = math.floor(now / state.report_s) * state.report_s
    return reported_s if reported_s > state.heard_s else -1.0


@compiled
def _hear(front: Front, fleet: Fleet, reported_s: float) -> None:
    """The front end hears how replicas stand that have advanced until then."""
    if reported_s < 0.0:
        return
    front.state.heard_s = reported_s
    for i in range(len(front.heard)):
        front.heard[i] = fleet.ended[i]


@compiled
def _send_known(
    front: Front, fleet: Fleet, requests: Requests, rules: Rules, until: float
) -> tuple[int, int, float, bool]:
    """Send requests, as far as the front end knows all that it has to.

    Returns:
        COMPOSED, and the replica that is to advance, until when, and whether no further than until
        requests of its end; or DONE or FULL, as `serve`.
    """
    state, fed = front.state, feeds_back(front, requests)
    while True:
        if fed:
            note_ends(front, fleet, requests)
        at_s = next_sent_s(front, requests)
        is_last = at_s > until or at_s == np.inf
        reported_s = _report_due_s(front, at_s) if not is_last else -1.0
        # up to when replicas have to advance first
        bound = until if is_last else at_s if fed else reported_s
        first, second_s = _first_due(fleet)
        due_s, busy = fleet.due_s[first], fleet.replicas[first].busy
        if due_s < bound or (due_s == bound and busy and bound < np.inf):
            if fed:
                _hear(front, fleet, _report_due_s(front, due_s))
                bound = min(bound, second_s)
                if not busy:
                    bound = max(bound, np.nextafter(due_s, np.inf))
            return COMPOSED, first, bound, fed
        if is_last:
            return DONE, 0, until, fed
        _hear(front, fleet, reported_s)
        i = choose(front, front.order[state.sent])
        if fleet.replicas[i].sent == fleet.queue.shape[1]:
            return FULL, i, until, fed
        send(front, fleet, requests, rules.limits, i, at_s)


@compiled
def serve(
    front: Front, fleet: Fleet, requests: Requests, rules: Rules, until: float, most: int
) -> tuple[int, int]:
    """Send requests and advance replicas until a time, by at most about so many iterations.

    Args:
        front: who sends.
        fleet: the replicas.
        requests: of the workload.
        rules: of every replica.
        until: in seconds.
        most: iterations.

    Returns:
        DONE; COUNTED; ASKED, and the replica whose iteration is to be timed; FULL, and the replica
        whose queue has no room; ENDED: requests have ended that another stage waits for.
    """
    state, left = front.state, most
    while True:
        ended = state.ended
        status, i, to_s, to_end = _send_known(front, fleet, requests, rules, until)
        if state.disaggregated and state.ended > ended:
            return ENDED, i
        if status != COMPOSED or left <= 0:
            return (COUNTED if status == COMPOSED else status), i
        replica, buffers = fleet.replicas[i], buffers_of(fleet, i)
        prefixes, limits, d = rules.prefixes, rules.limits, rules.d
        places, tables, t, seconds = rules.places, rules.tables, rules.t, rules.seconds
        before, due_s = replica.ended, replica.end_s
        while True:
            # an iteration that ends later stays under way
            going = status == COMPOSED and left > 0 and not (replica.busy and due_s > to_s)
            if going and replica.busy:
                steps = rules.steps
                settle(replica, buffers, requests, prefixes, limits, d, steps, places, tables)
            going = going and not (to_end and replica.ended > before)
            if replica.busy:
                break
            run = replica, buffers, requests, limits, t, seconds, rules.merge
            due_s = steady_run(*run, to_s, to_end, going)
            if not going:
                break
            left -= 1
            status = begin(
                replica,
                buffers,
                requests,
                prefixes,
                limits,
                d,
                places,
                tables,
                t,
                seconds,
                to_s,
            )
            if status == COMPOSED and rules.asked:
                status = ASKED
            elif status == COMPOSED:
                pass_s = tabled_seconds(replica, buffers, requests, limits, d, t, seconds)
                start(replica, buffers.counts, limits, pass_s)
                due_s = replica.end_s
        if not replica.busy and replica.running == 0 and replica.queued == 0:
            due_s = max(due_s, next_arrival_s(replica, buffers.queue, requests))
        fleet.ended[i] = replica.ended
        fleet.due_s[i] = due_s
        if status == ASKED:
            return ASKED, i
