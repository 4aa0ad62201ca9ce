"""When is a request received, who is next, and which slot does it take?

Requests wait in a queue by their keys, a binary heap in an array.

Keys order by priority, then arrival, so that a preempted request is served before everybody who
came later. Leaves out who may start: `simulator.loop.scheduling.scheduler`.
"""

from __future__ import annotations

from simulator.loop.compiled import compiled, inlined
from simulator.loop.state import TAKEN, Buffers, Replica, Requests, SchedulerLimits


@compiled
def receive(replica: Replica, requests: Requests, limits: SchedulerLimits, r: int) -> None:
    """The front end receives a request that has been sent, after those that were sent before it."""
    spent_s = limits.intake_s + limits.intake_token_s * requests[r].prompt
    replica.received_s = max(replica.received_s, requests[r].sent_s) + spent_s
    requests[r].ready_s = replica.received_s


@compiled
def receive_all(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    limits: SchedulerLimits,
    first: int,
    end: int,
) -> None:
    """The front end receives the requests at places `first` to `end` of the inbox."""
    for i in range(first, end):
        receive(replica, requests, limits, buffers.inbox[i])


@compiled
def end_request(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    limits: SchedulerLimits,
    r: int,
    phase: int,
    now: float,
) -> None:
    """A request ends, one way or another; in a closed loop the next one is sent."""
    requests[r].phase = phase
    buffers.over[replica.ended] = r
    follower = limits.users + replica.ended
    replica.ended += 1
    if follower < replica.sent:
        following = buffers.inbox[follower]
        requests[following].sent_s = max(requests[following].sent_s, now + limits.think_s)
        receive(replica, requests, limits, following)


@compiled
def enqueue(replica: Replica, buffers: Buffers, requests: Requests, r: int) -> None:
    """Put request `r` into the queue."""
    at = replica.queued
    replica.queued += 1
    while at > 0:
        above = (at - 1) >> 1
        if requests[buffers.heap[above]].key <= requests[r].key:
            break
        buffers.heap[at] = buffers.heap[above]
        at = above
    buffers.heap[at] = r


@compiled
def dequeue(replica: Replica, buffers: Buffers, requests: Requests) -> int:
    """Take the first request out of a queue that is not empty."""
    first = buffers.heap[0]
    replica.queued -= 1
    size = replica.queued
    r = buffers.heap[size]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if (
            below + 1 < size
            and requests[buffers.heap[below + 1]].key < requests[buffers.heap[below]].key
        ):
            below += 1
        if requests[r].key <= requests[buffers.heap[below]].key:
            break
        buffers.heap[at] = buffers.heap[below]
        at = below
    buffers.heap[at] = r
    return int(first)


@compiled
def waits(replica: Replica, buffers: Buffers, requests: Requests, limits: SchedulerLimits) -> bool:
    """Whether the queue waits for more prompts beside the requests that decode; counts the
    iterations of that.
    """
    if limits.wait_iterations == 0 or replica.queued == 0 or replica.decoding == 0:
        return False
    tokens = replica.rows
    for i in range(replica.queued):
        tokens += requests[buffers.heap[i]].prompt + requests[buffers.heap[i]].generated
    if replica.waited < limits.wait_iterations and tokens < limits.wait_tokens:
        replica.waited += 1
        return True
    replica.waited = 0
    return False


@compiled
def postponed(replica: Replica, buffers: Buffers, requests: Requests) -> int:
    """Waiting requests that found no free slot when the latest iteration was filled, as far as
    there are slots now.
    """
    free, count = 0, 0
    for slot in range(len(buffers.slot_last)):
        free += buffers.slot_last[slot] != TAKEN
    for i in range(replica.queued):
        count += requests[buffers.heap[i]].ready_s <= replica.began_s
    return int(min(free, count)) if replica.iterations > 0 else 0


@compiled
def take_slot(replica: Replica, buffers: Buffers) -> int:
    """Take the numbered slot that was left first, of which one must be free; of those never used,
    the last.

    Every slot that is left sends for one postponed request, ahead of whoever was sent for before,
    so that of several the last takes the slot that was left first (llama.cpp,
    tools/server/server-queue.cpp `pop_deferred_task`).
    """
    skipped = max(replica.postponed - 1, 0)
    replica.postponed = skipped
    found, bound = -1, -len(buffers.slot_last) - 1
    for _ in range(skipped + 1):
        found = -1
        for slot in range(len(buffers.slot_last)):
            left = buffers.slot_last[slot]
            if left > bound and (found < 0 or left < buffers.slot_last[found]):
                found = slot
        bound = buffers.slot_last[found]
    buffers.slot_last[found] = TAKEN
    return found


@inlined
def stands_behind(requests: Requests, limits: SchedulerLimits, other: int, r: int) -> bool:
    """Whether another running request is served after a request that joins."""
    if limits.numbered_slots:
        return bool(requests[other].slot > requests[r].slot)
    return bool(requests[other].key > requests[r].key)
