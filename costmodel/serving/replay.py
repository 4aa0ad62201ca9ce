"""Which iterations does an engine run when a closed loop of users keeps it busy?

A deterministic replay, iteration by iteration, of requests from c users, each of whom sends the next request when the
last one is answered. Compiled; `closed_loop` is its front door. Leaves out anything random: lengths are given.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from costmodel.ops import Array

Whole = npt.NDArray[np.int64]
WAITING, FILLING, DECODING, IDLE = 0, 1, 2, 3
# seconds of a run by what they were spent on, beside rows and sampling
DECODE_ATTENTION, PROMPT_ATTENTION, HOST, OVERHEAD = 0, 1, 2, 3
# counters of a run
IN_QUEUE, IN_FLIGHT, USED, STARTED, FINISHED, PREEMPTED, PROMPT, DECODED = 0, 1, 2, 3, 4, 5, 6, 7


class Limits(NamedTuple):
    """What bounds an iteration; numbers as in `Policy`, seconds of host and engine beside them.

    Where `ahead`, an iteration holds whoever was taken in when the one before it started.
    """

    mixes: bool
    chunks: bool
    batch_tokens: int
    requests: int
    cache_tokens: float
    reserve_ratio: float
    graph_rows: int
    eager_s: float
    step_s: float
    token_s: float
    intake_s: float
    ahead: bool = False


class Prices(NamedTuple):
    """Tables as in `IterationTables`, operations summed."""

    row_s: Array
    head_s: Array
    decode_s: Array
    prompt_s: Array
    launch_s: float
    context_step: int
    prompt_step: int


class Flight(NamedTuple):
    """Where every user's request is; arrays over users but for lengths, which are by request, and `counts`."""

    state: Whole
    request: Whole
    need: Whole  # tokens to compute before the next one is sampled
    computed: Whole
    made: Whole
    chunk: Whole  # prompt tokens of this iteration
    ready: Array  # when the front end has taken it in
    arrival: Array
    queue: Whole  # waiting, in order
    admitted: Whole  # in flight, in order of admission
    done: Whole  # users whose request this iteration finished
    prompts: Whole
    outputs: Whole
    counts: Whole


class Seen(NamedTuple):
    """Seconds from the arrival of each request to its first and to its last token."""

    first_s: Array
    last_s: Array


class Run(NamedTuple):
    """A finished replay: arrays over requests in the order of their arrival, iterations by size, sums."""

    ttft_s: Array
    last_s: Array
    row_counts: Whole
    sampled_counts: Whole
    seconds: Array
    clock_s: float
    iterations: int
    counts: Whole


@njit(cache=True)
def _between(table: Array, position: float) -> float:
    low = int(position)
    if low >= table.shape[0] - 1:
        return float(table[table.shape[0] - 1])
    share = position - low
    return float(table[low] * (1.0 - share) + table[low + 1] * share)


@njit(cache=True)
def _make_room(f: Flight, limits: Limits) -> int:
    """Let the latest in give way until everybody who decodes has room for a token; how many decode."""
    at = f.counts
    decoding = 0
    for i in range(at[IN_FLIGHT]):
        if f.state[f.admitted[i]] == DECODING:
            decoding += 1
    while at[USED] + decoding > limits.cache_tokens and at[IN_FLIGHT] > 1:
        at[IN_FLIGHT] -= 1
        u = f.admitted[at[IN_FLIGHT]]
        if f.state[u] == DECODING:
            decoding -= 1
        at[USED] -= f.computed[u]
        f.need[u] = f.prompts[f.request[u]] + f.made[u]
        f.computed[u] = 0
        f.state[u] = WAITING
        for i in range(at[IN_QUEUE], 0, -1):
            f.queue[i] = f.queue[i - 1]
        f.queue[0] = u
        at[IN_QUEUE] += 1
        at[PREEMPTED] += 1
    return decoding


@njit(cache=True)
def _continue_prompts(f: Flight, budget: int) -> int:
    """Chunks of the prompts that were begun before; their tokens."""
    fresh = 0
    for i in range(f.counts[IN_FLIGHT]):
        u = f.admitted[i]
        if f.state[u] == FILLING and fresh < budget:
            f.chunk[u] = min(f.need[u] - f.computed[u], budget - fresh)
            fresh += f.chunk[u]
    return fresh


@njit(cache=True)
def _held_tokens(f: Flight, limits: Limits) -> float:
    """Cache that the requests in flight have or were promised."""
    held = 0.0
    for i in range(f.counts[IN_FLIGHT]):
        u = f.admitted[i]
        held += max(f.computed[u], f.need[u]) + limits.reserve_ratio * (f.outputs[f.request[u]] - f.made[u])
    return held


@njit(cache=True)
def _admit(f: Flight, limits: Limits, decided: float, decoding: int, fresh: int) -> int:
    """Begin waiting prompts in their order while tokens, requests and cache allow; prompt tokens with theirs."""
    at = f.counts
    budget = limits.batch_tokens - (decoding if limits.mixes else 0)
    held = _held_tokens(f, limits)
    head = 0
    while head < at[IN_QUEUE] and at[IN_FLIGHT] < limits.requests and fresh < budget:
        u = f.queue[head]
        more = f.need[u] + limits.reserve_ratio * (f.outputs[f.request[u]] - f.made[u])
        full = at[IN_FLIGHT] > 0 and max(held, at[USED] + decoding) + more > limits.cache_tokens
        cut = not limits.chunks and f.need[u] > budget - fresh and fresh > 0
        if f.ready[u] > decided or full or cut:
            break
        f.chunk[u] = min(f.need[u], budget - fresh) if limits.chunks else f.need[u]
        fresh += f.chunk[u]
        held += more
        f.state[u] = FILLING
        f.admitted[at[IN_FLIGHT]] = u
        at[IN_FLIGHT] += 1
        head += 1
    if head > 0:
        for i in range(head, at[IN_QUEUE]):
            f.queue[i - head] = f.queue[i]
        at[IN_QUEUE] -= head
    return fresh


@njit(cache=True)
def _attention(f: Flight, prices: Prices, decodes: bool, seconds: Array) -> int:
    """Bill the iteration's attention into `seconds`; how many requests sample a token."""
    sampled, decoding, context, prompts = 0, 0, 0, 0.0
    for i in range(f.counts[IN_FLIGHT]):
        u = f.admitted[i]
        if f.state[u] == DECODING and decodes:
            decoding += 1
            context += f.computed[u]
        elif f.chunk[u] > 0:
            after = f.computed[u] + f.chunk[u]
            prompts += _between(prices.prompt_s, after / prices.prompt_step)
            prompts -= _between(prices.prompt_s, f.computed[u] / prices.prompt_step)
            sampled += after == f.need[u]
            if seconds[PROMPT_ATTENTION] == 0.0:
                seconds[PROMPT_ATTENTION] = prices.launch_s
    seconds[PROMPT_ATTENTION] += prompts
    if decoding > 0:
        seconds[DECODE_ATTENTION] = _between(prices.decode_s[decoding], context / decoding / prices.context_step)
    return sampled + decoding


@njit(cache=True)
def _compute(f: Flight, seen: Seen, clock: float, decodes: bool) -> None:
    """Count what the iteration computed and emitted for everybody in flight."""
    at = f.counts
    for i in range(at[IN_FLIGHT]):
        u = f.admitted[i]
        if f.state[u] == DECODING:
            if not decodes:
                continue
            f.computed[u] += 1
            at[USED] += 1
            at[DECODED] += 1
        else:
            f.computed[u] += f.chunk[u]
            at[USED] += f.chunk[u]
            at[PROMPT] += f.chunk[u]
            f.chunk[u] = 0
            if f.computed[u] < f.need[u]:
                continue
            f.state[u] = DECODING
        f.made[u] += 1
        if f.made[u] == 1:
            seen.first_s[f.request[u]] = clock - f.arrival[u]


@njit(cache=True)
def _answer(f: Flight, seen: Seen, clock: float) -> int:
    """Take finished requests out of flight; how many, their users in `done`."""
    at = f.counts
    kept, done = 0, 0
    for i in range(at[IN_FLIGHT]):
        u = f.admitted[i]
        if f.made[u] < f.outputs[f.request[u]]:
            f.admitted[kept] = u
            kept += 1
            continue
        seen.last_s[f.request[u]] = clock - f.arrival[u]
        at[USED] -= f.computed[u]
        f.state[u] = IDLE
        f.done[done] = u
        done += 1
    at[FINISHED] += done
    at[IN_FLIGHT] = kept
    return done


@njit(cache=True)
def _next_request(f: Flight, u: int, clock: float, taken: float) -> None:
    """Send a user's next request, taken in at `taken`."""
    at = f.counts
    f.state[u] = WAITING
    f.request[u] = at[STARTED]
    f.need[u] = f.prompts[f.request[u]]
    f.computed[u] = 0
    f.made[u] = 0
    f.arrival[u] = clock
    f.ready[u] = taken
    f.queue[at[IN_QUEUE]] = u
    at[IN_QUEUE] += 1
    at[STARTED] += 1


@njit(cache=True)
def _take_off(users: int, prompts: Whole, outputs: Whole, intake_s: float) -> Flight:
    counts = np.zeros(8, dtype=np.int64)
    counts[IN_QUEUE] = users
    counts[STARTED] = users
    ready = np.zeros(users)
    for u in range(users):
        ready[u] = (u + 1) * intake_s
    return Flight(
        np.full(users, WAITING),
        np.arange(users),
        prompts[:users].copy(),
        np.zeros(users, dtype=np.int64),
        np.zeros(users, dtype=np.int64),
        np.zeros(users, dtype=np.int64),
        ready,
        np.zeros(users),
        np.arange(users),
        np.zeros(users, dtype=np.int64),
        np.zeros(users, dtype=np.int64),
        prompts,
        outputs,
        counts,
    )


def replay(
    users: int,
    requests: int,
    prompt_tokens: int | Whole,
    output_tokens: int | Whole,
    limits: Limits,
    prices: Prices,
) -> Run:
    """Run `requests` requests of `users` users to their end.

    The engine's front end takes requests in one after another, `intake_s` each. Out of cache, the request admitted
    last gives way, and later computes its tokens again.

    Args:
        users: c >= 1.
        requests: in all, >= users.
        prompt_tokens: of each, >= 1; one number, or one per request in the order in which they are sent.
        output_tokens: of each, >= 1, likewise.
        limits: of the scheduler.
        prices: what iterations cost.
    """
    prompts, outputs = (
        np.ascontiguousarray(np.broadcast_to(np.asarray(each, dtype=np.int64), (requests,)))
        for each in (prompt_tokens, output_tokens)
    )
    return _run(users, prompts.copy(), outputs.copy(), limits, prices)  # type: ignore[no-any-return]


@njit(cache=True)
def _run(users: int, prompts: Whole, outputs: Whole, limits: Limits, prices: Prices) -> Run:
    requests = prompts.size
    f = _take_off(users, prompts, outputs, limits.intake_s)
    at = f.counts
    seen = Seen(np.zeros(requests), np.zeros(requests))
    row_counts = np.zeros(prices.row_s.shape[0], dtype=np.int64)
    sampled_counts = np.zeros(prices.head_s.shape[0], dtype=np.int64)
    seconds = np.zeros(4)
    clock, taken, iterations = 0.0, users * limits.intake_s, 0
    before = 0.0  # when the last iteration started
    while at[FINISHED] < requests:
        if at[IN_FLIGHT] == 0:
            clock = max(clock, f.ready[f.queue[0]])
            before = clock
        decoding = _make_room(f, limits)
        fresh = _continue_prompts(f, limits.batch_tokens - (decoding if limits.mixes else 0))
        fresh = _admit(f, limits, before if limits.ahead else clock, decoding, fresh)
        before = clock
        decodes = limits.mixes or fresh == 0
        rows = fresh + (decoding if decodes else 0)
        now = np.zeros(4)
        sampled = _attention(f, prices, decodes, now)
        device_s = prices.row_s[rows] + prices.head_s[sampled] + now[DECODE_ATTENTION] + now[PROMPT_ATTENTION]
        if fresh > 0 and rows > limits.graph_rows:
            now[HOST] = max(0.0, limits.eager_s - device_s)
        now[OVERHEAD] = limits.step_s + limits.token_s * sampled
        clock += device_s + now[HOST] + now[OVERHEAD]
        seconds += now
        row_counts[rows] += 1
        sampled_counts[sampled] += 1
        iterations += 1
        _compute(f, seen, clock, decodes)
        for i in range(_answer(f, seen, clock)):
            if at[STARTED] < requests:
                taken = max(taken, clock) + limits.intake_s
                _next_request(f, f.done[i], clock, taken)
    return Run(seen.first_s, seen.last_s, row_counts, sampled_counts, seconds, clock, iterations, at)
