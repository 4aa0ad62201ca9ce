"""What does an iteration bring about, and which one follows?

Tokens are delivered at its end, requests end, the next iteration starts at once if there is anything to do. Iterations
that differ from the one before in their context alone are advanced without touching every request in between. Leaves
out what enters an iteration (`simulator.scheduler`) and everything between replicas (`simulator.environment`).
"""

from __future__ import annotations

import numpy as np

from simulator.compiled import compiled
from simulator.drafting import AHEAD, NOTHING, PLAIN, Drafts, advance_walk, forget_slowly
from simulator.histogram import bin_of
from simulator.kv_cache import grow, release, used_blocks
from simulator.passes import tabled_seconds
from simulator.request import DECODING, FAILED, FINISHED, REJECTED
from simulator.scheduler import compose, end_request, leave, missing_blocks, most_blocks
from simulator.state import (
    ADMITTED,
    ARRIVED,
    BATCH,
    BEGAN,
    BUSY,
    BUSY_S,
    CHUNKS,
    CLOCK,
    DECODING_NOW,
    EMITTED,
    END,
    ENDED,
    EVEN,
    GAVE_WAY,
    ITERATIONS,
    ITL_S,
    MOST_SAMPLES,
    QUEUED,
    RESERVED,
    ROWS,
    RUNNING,
    SAMPLES,
    SINCE_DECODE_S,
    STEP_S,
    STEPS,
    STRIDE,
    SWAP_S,
    TAKEN,
    TOKENS,
    UNUSED,
    Limits,
    Prefixes,
    Replica,
    Requests,
)
from simulator.tables import Tables, target_seconds
from simulator.waiting import dequeue, enqueue

COMPOSED, PAUSED, DONE, COUNTED = range(4)
REMEMBERED = 0.2  # weight of the latest step in the time per token that admission looks at


@compiled
def next_arrival_s(replica: Replica, requests: Requests, limits: Limits) -> float:
    """When the next request is known to reach the replica; infinity: none is."""
    number = replica.number
    if number[TAKEN] < min(number[ARRIVED], limits.users + number[ENDED]):
        return float(requests[replica.inbox[number[TAKEN]]].ready_s)
    return np.inf


@compiled
def _take_in(replica: Replica, requests: Requests, limits: Limits, latest_s: float) -> None:
    """Queue what has arrived by `latest_s`; what can never fit is rejected."""
    number = replica.number
    while next_arrival_s(replica, requests, limits) <= latest_s:
        r = replica.inbox[number[TAKEN]]
        number[TAKEN] += 1
        too_long = not limits.chunked and requests[r].prompt > limits.token_budget
        if too_long or most_blocks(requests, limits, r) > limits.kv_blocks:
            end_request(replica, requests, limits, r, REJECTED, replica.second[CLOCK])
        else:
            enqueue(replica.heap, number, requests, r)


@compiled
def _sample(replica: Replica, limits: Limits) -> None:
    """Note the state after every so many iterations; when the room is used up, after twice as many."""
    number = replica.number
    if number[ITERATIONS] % number[STRIDE]:
        return
    if number[SAMPLES] == MOST_SAMPLES:
        half = MOST_SAMPLES // 2
        for i in range(half):
            for row in range(replica.series.shape[0]):
                replica.series[row, i] = replica.series[row, 2 * i + 1]
        number[SAMPLES] = half
        number[STRIDE] *= 2
        if number[ITERATIONS] % number[STRIDE]:
            return
    at = number[SAMPLES]
    replica.series[0, at] = replica.second[CLOCK]
    replica.series[1, at] = number[RUNNING]
    replica.series[2, at] = number[QUEUED]
    replica.series[3, at] = used_blocks(replica, limits)
    number[SAMPLES] += 1


@compiled
def _remember_step(replica: Replica, decoding: int, emitted: int) -> None:
    """Time and tokens per decoding request, of which the latest steps count most."""
    second = replica.second
    if decoding == 0:
        return
    tokens = emitted / decoding
    weight = REMEMBERED if second[STEP_S] > 0.0 else 1.0
    second[STEP_S] += weight * (second[SINCE_DECODE_S] - second[STEP_S])
    second[TOKENS] += weight * (tokens - second[TOKENS])
    second[SINCE_DECODE_S] = 0.0


@compiled
def start(replica: Replica, seconds: float) -> None:
    """The composed iteration begins; moving blocks to and from the host comes on top."""
    second = replica.second
    seconds += second[SWAP_S]
    second[SWAP_S] = 0.0
    second[BEGAN] = second[CLOCK]
    second[END] = second[CLOCK] + seconds
    second[BUSY_S] += seconds
    second[SINCE_DECODE_S] += seconds
    replica.number[BUSY] = 1


@compiled
def _step(replica: Replica, requests: Requests, limits: Limits, d: Drafts, r: int) -> int:
    """What a request computed in the iteration counts; tokens that it emits."""
    quota = requests[r].quota
    requests[r].quota = 0
    if requests[r].phase == DECODING:
        emitted = advance_walk(d, replica, requests, r, replica.number[BATCH])
        requests[r].computed += emitted
        return int(emitted)
    requests[r].computed += quota
    if requests[r].computed < requests[r].prompt + requests[r].made:
        return 0
    requests[r].phase = DECODING
    if d.decoder == AHEAD:
        requests[r].pending = NOTHING
    return limits.lag


@compiled
def settle(replica: Replica, requests: Requests, prefixes: Prefixes, limits: Limits, d: Drafts) -> None:
    """End the iteration: emit, deliver, let finished requests go."""
    number, second, running = replica.number, replica.second, replica.running
    now = second[END]
    second[CLOCK] = now
    number[BUSY] = 0
    number[ITERATIONS] += 1
    before, kept, waits, emitted_before = number[RUNNING], 0, 0, number[EMITTED]
    wait, place = -1.0, 0
    for i in range(before):
        r = running[i]
        emitted = _step(replica, requests, limits, d, r) if requests[r].quota > 0 else 0
        if emitted > 0:
            if requests[r].made == 0:
                requests[r].first_s = now
            else:
                if now - requests[r].delivered_s != wait:
                    replica.itl[place] += waits
                    second[ITL_S] += waits * wait
                    waits, wait = 0, now - requests[r].delivered_s
                    place = bin_of(wait)
                waits += 1
            requests[r].delivered_s = now
            requests[r].made += emitted
            if requests[r].made == requests[r].output:
                release(replica, requests, prefixes, limits, r)
                requests[r].last_s = now
                if limits.reserve:
                    number[RESERVED] -= most_blocks(requests, limits, r)
                end_request(replica, requests, limits, r, FINISHED, now)
                continue
        running[kept] = r
        kept += 1
    replica.itl[place] += waits
    second[ITL_S] += waits * wait
    number[RUNNING] = kept
    everybody = number[DECODING_NOW] == before and number[CHUNKS] == 0 and number[GAVE_WAY] == 0
    number[EVEN] = everybody and (number[QUEUED] == 0 or (kept == before and number[ADMITTED] == 0))
    _remember_step(replica, number[DECODING_NOW], number[EMITTED] - emitted_before)
    forget_slowly(d, replica)
    _sample(replica, limits)


@compiled
def _fail(replica: Replica, requests: Requests, prefixes: Prefixes, limits: Limits, everybody: bool) -> None:
    """Give up the first request, or all of them: those that have not been sent yet too."""
    number, now = replica.number, replica.second[CLOCK]
    while number[RUNNING] > 0:
        r = replica.running[0]
        release(replica, requests, prefixes, limits, r)
        leave(replica, requests, limits, 0)
        end_request(replica, requests, limits, r, FAILED, now)
        if not everybody:
            return
    while number[QUEUED] > 0:
        r = dequeue(replica.heap, number, requests)
        end_request(replica, requests, limits, r, FAILED, now)
        if not everybody:
            return
    while everybody and number[TAKEN] < number[ARRIVED]:
        number[TAKEN] += 1
        end_request(replica, requests, limits, replica.inbox[number[TAKEN] - 1], FAILED, now)


@compiled
def begin(
    replica: Replica, requests: Requests, prefixes: Prefixes, limits: Limits, d: Drafts, t: Tables, until: float
) -> int:  # fmt: skip
    """Compose the next iteration, waiting for requests if there is nothing to do.

    Returns:
        COMPOSED; PAUSED, if nothing can start before `until`; DONE, if nothing is left and nothing more is known to
        come.
    """
    number, second = replica.number, replica.second
    empty = 0
    while True:
        if second[CLOCK] >= limits.horizon_s:
            _fail(replica, requests, prefixes, limits, True)
            return DONE
        if second[CLOCK] >= until:
            return PAUSED
        _take_in(replica, requests, limits, second[BEGAN] if limits.ahead else second[CLOCK])
        if number[RUNNING] == 0 and number[QUEUED] == 0:
            _take_in(replica, requests, limits, second[CLOCK])
        if number[RUNNING] == 0 and number[QUEUED] == 0:
            coming = next_arrival_s(replica, requests, limits)
            if coming == np.inf:
                return DONE
            if coming >= until:
                return PAUSED
            second[CLOCK] = max(second[CLOCK], min(coming, limits.horizon_s))
            second[SINCE_DECODE_S] = 0.0
            empty = 0
            continue
        compose(replica, requests, prefixes, limits, d, t)
        if number[ROWS] > 0:
            return COMPOSED
        empty += 1
        if empty > 2:  # no rule leads here; better one request lost than a simulation that never ends
            _fail(replica, requests, prefixes, limits, False)
            empty = 0


@compiled
def _alike(replica: Replica, requests: Requests, limits: Limits, t: Tables, until: float) -> None:
    """Advance iterations in which everybody who runs decodes one token and nobody comes or goes."""
    number, second, running = replica.number, replica.second, replica.running
    b = number[RUNNING]
    full = b == limits.max_requests
    if b == 0 or (number[QUEUED] > 0 and not full and (limits.slo_ttft_s < np.inf or limits.slo_tpot_s < np.inf)):
        return
    most = (number[UNUSED] // b - 1) * limits.block_tokens
    context = 0
    for i in range(b):
        most = min(most, requests[running[i]].output - requests[running[i]].made - 1)
        context += requests[running[i]].computed
    stop, arrival = min(until, limits.horizon_s), np.inf
    if not (full and limits.users >= number[ARRIVED]):
        arrival = next_arrival_s(replica, requests, limits)
    done, last_seen = 0, -1.0
    seen = second[BEGAN] if limits.ahead else second[CLOCK]
    while done < most and second[CLOCK] < stop and seen < arrival:
        seconds = target_seconds(t, b, 1.0, float(context + b * done), replica.chunks, 0, 0)
        began = second[CLOCK]
        end = began + seconds
        second[BUSY_S] += seconds
        second[SINCE_DECODE_S] += seconds
        wait = end - began
        replica.itl[bin_of(wait)] += b
        second[ITL_S] += b * wait
        second[BEGAN] = began
        second[CLOCK] = end
        number[ITERATIONS] += 1
        _remember_step(replica, b, b)
        done += 1
        last_seen, seen = seen, began if limits.ahead else end
        if number[ITERATIONS] % number[STRIDE] == 0:
            break
    if done == 0:
        return
    for i in range(b):
        r = running[i]
        requests[r].computed += done
        requests[r].made += done
        requests[r].delivered_s = second[CLOCK]
        blocks = missing_blocks(requests, limits, r, requests[r].computed)
        if blocks:
            grow(replica, requests, limits, r, blocks)
    for total in (STEPS, EMITTED):
        number[total] += b * done
    replica.by_batch[0, b] += b * done
    replica.by_batch[1, b] += b * done
    _take_in(replica, requests, limits, last_seen)
    _sample(replica, limits)


@compiled
def advance(
    replica: Replica,
    requests: Requests,
    prefixes: Prefixes,
    limits: Limits,
    d: Drafts,
    t: Tables,
    until: float,
    most: int,
    merge: bool,
) -> int:  # fmt: skip
    """Run iterations that start before `until`, at most about `most` of them; those that end later stay under way.

    Returns:
        PAUSED at `until`, DONE with everything that is known, or COUNTED after `most` turns.
    """
    number = replica.number
    for _ in range(most):
        if number[BUSY]:
            if replica.second[END] > until:
                return PAUSED
            settle(replica, requests, prefixes, limits, d)
        if merge and number[EVEN] and d.decoder == PLAIN:
            _alike(replica, requests, limits, t, until)
        status = begin(replica, requests, prefixes, limits, d, t, until)
        if status != COMPOSED:
            return int(status)
        start(replica, tabled_seconds(replica, requests, d, t))
    return COUNTED
