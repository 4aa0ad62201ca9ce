"""Into which passes is an iteration split that is longer than a pass may be?

A batch lists the tokens of the requests that decode, then those of prompts. Passes take as many as
there is room for in that order; or, where every slot has a cache of its own, equally many tokens of
slots with consecutive numbers: requests in slots 0 and 2 make two passes, and drafts of unequal
lengths make one up to the end of each; such a pass reads every cache as far as the longest. Leaves
out what a pass costs (`simulator.loop.tables`), and that every token of a unified cache is compared
with everybody's.

Reference: llama.cpp, src/llama-batch.cpp `split_simple` and `split_equal`, called by
src/llama-kv-cache.cpp `init_batch` (the latter for a cache that is not unified); `get_n_kv` there
for what is read.
"""

from __future__ import annotations

from simulator.loop.compiled import compiled
from simulator.loop.request import DECODING
from simulator.loop.state import Buffers, Real, Replica, Requests, SchedulerLimits, Seats, Small
from simulator.loop.tables import Tables, device_seconds


@compiled
def line_up(replica: Replica, running: Small, seats: Seats, requests: Requests) -> int:
    """List the requests of the composed iteration, those that decode first; how many."""
    count = 0
    for prompts in range(2):
        for i in range(replica.running):
            r = running[i]
            if requests[r].quota > 0 and (requests[r].phase != DECODING) == prompts:
                seats[count].order = r
                seats[count].rows_left = requests[r].quota
                count += 1
    return count


@compiled
def is_one_pass(replica: Replica, limits: SchedulerLimits) -> bool:
    """Whether an iteration in which everybody who runs decodes one token is a single pass over
    their own caches.
    """
    return limits.pass_tokens == 0 or (
        not limits.equal_passes and replica.running <= limits.pass_tokens
    )


@compiled
def _fill(seats: Seats, limits: SchedulerLimits, count: int) -> None:
    """Choose the tokens of the next pass in the order of the batch."""
    room = limits.pass_tokens
    for i in range(count):
        seats[i].rows_now = min(seats[i].rows_left, room)
        room -= seats[i].rows_now


@compiled
def _fill_equally(seats: Seats, requests: Requests, limits: SchedulerLimits, count: int) -> None:
    """Choose equally many tokens of neighbouring slots, from the first in the batch that has any
    left.
    """
    members, last, tokens = 0, -1, limits.pass_tokens
    for i in range(count):
        slot = requests[seats[i].order].slot
        joins = (
            seats[i].rows_left > 0
            and members < limits.pass_tokens
            and (members == 0 or slot == last + 1)
        )
        seats[i].rows_now = 1 if joins else 0
        if joins:
            members, last, tokens = members + 1, slot, min(tokens, seats[i].rows_left)
    tokens = min(tokens, limits.pass_tokens // max(members, 1))
    for i in range(count):
        seats[i].rows_now *= tokens


@compiled
def next_pass(
    buffers: Buffers, requests: Requests, limits: SchedulerLimits, count: int
) -> tuple[int, int, float, float, int, int, int]:
    """Take the tokens of the next pass out of those that are left; prompts are written to
    `Buffers.pieces`.

    Args:
        buffers: with `count` requests lined up.
        requests: of the workload.
        limits: with `pass_tokens` above 0.
        count: requests of the iteration.

    Returns:
        Requests that decode, their query tokens, the cached tokens that are read for all of them
        and those of the longest, pieces of prompts, rows, and rows that are sampled.
    """
    seats, pieces = buffers.seats, buffers.pieces
    if limits.equal_passes:
        _fill_equally(seats, requests, limits, count)
    else:
        _fill(seats, limits, count)
    decoding, decode_rows, context, longest, prompts, rows, sampled = 0, 0, 0, 0, 0, 0, 0
    for i in range(count):
        now = seats[i].rows_now
        if now == 0:
            continue
        request = requests[seats[i].order]
        cached = request.computed + request.quota - seats[i].rows_left
        rows += now
        if request.phase == DECODING:
            decoding += 1
            decode_rows += now
            context += cached
            longest = max(longest, cached)
            sampled += now
        else:
            pieces[prompts].new = now
            pieces[prompts].cached = cached
            prompts += 1
            sampled += cached + now == request.prompt + request.generated
        seats[i].rows_left -= now
    if limits.equal_passes:
        context = longest * decoding
    return decoding, decode_rows, float(context), float(longest), prompts, rows, sampled


@compiled
def split_seconds(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    limits: SchedulerLimits,
    t: Tables,
    seconds: Real,
) -> float:
    """Seconds of the passes of the composed iteration on the device, without draft passes."""
    count = line_up(replica, buffers.running, buffers.seats, requests)
    left, device_s = replica.rows, 0.0
    while left > 0:
        decoding, decode_rows, context, _, pieces, rows, sampled = next_pass(
            buffers, requests, limits, count
        )
        queries = decode_rows / decoding if decoding else 0.0
        device_s += device_seconds(
            t, seconds, decoding, queries, context, buffers.pieces, pieces, rows, sampled
        )
        left -= rows
    return device_s
