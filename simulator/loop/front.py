"""Which replica takes a request, and when is it sent?

In turn, at random, to whoever holds fewest, or to whoever was sent most of the prompt. A router knows what it
has sent; of requests that ended it knows as of the latest report. In a closed loop a request is
sent once another has ended. Leaves out when replicas advance (`simulator.loop.service`).

Reference: Zheng et al. 2023, "SGLang" (arXiv:2312.07104), section 3; its router's thresholds for
prefix-aware routing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.loop.compiled import compiled, record_type
from simulator.loop.fleet import Fleet
from simulator.loop.request import Workload
from simulator.loop.scheduling.waiting import receive
from simulator.loop.state import Real, Requests, SchedulerLimits, Small, Whole

IN_TURN, DEALT, FEWEST, SENT_PREFIX, REPORTED = range(5)
ROUTES = {
    "round-robin": IN_TURN,
    "random": DEALT,
    "least-loaded": FEWEST,
    "prefix": SENT_PREFIX,
    "reported-load": REPORTED,
}
MATCH_RATIO = 0.5  # share of a prompt's blocks that must have been sent for it to count
# requests by which a replica may lead the least loaded one before prefixes count no more
IMBALANCE = 32
_WORD = 64  # replicas of a word of `SentBlocks.replicas`


@dataclass(slots=True)
class FrontState:
    """The numbers of a front end; the loop works on a record with these fields.

    Args:
        route: `IN_TURN`, `DEALT`, `FEWEST`, `SENT_PREFIX` or `REPORTED`.
        listed: requests in `Front.order`.
        sent: of those, requests that were sent.
        ended: requests whose end was noted.
        users: of a closed loop; at least as many as requests: there is none.
        freed: requests that ended and let a user go on.
        disaggregated: 1: another stage says who is freed.
        report_s: between two reports of the replicas; 0: the front end always knows.
        heard_s: when the latest report came.
    """

    route: int = IN_TURN
    listed: int = 0
    sent: int = 0
    ended: int = 0
    users: int = 0
    freed: int = 0
    disaggregated: int = 0
    report_s: float = 0.0
    heard_s: float = -1.0


FRONT = record_type(FrontState)


class SentBlocks(NamedTuple):
    """Which replicas were sent which blocks of prompts; none is ever forgotten.

    Args:
        ids: int32[], blocks of all prompts, numbered from 0.
        start: int64[r + 1], where those of a request begin.
        replicas: uint64[blocks, words], a bit for each replica.
    """

    ids: Small
    start: Whole
    replicas: NDArray[np.uint64]


class Front(NamedTuple):
    """What the front end of r requests and n replicas remembers.

    Args:
        state: record of its numbers.
        order: int32[r], requests as they are sent.
        sent: int64[n], requests that a replica was sent.
        heard: int64[n], of those, requests that have ended as of the latest report.
        noted: int64[n], ends that were noted.
        ended: int32[r], requests in the order of their ends, where these feed back.
        think_s: float64[r], of users between an end and their next request, in the order of ends.
        ready_s: float64[r], when users who were freed send their next request, in order.
        blocks: see `SentBlocks`; None: nobody looks into prompts.
        dealt: int32[r], the replica of every request where that is drawn; else empty.
    """

    state: Any
    order: Small
    sent: Whole
    heard: Whole
    noted: Whole
    ended: Small
    think_s: Real
    ready_s: Real
    blocks: SentBlocks | None
    dealt: Small


def new_front(
    workload: Workload,
    replicas: int,
    route: int,
    *,
    listed: bool = True,
    disaggregated: bool = False,
    report_s: float = 0.0,
    dealt: Small | None = None,
) -> Front:
    """A front end that has sent nothing.

    Args:
        workload: the requests.
        replicas: behind it, n.
        route: as of `FrontState`.
        listed: all requests are known to come, in their order; else they are listed later.
        disaggregated: another stage says which users are freed.
        report_s: as of `FrontState`.
        dealt: as of `Front`; None: the router draws nothing.
    """
    r = workload.requests
    closed = listed and workload.users is not None
    start = FrontState(
        route=route,
        listed=r if listed else 0,
        users=int(workload.users) if closed and workload.users is not None else r,
        disaggregated=int(disaggregated),
        report_s=float(report_s),
    )
    state = np.zeros(1, FRONT)[0]
    for attribute in fields(FrontState):
        state[attribute.name] = getattr(start, attribute.name)
    return Front(
        state=state,
        order=np.arange(r, dtype=np.int32),
        sent=np.zeros(replicas, np.int64),
        heard=np.zeros(replicas, np.int64),
        noted=np.zeros(replicas, np.int64),
        ended=np.zeros(r if closed or disaggregated else 0, np.int32),
        think_s=np.array(np.broadcast_to(workload.think_s, r)) if closed else np.zeros(0),
        ready_s=np.zeros(r if closed else 0),
        blocks=_sent_blocks(workload, replicas, route),
        dealt=np.zeros(0, np.int32) if dealt is None else dealt,
    )


def _sent_blocks(workload: Workload, replicas: int, route: int) -> SentBlocks | None:
    written = workload.prefix_ids
    if route != SENT_PREFIX or written is None:
        return None
    start = np.zeros(len(written) + 1, np.int64)
    np.cumsum([len(ids) for ids in written], out=start[1:])
    flat = np.fromiter((i for ids in written for i in ids), np.int64, count=int(start[-1]))
    names, ids = np.unique(flat, return_inverse=True)
    return SentBlocks(
        ids=ids.astype(np.int32),
        start=start,
        replicas=np.zeros((names.size, -(-replicas // _WORD)), np.uint64),
    )


@compiled
def feeds_back(front: Front, requests: Requests) -> bool:
    """Whether requests wait for the ends of others, here or in another stage."""
    return front.state.disaggregated == 1 or front.state.users < len(requests)


@compiled
def looks(front: Front) -> bool:
    """Whether the router looks at the replicas before it sends a request."""
    return front.state.route not in (IN_TURN, DEALT)


@compiled
def next_sent_s(front: Front, requests: Requests) -> float:
    """When the next request is sent, in seconds; infinity: not as far as is known."""
    state = front.state
    at = state.sent
    if at >= state.listed or at >= state.users + state.freed:
        return np.inf
    listed_s = requests[front.order[at]].sent_s
    if at < state.users:
        return listed_s
    return max(listed_s, front.ready_s[at - state.users])


@compiled
def _fewest(front: Front) -> int:
    """The first of the replicas with fewest requests, as far as the front end knows."""
    chosen, least = 0, front.sent[0] - front.heard[0]
    for i in range(1, len(front.sent)):
        load = front.sent[i] - front.heard[i]
        if load < least:
            chosen, least = i, load
    return chosen


@compiled
def _longest_match(front: Front, blocks: SentBlocks | None, r: int) -> tuple[float, int]:
    """The share of a prompt's blocks, from the first on, that any replica was sent before, and the
    least loaded of the replicas that were sent so many.
    """
    longest, chosen, least = 0, 0, 0
    if blocks is None:
        return 0.0, chosen
    for word in range(blocks.replicas.shape[1]):
        bits, length = np.uint64(0), 0
        for at in range(blocks.start[r], blocks.start[r + 1]):
            sent = blocks.replicas[blocks.ids[at], word]
            both = sent & bits if length else sent
            if both == np.uint64(0):
                break
            bits, length = both, length + 1
        if length < max(longest, 1):
            continue
        for i in range(_WORD * word, min(_WORD * (word + 1), len(front.sent))):
            if bits >> np.uint64(i - _WORD * word) & np.uint64(1):
                load = front.sent[i] - front.heard[i]
                if length > longest or load < least:
                    longest, chosen, least = length, i, load
    return longest / max(blocks.start[r + 1] - blocks.start[r], 1), chosen


@compiled
def choose(front: Front, r: int) -> int:
    """The replica that takes request r; never `REPORTED`, which ranks in step know."""
    state = front.state
    if state.route == IN_TURN:
        return int(state.sent % len(front.sent))
    if state.route == DEALT:
        return int(front.dealt[r])
    chosen = _fewest(front)
    share, best = _longest_match(front, front.blocks, r)
    lead = front.sent[best] - front.heard[best] - front.sent[chosen] + front.heard[chosen]
    return best if share > MATCH_RATIO and lead <= IMBALANCE else chosen


@compiled
def _mark(blocks: SentBlocks | None, r: int, index: int) -> None:
    """A replica was sent the blocks of request r."""
    if blocks is None:
        return
    bit = np.uint64(1) << np.uint64(index % _WORD)
    for at in range(blocks.start[r], blocks.start[r + 1]):
        blocks.replicas[blocks.ids[at], index // _WORD] |= bit


@compiled
def send(
    front: Front,
    fleet: Fleet,
    requests: Requests,
    limits: SchedulerLimits,
    index: int,
    at_s: float,
) -> None:
    """Send the next request to a replica, whose queue has room."""
    state = front.state
    r = front.order[state.sent]
    request, replica = requests[r], fleet.replicas[index]
    request.sent_s = at_s
    request.ready_s = at_s
    request.replica = index
    fleet.queue[index, replica.sent].inbox = r
    replica.sent += 1
    if limits.intake_s + limits.intake_token_s > 0.0:
        receive(replica, request, limits)
    fleet.due_s[index] = min(fleet.due_s[index], max(request.ready_s, replica.clock_s))
    front.sent[index] += 1
    state.sent += 1
    _mark(front.blocks, r, index)


@compiled
def free_user(front: Front, ended_s: float) -> None:
    """A request is over; its user is in line, by when they have thought, with those who have not sent
    since.
    """
    state = front.state
    ready_s, at = ended_s + front.think_s[state.freed], state.freed
    while at > max(state.sent - state.users, 0) and front.ready_s[at - 1] > ready_s:
        front.ready_s[at] = front.ready_s[at - 1]
        at -= 1
    front.ready_s[at] = ready_s
    state.freed += 1


@compiled
def note_ends(front: Front, fleet: Fleet, requests: Requests) -> None:
    """Note the requests that have ended since, which must be in the order of time; each frees its
    user, unless another stage says so.
    """
    state = front.state
    for i in range(len(front.noted)):
        while front.noted[i] < fleet.ended[i]:
            r = fleet.queue[i, front.noted[i]].over
            front.noted[i] += 1
            front.ended[state.ended] = r
            state.ended += 1
            if not state.disaggregated:
                free_user(front, requests[r].last_s)
