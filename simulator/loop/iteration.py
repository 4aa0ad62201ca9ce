"""What does an iteration bring about, and which one follows?

Tokens are delivered at its end, requests end, the next iteration starts at once if there is
anything to do. Iterations that differ from the one before in their context alone are advanced
without touching every request in between. Leaves out what enters an iteration (`scheduler`) and
everything between replicas (`simulator.loop.service`).
"""

from __future__ import annotations

import numpy as np

from simulator.loop.compiled import compiled
from simulator.loop.decoders.block_walk import count_shared
from simulator.loop.decoders.drafting import decode, forget_slowly, without_draft
from simulator.loop.decoders.lengths import learn, see_step
from simulator.loop.decoders.record import (
    ALWAYS,
    BLOCK,
    PARALLEL,
    Decoder,
    Places,
    Steps,
)
from simulator.loop.histogram import bin_of
from simulator.loop.request import DECODING, FAILED, FINISHED, REJECTED
from simulator.loop.scheduling.kv_cache import (
    grow,
    missing_blocks,
    most_blocks,
    obtainable,
    release,
)
from simulator.loop.scheduling.scheduler import compose, leave
from simulator.loop.scheduling.split import is_one_pass
from simulator.loop.scheduling.waiting import dequeue, end_request, enqueue
from simulator.loop.state import (
    BY_ROWS,
    BY_SAMPLED,
    EMITTED,
    MOST_SAMPLES,
    STEPS,
    Buffers,
    Prefixes,
    Queue,
    Real,
    Replica,
    Requests,
    SchedulerLimits,
    Whole,
)
from simulator.loop.tables import Tables, target_seconds

COMPOSED, PAUSED, DONE, COUNTED, ASKED, _GOES_ON = range(6)
REMEMBERED = 0.2  # weight of the latest step in the time per token that admission looks at


@compiled
def next_arrival_s(replica: Replica, queue: Queue, requests: Requests) -> float:
    """When the next request is known to reach the replica; infinity: none is."""
    if replica.taken < replica.sent:
        return requests[queue[replica.taken].inbox].ready_s
    return np.inf


@compiled
def _take_in(
    replica: Replica,
    queue: Queue,
    requests: Requests,
    limits: SchedulerLimits,
    latest_s: float,
) -> None:
    """Queue what has arrived by `latest_s`; what can never fit is rejected."""
    while next_arrival_s(replica, queue, requests) <= latest_s:
        r = queue[replica.taken].inbox
        request = requests[r]
        replica.taken += 1
        too_long = not limits.chunked and request.prompt > limits.token_budget
        if too_long or most_blocks(request, limits) > limits.kv_blocks:
            end_request(replica, queue, requests, r, REJECTED, replica.clock_s)
        else:
            enqueue(replica, queue, requests, r)


@compiled
def _sample(replica: Replica, limits: SchedulerLimits) -> None:
    """Note the state after every so many iterations; when the room is used up, after twice as
    many.
    """
    if replica.iterations % replica.sample_stride:
        return
    if replica.samples == MOST_SAMPLES:
        half = MOST_SAMPLES // 2
        for i in range(half):
            for row in range(4):
                replica.series[row, i] = replica.series[row, 2 * i + 1]
        replica.samples = half
        replica.sample_stride *= 2
        if replica.iterations % replica.sample_stride:
            return
    at = replica.samples
    replica.series[0, at] = replica.clock_s
    replica.series[1, at] = replica.running
    replica.series[2, at] = replica.queued
    replica.series[3, at] = limits.kv_blocks - obtainable(replica)
    replica.samples += 1


@compiled
def _remember_step(replica: Replica, decoding: int, emitted: int) -> None:
    """Time and tokens per decoding request, of which the latest steps count most."""
    if decoding == 0:
        return
    tokens = emitted / decoding
    weight = REMEMBERED if replica.recent_step_s > 0.0 else 1.0
    replica.recent_step_s += weight * (replica.since_decode_s - replica.recent_step_s)
    replica.recent_tokens += weight * (tokens - replica.recent_tokens)
    replica.since_decode_s = 0.0


@compiled
def start(replica: Replica, counts: Whole, limits: SchedulerLimits, seconds: float) -> None:
    """The composed iteration begins; moving blocks to and from the host comes on top."""
    seconds += replica.swap_s
    replica.swap_s = 0.0
    replica.began_s = replica.clock_s
    replica.end_s = replica.clock_s + seconds
    replica.busy_s += seconds
    replica.since_decode_s += seconds
    replica.busy = 1
    counts[BY_ROWS, min(replica.rows, limits.most_rows)] += 1
    sampled = replica.decode_rows + replica.chunks - replica.full_passes
    counts[BY_SAMPLED, min(sampled, limits.most_rows)] += 1


@compiled
def _close(
    replica: Replica,
    counts: Whole,
    memory: Real | None,
    limits: SchedulerLimits,
    d: Decoder | None,
    tables: Real | None,
    before: int,
    emitted: int,
) -> None:
    """Count an iteration of `before` running requests, of which those that decode emitted so many
    tokens.
    """
    decoding = replica.decoding
    replica.steps += decoding
    counts[STEPS, decoding] += decoding
    counts[EMITTED, decoding] += emitted
    everybody = decoding == before and replica.chunks == 0 and replica.preempted == 0
    replica.steady = everybody and (
        replica.queued == 0 or (replica.running == before and replica.admitted == 0)
    )
    replica.all_decode = everybody
    _remember_step(replica, decoding, emitted)
    if d is not None:
        if d.controller != ALWAYS or d.rereads:
            learn(d, tables, replica, memory, emitted)
        forget_slowly(d, replica)
    _sample(replica, limits)


@compiled
def settle(  # noqa: PLR0912, PLR0915 - calls with arrays take as long as a step
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Decoder | None,
    steps: Steps | None,
    places: Places | None,
    tables: Real | None,
) -> None:
    """End the iteration: emit, deliver, let finished requests go."""
    running, memory, counts = buffers.running, buffers.memory, buffers.counts
    now = replica.end_s
    replica.clock_s = now
    replica.busy = 0
    replica.iterations += 1
    replica.unseen += limits.receive_iterations if replica.chunks > replica.full_passes else 1
    watched = False
    if d is not None:
        watched = d.controller != ALWAYS or d.rereads
        if d.decoder == BLOCK:
            count_shared(d, replica, running, requests, places)
    before, remaining, waits, emitted_before = replica.running, 0, 0, replica.emitted
    accepted_before = replica.accepted
    wait, wait_bin = -1.0, 0
    for i in range(before):
        r = running[i]
        request = requests[r]
        quota, emitted = int(request.quota), 0
        request.quota = 0
        if quota > 0 and request.phase == DECODING:
            emitted = 1 if d is None else decode(d, steps, places, replica, request)
            replica.emitted += emitted
            request.computed += emitted
            if d is not None and watched:
                see_step(d, replica, memory, request, emitted)
        elif quota > 0:
            request.computed += quota
            if request.computed >= request.prompt + request.generated:
                request.phase = DECODING
                emitted = limits.lag
                if d is not None and d.decoder == PARALLEL:
                    request.pending = without_draft(d)
        if emitted > 0:
            if request.generated == 0:
                request.first_s = now
            else:
                if now - request.delivered_s != wait:
                    replica.itl[wait_bin] += waits
                    replica.itl_s += waits * wait
                    waits, wait = 0, now - request.delivered_s
                    wait_bin = bin_of(wait)
                waits += 1
            request.delivered_s = now
            request.generated += emitted
            if request.generated == request.output:
                release(replica, buffers.seats, buffers.blocks, prefixes, limits, request, r)
                end_request(replica, buffers.queue, requests, r, FINISHED, now)
                continue
        running[remaining] = r
        remaining += 1
    replica.itl[wait_bin] += waits
    replica.itl_s += waits * wait
    replica.running = remaining
    replica.just_accepted = replica.accepted - accepted_before
    _close(replica, counts, memory, limits, d, tables, before, replica.emitted - emitted_before)


@compiled
def _fail(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    everybody: bool,
) -> None:
    """Give up the first request, or all of them: those that have not been sent yet too."""
    queue, now = buffers.queue, replica.clock_s
    while replica.running > 0:
        r = buffers.running[0]
        release(replica, buffers.seats, buffers.blocks, prefixes, limits, requests[r], r)
        leave(replica, buffers.running, 0)
        end_request(replica, queue, requests, r, FAILED, now)
        if not everybody:
            return
    while replica.queued > 0:
        waiting = dequeue(replica, queue, requests)
        end_request(replica, queue, requests, waiting, FAILED, now)
        if not everybody:
            return
    while everybody and replica.taken < replica.sent:
        replica.taken += 1
        coming = queue[replica.taken - 1].inbox
        end_request(replica, queue, requests, coming, FAILED, now)


@compiled
def begin(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Decoder | None,
    places: Places | None,
    tables: Real | None,
    t: Tables,
    seconds: Real,
    until: float,
) -> int:
    """Compose the next iteration, waiting for requests if there is nothing to do.

    Returns:
        COMPOSED; PAUSED, if nothing can start before `until` (seconds); DONE, if nothing is left
        and nothing more is known to come.
    """
    empty, queue = 0, buffers.queue
    status = _GOES_ON
    while status == _GOES_ON:
        is_over = replica.clock_s >= limits.horizon_s
        if is_over:
            _fail(replica, buffers, requests, prefixes, limits, is_over)
            status = DONE
            continue
        if replica.clock_s >= until:
            status = PAUSED
            continue
        if replica.unseen >= limits.receive_iterations or replica.running == 0:
            look_s = replica.began_s if limits.overlapped else replica.clock_s
            _take_in(replica, queue, requests, limits, look_s)
            replica.unseen = 0
        if replica.running == 0 and replica.queued == 0:
            _take_in(replica, queue, requests, limits, replica.clock_s)
        if replica.running == 0 and replica.queued == 0:
            coming = next_arrival_s(replica, queue, requests)
            if coming == np.inf:
                status = DONE
            elif coming >= until:
                status = PAUSED
            else:
                replica.clock_s = max(replica.clock_s, min(coming, limits.horizon_s))
                replica.since_decode_s = 0.0
                empty = 0
            continue
        compose(replica, buffers, requests, prefixes, limits, d, places, tables, t, seconds)
        empty = 0 if replica.rows > 0 else empty + 1
        status = COMPOSED if replica.rows > 0 else _GOES_ON
        # no rule leads here; better one request lost than a simulation that never ends
        if empty > 2:
            _fail(replica, buffers, requests, prefixes, limits, is_over)
            empty = 0
    return status


@compiled
def _count_alike(
    replica: Replica, counts: Whole, limits: SchedulerLimits, b: int, done: int
) -> None:
    """Count so many iterations in which each of b requests emitted a token."""
    replica.steps += b * done
    replica.emitted += b * done
    counts[STEPS, b] += b * done
    counts[EMITTED, b] += b * done
    counts[BY_ROWS, min(b, limits.most_rows)] += done
    counts[BY_SAMPLED, min(b, limits.most_rows)] += done


@compiled
def steady_run(  # noqa: PLR0911, PLR0912, PLR0915 - each call is compiled once more
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    limits: SchedulerLimits,
    t: Tables,
    seconds: Real,
    merge: bool | None,
    until: float,
    to_end: bool,
    goes: bool,
) -> float:
    """Advance iterations in which everybody who runs decodes one token and nobody comes or goes;
    none where `merge` is None or the latest iteration was another.

    Args:
        replica: no iteration of it is under way.
        buffers: its arrays.
        requests: of the workload.
        limits: of the scheduler.
        t: numbers of the tables.
        seconds: tables.
        merge: whether iterations are advanced together.
        until: seconds before which they begin.
        to_end: whether it counts when a request is refused.
        goes: False: say how far it would go, and stay.

    Returns:
        The clock after them, in seconds.
    """
    clock = replica.clock_s
    if merge is None:
        return clock
    if not replica.steady:
        return clock
    running, counts, chunks = buffers.running, buffers.counts, buffers.chunks
    b = replica.running
    full = b == limits.max_requests
    # a queue can change although nobody comes or goes: by limits of time, or after a wait for
    # company
    queue_moves = (
        limits.slo_ttft_s < np.inf or limits.slo_tpot_s < np.inf or limits.wait_iterations > 0
    )
    if b == 0 or (replica.queued > 0 and not full and queue_moves):
        return clock
    if not is_one_pass(replica, limits):
        return clock
    most = (replica.unused_blocks // b - 1) * limits.block_tokens
    context = 0
    for i in range(b):
        request = requests[running[i]]
        most = min(most, request.output - request.generated - 1)
        context += request.computed
    stop = min(until, limits.horizon_s)
    arrival = next_arrival_s(replica, buffers.queue, requests)
    if arrival < np.inf and limits.receive_iterations > 1:
        return clock
    if full and until == np.inf and not to_end:
        arrival = np.inf  # who comes waits; nobody asks when one is refused
    # when the scheduler looks for arrivals before the next iteration, and looked before the latest
    done, last_look_s = 0, -1.0
    look_s = replica.began_s if limits.overlapped else clock
    while done < most and clock < stop and look_s < arrival:
        step_s = target_seconds(t, seconds, b, 1.0, float(context + b * done), chunks, 0, False)
        began = clock
        clock = began + step_s
        done += 1
        last_look_s, look_s = look_s, began if limits.overlapped else clock
        if not goes:
            continue
        replica.busy_s += step_s
        replica.since_decode_s += step_s
        wait = clock - began
        replica.itl[bin_of(wait)] += b
        replica.itl_s += b * wait
        replica.began_s = began
        replica.clock_s = clock
        replica.iterations += 1
        _remember_step(replica, b, b)
        if replica.iterations % replica.sample_stride == 0:
            break
    if done == 0 or not goes:
        return clock
    # the scheduler looks for new requests between so many iterations, and finds none
    unseen = replica.unseen if replica.unseen < limits.receive_iterations else 0
    replica.unseen = (unseen + done - 1) % limits.receive_iterations + 1
    for i in range(b):
        request = requests[running[i]]
        request.computed += done
        request.generated += done
        request.delivered_s = replica.clock_s
        missing = missing_blocks(request, limits, int(request.computed))
        if missing:
            grow(replica, buffers.blocks, request, limits, missing)
    _count_alike(replica, counts, limits, b, done)
    _take_in(replica, buffers.queue, requests, limits, last_look_s)
    _sample(replica, limits)
    return clock
