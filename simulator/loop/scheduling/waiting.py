"""When is a request received, who is next, and which slot does it take?

Requests wait in a queue by their keys, a binary heap in an array.

Keys order by priority, then arrival, so that a preempted request is served before everybody who
came later. Leaves out who may start: `simulator.loop.scheduling.scheduler`.
"""

from __future__ import annotations

from simulator.loop.compiled import compiled, inlined
from simulator.loop.state import TAKEN, Queue, Replica, Request, Requests, SchedulerLimits, Seats


@compiled
def receive(replica: Replica, request: Request, limits: SchedulerLimits) -> None:
    """The front end receives a request that has been sent, after those that were sent before it."""
    spent_s = limits.intake_s + limits.intake_token_s * request.prompt
    replica.received_s = max(replica.received_s, request.sent_s) + spent_s
    request.ready_s = replica.received_s


@compiled
def end_request(
    replica: Replica,
    queue: Queue,
    requests: Requests,
    r: int,
    phase: int,
    now: float,
) -> None:
    """A request ends, one way or another."""
    request = requests[r]
    request.phase = phase
    request.last_s = now
    queue[replica.ended].over = r
    replica.ended += 1


@compiled
def enqueue(replica: Replica, queue: Queue, requests: Requests, r: int) -> None:
    """Put request `r` into the queue."""
    at = replica.queued
    replica.queued += 1
    while at > 0:
        above = (at - 1) >> 1
        if requests[queue[above].heap].key <= requests[r].key:
            break
        queue[at].heap = queue[above].heap
        at = above
    queue[at].heap = r


@compiled
def dequeue(replica: Replica, queue: Queue, requests: Requests) -> int:
    """Take the first request out of a queue that is not empty."""
    first = int(queue[0].heap)
    replica.queued -= 1
    size = replica.queued
    r = queue[size].heap
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if (
            below + 1 < size
            and requests[queue[below + 1].heap].key < requests[queue[below].heap].key
        ):
            below += 1
        if requests[r].key <= requests[queue[below].heap].key:
            break
        queue[at].heap = queue[below].heap
        at = below
    queue[at].heap = r
    return first


@compiled
def waits(replica: Replica, queue: Queue, requests: Requests, limits: SchedulerLimits) -> bool:
    """Whether the queue waits for more prompts beside the requests that decode; counts the
    iterations of that.
    """
    if limits.wait_iterations == 0 or replica.queued == 0 or replica.decoding == 0:
        return False
    tokens = replica.rows
    for i in range(replica.queued):
        request = requests[queue[i].heap]
        tokens += request.prompt + request.generated
    if replica.waited < limits.wait_iterations and tokens < limits.wait_tokens:
        replica.waited += 1
        return True
    replica.waited = 0
    return False


@compiled
def postponed(
    replica: Replica,
    queue: Queue,
    seats: Seats | None,
    requests: Requests,
    limits: SchedulerLimits,
) -> int:
    """Waiting requests that found no free slot when the latest iteration was filled, as far as
    there are slots now.
    """
    if seats is None:
        return 0
    free, count = 0, 0
    for slot in range(limits.max_requests):
        free += seats[slot].slot_left != TAKEN
    for i in range(replica.queued):
        count += requests[queue[i].heap].ready_s <= replica.began_s
    return min(free, count) if replica.iterations > 0 else 0


@compiled
def take_slot(replica: Replica, seats: Seats | None, limits: SchedulerLimits) -> int:
    """Take the numbered slot that was left first, of which one must be free; of those never used,
    the last.

    Every slot that is left sends for one postponed request, ahead of whoever was sent for before,
    so that of several the last takes the slot that was left first (llama.cpp,
    tools/server/server-queue.cpp `pop_deferred_task`).
    """
    if seats is None:
        return 0
    skipped = max(replica.postponed - 1, 0)
    replica.postponed = skipped
    first, bound = -1, -limits.max_requests - 1
    for _ in range(skipped + 1):
        first = -1
        for slot in range(limits.max_requests):
            left = seats[slot].slot_left
            if left > bound and (first < 0 or left < seats[first].slot_left):
                first = slot
        bound = seats[first].slot_left
    seats[first].slot_left = TAKEN
    return first


@inlined
def stands_behind(other: Request, request: Request, limits: SchedulerLimits) -> bool:
    """Whether another running request is served after a request that joins."""
    if limits.numbered_slots:
        return other.slot > request.slot
    return other.key > request.key
