"""Who is next, and which slot does it take? A queue of requests by their keys, as a binary heap in an array.

Keys order by priority, then arrival, so that a preempted request is served before everybody who came later.
Leaves out who may start: `simulator.loop.scheduler`.
"""

from __future__ import annotations

from simulator.loop.compiled import compiled, inlined
from simulator.loop.state import TAKEN, UNUSED, Buffers, Limits, Replica, Requests


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
        if below + 1 < size and requests[buffers.heap[below + 1]].key < requests[buffers.heap[below]].key:
            below += 1
        if requests[r].key <= requests[buffers.heap[below]].key:
            break
        buffers.heap[at] = buffers.heap[below]
        at = below
    buffers.heap[at] = r
    return int(first)


@compiled
def waits(replica: Replica, buffers: Buffers, requests: Requests, limits: Limits) -> bool:
    """Whether the queue waits for more prompts beside the requests that decode; counts the iterations of that."""
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
def take_slot(buffers: Buffers) -> int:
    """Take the numbered slot that was left first, of which one must be free; of those never used, the last."""
    found = 0
    for slot in range(1, len(buffers.slot_last)):
        left, earliest = buffers.slot_last[slot], buffers.slot_last[found]
        if left < earliest or (left == UNUSED and earliest == UNUSED):
            found = slot
    buffers.slot_last[found] = TAKEN
    return found


@inlined
def stands_behind(requests: Requests, limits: Limits, other: int, r: int) -> bool:
    """Whether another running request is served after a request that joins."""
    if limits.numbered_slots:
        return bool(requests[other].slot > requests[r].slot)
    return bool(requests[other].key > requests[r].key)
