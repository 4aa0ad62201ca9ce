"""What does an iteration bring about, and which one follows?

Tokens are delivered at its end, requests end, the next iteration starts at once if there is
anything to do. Iterations that differ from the one before in their context alone are advanced
without touching every request in between. Leaves out what enters an iteration (`scheduler`) and
everything between replicas (`simulator.cluster.environment`).
"""

from __future__ import annotations

import numpy as np

from simulator.loop.compiled import compiled, inlined
from simulator.loop.decoders.block_walk import count_shared
from simulator.loop.decoders.drafting import advance_walk, forget_slowly
from simulator.loop.decoders.lengths import learn, see_step
from simulator.loop.decoders.record import ALWAYS, BLOCK, NOTHING, PARALLEL, PLAIN, Drafts
from simulator.loop.histogram import bin_of
from simulator.loop.passes import tabled_seconds
from simulator.loop.request import DECODING, FAILED, FINISHED, REJECTED
from simulator.loop.scheduling.kv_cache import (
    grow,
    missing_blocks,
    most_blocks,
    release,
    used_blocks,
)
from simulator.loop.scheduling.scheduler import compose, leave
from simulator.loop.scheduling.split import is_one_pass
from simulator.loop.scheduling.waiting import dequeue, end_request, enqueue
from simulator.loop.state import MOST_SAMPLES, Buffers, Prefixes, Replica, Requests, SchedulerLimits
from simulator.loop.tables import Tables, target_seconds

COMPOSED, PAUSED, DONE, COUNTED = range(4)
REMEMBERED = 0.2  # weight of the latest step in the time per token that admission looks at


@compiled
def next_arrival_s(
    replica: Replica, buffers: Buffers, requests: Requests, limits: SchedulerLimits
) -> float:
    """When the next request is known to reach the replica; infinity: none is."""
    if replica.taken < min(replica.sent, limits.users + replica.ended):
        return float(requests[buffers.inbox[replica.taken]].ready_s)
    return np.inf


@compiled
def _take_in(
    replica: Replica, buffers: Buffers, requests: Requests, limits: SchedulerLimits, latest_s: float
) -> None:
    """Queue what has arrived by `latest_s`; what can never fit is rejected."""
    while next_arrival_s(replica, buffers, requests, limits) <= latest_s:
        r = buffers.inbox[replica.taken]
        replica.taken += 1
        too_long = not limits.chunked and requests[r].prompt > limits.token_budget
        if too_long or most_blocks(requests, limits, r) > limits.kv_blocks:
            end_request(replica, buffers, requests, limits, r, REJECTED, replica.clock_s)
        else:
            enqueue(replica, buffers, requests, r)


@compiled
def _sample(replica: Replica, buffers: Buffers, limits: SchedulerLimits) -> None:
    """Note the state after every so many iterations; when the room is used up, after twice as
    many.
    """
    if replica.iterations % replica.sample_stride:
        return
    if replica.samples == MOST_SAMPLES:
        half = MOST_SAMPLES // 2
        for i in range(half):
            for row in range(buffers.series.shape[0]):
                buffers.series[row, i] = buffers.series[row, 2 * i + 1]
        replica.samples = half
        replica.sample_stride *= 2
        if replica.iterations % replica.sample_stride:
            return
    at = replica.samples
    buffers.series[0, at] = replica.clock_s
    buffers.series[1, at] = replica.running
    buffers.series[2, at] = replica.queued
    buffers.series[3, at] = used_blocks(replica, limits)
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
def start(replica: Replica, buffers: Buffers, seconds: float) -> None:
    """The composed iteration begins; moving blocks to and from the host comes on top."""
    seconds += replica.swap_s
    replica.swap_s = 0.0
    replica.began_s = replica.clock_s
    replica.end_s = replica.clock_s + seconds
    replica.busy_s += seconds
    replica.since_decode_s += seconds
    replica.busy = 1
    most = buffers.by_rows.shape[1] - 1
    buffers.by_rows[0, min(replica.rows, most)] += 1
    buffers.by_rows[1, min(replica.decode_rows + replica.prompts_ending, most)] += 1


@inlined
def _step(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    limits: SchedulerLimits,
    d: Drafts,
    r: int,
    watched: bool,
) -> int:
    """What a request computed in the iteration counts; tokens that it emits."""
    quota = requests[r].quota
    requests[r].quota = 0
    if requests[r].phase == DECODING:
        emitted = advance_walk(d, replica, requests, r, replica.draft_limit)
        requests[r].computed += emitted
        if watched:
            see_step(d, replica, buffers, requests, r, emitted)
        return int(emitted)
    requests[r].computed += quota
    if requests[r].computed < requests[r].prompt + requests[r].generated:
        return 0
    requests[r].phase = DECODING
    if d.decoder == PARALLEL:
        requests[r].pending = NOTHING
    return limits.lag


@compiled
def settle(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Drafts,
) -> None:
    """End the iteration: emit, deliver, let finished requests go."""
    running = buffers.running
    now = replica.end_s
    replica.clock_s = now
    replica.busy = 0
    replica.iterations += 1
    replica.unseen += limits.receive_iterations if replica.chunks > replica.full_passes else 1
    if d.decoder == BLOCK:
        count_shared(d, replica, buffers, requests)
    before, remaining, waits, emitted_before = replica.running, 0, 0, replica.emitted
    accepted_before = replica.accepted
    wait, place = -1.0, 0
    watched = d.controller != ALWAYS or d.rereads
    for i in range(before):
        r = running[i]
        emitted = (
            _step(replica, buffers, requests, limits, d, r, watched) if requests[r].quota > 0 else 0
        )
        if emitted > 0:
            if requests[r].generated == 0:
                requests[r].first_s = now
            else:
                if now - requests[r].delivered_s != wait:
                    buffers.itl[place] += waits
                    replica.itl_s += waits * wait
                    waits, wait = 0, now - requests[r].delivered_s
                    place = bin_of(wait)
                waits += 1
            requests[r].delivered_s = now
            requests[r].generated += emitted
            if requests[r].generated == requests[r].output:
                release(replica, buffers, requests, prefixes, limits, r)
                requests[r].last_s = now
                end_request(replica, buffers, requests, limits, r, FINISHED, now)
                continue
        running[remaining] = r
        remaining += 1
    buffers.itl[place] += waits
    replica.itl_s += waits * wait
    replica.running = remaining
    decoding, emitted_together = replica.decoding, replica.emitted - emitted_before
    replica.steps += decoding
    buffers.by_batch[0, decoding] += decoding
    buffers.by_batch[1, decoding] += emitted_together
    everybody = decoding == before and replica.chunks == 0 and replica.preempted == 0
    replica.steady = everybody and (
        replica.queued == 0 or (remaining == before and replica.admitted == 0)
    )
    replica.all_decode = everybody
    replica.just_accepted = replica.accepted - accepted_before
    _remember_step(replica, decoding, emitted_together)
    if watched:
        learn(d, replica, buffers, emitted_together)
    forget_slowly(d, replica)
    _sample(replica, buffers, limits)


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
    now = replica.clock_s
    while replica.running > 0:
        r = buffers.running[0]
        release(replica, buffers, requests, prefixes, limits, r)
        leave(replica, buffers, requests, limits, 0)
        end_request(replica, buffers, requests, limits, r, FAILED, now)
        if not everybody:
            return
    while replica.queued > 0:
        r = dequeue(replica, buffers, requests)
        end_request(replica, buffers, requests, limits, r, FAILED, now)
        if not everybody:
            return
    while everybody and replica.taken < replica.sent:
        replica.taken += 1
        end_request(
            replica, buffers, requests, limits, buffers.inbox[replica.taken - 1], FAILED, now
        )


@compiled
def begin(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Drafts,
    t: Tables,
    until: float,
) -> int:
    """Compose the next iteration, waiting for requests if there is nothing to do.

    Returns:
        COMPOSED; PAUSED, if nothing can start before `until`; DONE, if nothing is left and nothing
        more is known to come.
    """
    empty = 0
    while True:
        if replica.clock_s >= limits.horizon_s:
            _fail(replica, buffers, requests, prefixes, limits, True)
            return DONE
        if replica.clock_s >= until:
            return PAUSED
        if replica.unseen >= limits.receive_iterations or replica.running == 0:
            _take_in(
                replica,
                buffers,
                requests,
                limits,
                replica.began_s if limits.overlapped else replica.clock_s,
            )
            replica.unseen = 0
        if replica.running == 0 and replica.queued == 0:
            _take_in(replica, buffers, requests, limits, replica.clock_s)
        if replica.running == 0 and replica.queued == 0:
            coming = next_arrival_s(replica, buffers, requests, limits)
            if coming == np.inf:
                return DONE
            if coming >= until:
                return PAUSED
            replica.clock_s = max(replica.clock_s, min(coming, limits.horizon_s))
            replica.since_decode_s = 0.0
            empty = 0
            continue
        compose(replica, buffers, requests, prefixes, limits, d, t)
        if replica.rows > 0:
            return COMPOSED
        empty += 1
        if (
            empty > 2
        ):  # no rule leads here; better one request lost than a simulation that never ends
            _fail(replica, buffers, requests, prefixes, limits, False)
            empty = 0


@compiled
def _queue_moves(limits: SchedulerLimits) -> bool:
    """Whether a queue can change although nobody comes or goes: by limits of time, or after a wait
    for company.
    """
    return bool(
        limits.slo_ttft_s < np.inf or limits.slo_tpot_s < np.inf or limits.wait_iterations > 0
    )


@compiled
def _look_between(replica: Replica, limits: SchedulerLimits, done: int) -> None:
    """The scheduler looks for new requests between so many decoding iterations, and finds none."""
    unseen = replica.unseen if replica.unseen < limits.receive_iterations else 0
    replica.unseen = (unseen + done - 1) % limits.receive_iterations + 1


@compiled
def _steady_run(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    limits: SchedulerLimits,
    t: Tables,
    until: float,
) -> None:
    """Advance iterations in which everybody who runs decodes one token and nobody comes or goes."""
    running = buffers.running
    b = replica.running
    full = b == limits.max_requests
    if (
        b == 0
        or (replica.queued > 0 and not full and _queue_moves(limits))
        or not is_one_pass(replica, limits)
    ):
        return
    most = (replica.unused_blocks // b - 1) * limits.block_tokens
    context = 0
    for i in range(b):
        most = min(most, requests[running[i]].output - requests[running[i]].generated - 1)
        context += requests[running[i]].computed
    stop, arrival = min(until, limits.horizon_s), next_arrival_s(replica, buffers, requests, limits)
    if arrival < np.inf and limits.receive_iterations > 1:
        return
    if full and limits.users >= replica.sent:
        arrival = np.inf
    done, last_seen = 0, -1.0
    seen = replica.began_s if limits.overlapped else replica.clock_s
    while done < most and replica.clock_s < stop and seen < arrival:
        seconds = target_seconds(t, b, 1.0, float(context + b * done), buffers.chunks, 0, 0)
        began = replica.clock_s
        end = began + seconds
        replica.busy_s += seconds
        replica.since_decode_s += seconds
        wait = end - began
        buffers.itl[bin_of(wait)] += b
        replica.itl_s += b * wait
        replica.began_s = began
        replica.clock_s = end
        replica.iterations += 1
        _remember_step(replica, b, b)
        done += 1
        last_seen, seen = seen, began if limits.overlapped else end
        if replica.iterations % replica.sample_stride == 0:
            break
    if done == 0:
        return
    _look_between(replica, limits, done)
    for i in range(b):
        r = running[i]
        requests[r].computed += done
        requests[r].generated += done
        requests[r].delivered_s = replica.clock_s
        blocks = missing_blocks(requests, limits, r, requests[r].computed)
        if blocks:
            grow(replica, buffers, requests, limits, r, blocks)
    replica.steps += b * done
    replica.emitted += b * done
    buffers.by_batch[0, b] += b * done
    buffers.by_batch[1, b] += b * done
    most_rows = min(b, buffers.by_rows.shape[1] - 1)
    buffers.by_rows[0, most_rows] += done
    buffers.by_rows[1, most_rows] += done
    _take_in(replica, buffers, requests, limits, last_seen)
    _sample(replica, buffers, limits)


@compiled
def advance(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Drafts,
    t: Tables,
    until: float,
    most: int,
    merge: bool,
) -> int:
    """Run iterations that start before `until`, at most about `most` of them; those that end later
    stay under way.

    Returns:
        PAUSED at `until`, DONE with everything that is known, or COUNTED after `most` turns.
    """
    for _ in range(most):
        if replica.busy:
            if replica.end_s > until:
                return PAUSED
            settle(replica, buffers, requests, prefixes, limits, d)
        if merge and replica.steady and d.decoder == PLAIN:
            _steady_run(replica, buffers, requests, limits, t, until)
        status = begin(replica, buffers, requests, prefixes, limits, d, t, until)
        if status != COMPOSED:
            return int(status)
        start(replica, buffers, tabled_seconds(replica, buffers, requests, limits, d, t))
    return COUNTED
