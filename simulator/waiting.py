"""Who is next? A queue of requests by their keys, as a binary heap in an array.

Keys order by priority, then arrival, so that a request that had to give way is ahead of everybody who came later.
Leaves out who may start: `simulator.scheduler`.
"""

from __future__ import annotations

from simulator.compiled import compiled
from simulator.state import QUEUED, Requests, Small, Whole


@compiled
def enqueue(heap: Small, number: Whole, requests: Requests, r: int) -> None:
    """Put request `r` into the queue."""
    at = number[QUEUED]
    number[QUEUED] += 1
    while at > 0:
        above = (at - 1) >> 1
        if requests[heap[above]].key <= requests[r].key:
            break
        heap[at] = heap[above]
        at = above
    heap[at] = r


@compiled
def dequeue(heap: Small, number: Whole, requests: Requests) -> int:
    """Take the first request out of a queue that is not empty."""
    first = heap[0]
    number[QUEUED] -= 1
    size = number[QUEUED]
    r = heap[size]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and requests[heap[below + 1]].key < requests[heap[below]].key:
            below += 1
        if requests[r].key <= requests[heap[below]].key:
            break
        heap[at] = heap[below]
        at = below
    heap[at] = r
    return int(first)
