"""What goes into the next iteration?

Decoding requests first, then prompts under way, then the queue, within a budget of query tokens, of
requests and of cache blocks; or prompts alone, before anybody decodes. Where slots are numbered,
the queue takes free ones first, and everybody is served in the order of the slots. Whoever lacks
blocks takes them from the request with the last key; the request with the first key therefore
always gets on, and no two of them can wait for each other. Leaves out what an iteration brings
about: `simulator.loop.iteration`.

Reference: Agrawal et al. 2024, "Sarathi-Serve" (arXiv:2403.02310), algorithm 3; Kwon et al. 2023,
"PagedAttention" (arXiv:2309.06180), section 4.5.
"""

from __future__ import annotations

import numpy as np

from simulator.loop.compiled import compiled, inlined
from simulator.loop.decoders.block_walk import (
    add_block_pass,
    find_sharing,
    held_tokens,
    waits_for_block,
)
from simulator.loop.decoders.drafting import count_branches, draft_length, fits, start_again, wanted
from simulator.loop.decoders.lengths import batch_drafts, change_length, count_ready
from simulator.loop.decoders.record import BLOCK, Decoder, Places
from simulator.loop.decoders.slots import share_slots
from simulator.loop.request import DECODING, PREFILLING, REJECTED, SWAPPED, WAITING
from simulator.loop.scheduling.kv_cache import (
    cached_prefix,
    claim,
    grow,
    has_blocks,
    missing_blocks,
    obtainable,
    promised_blocks,
    publish,
    release,
)
from simulator.loop.scheduling.waiting import (
    dequeue,
    end_request,
    enqueue,
    postponed,
    stands_behind,
    take_slot,
    waits,
)
from simulator.loop.state import (
    Blocks,
    Buffers,
    Chunks,
    Prefixes,
    Real,
    Replica,
    Request,
    Requests,
    SchedulerLimits,
    Small,
)
from simulator.loop.tables import Tables


@compiled
def leave(replica: Replica, running: Small, at: int) -> None:
    """Take the request at a place of the running list out of it."""
    replica.running -= 1
    for i in range(at, replica.running):
        running[i] = running[i + 1]


@compiled
def _secure(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Decoder | None,
    places: Places | None,
    at: int,
    tokens: int,
) -> bool:
    """Blocks for `tokens` tokens of the request at a place of the running list, from others behind
    it if need be: these lose theirs and wait again.

    Others that already take part in the iteration keep theirs. False: the request sits the
    iteration out; the last of all has been preempted itself.
    """
    running, request = buffers.running, requests[buffers.running[at]]
    count = missing_blocks(request, limits, tokens)
    while obtainable(replica) < count:
        last = replica.running - 1
        alone = last == at
        while last > at and requests[running[last]].quota > 0:
            last -= 1
        if last == at and (at == 0 or not alone):
            return False
        r = running[last]
        loser = requests[r]
        if limits.swap and loser.computed > 0:
            moved = (loser.computed + limits.block_tokens - 1) // limits.block_tokens
            replica.swap_s += moved * limits.swap_block_s
            loser.phase = SWAPPED
        else:
            loser.phase = WAITING
            loser.computed = 0
            if d is not None:
                start_again(d, loser, places)
        loser.granted = 0
        release(replica, buffers.seats, buffers.blocks, prefixes, limits, loser, r)
        leave(replica, running, last)
        enqueue(replica, buffers.queue, requests, r)
        replica.preemptions += 1
        replica.preempted += 1
        if last == at:
            return False
    if count:
        grow(replica, buffers.blocks, request, limits, count)
    return True


@inlined
def _decode(
    replica: Replica, request: Request, d: Decoder | None, places: Places | None, extra: int
) -> None:
    """A request that decodes takes part with 1 + `extra` query tokens."""
    request.quota = 1 + extra
    replica.rows += 1 + extra
    replica.decode_rows += 1 + extra
    replica.decoding += 1
    if d is not None and d.decoder == BLOCK:  # whose passes read other caches: `add_block_pass`
        return
    cached = int(request.computed)
    replica.context_tokens += cached
    replica.longest_context = max(replica.longest_context, cached)
    if d is None:
        return
    request.drafts = extra
    replica.longest_draft = max(replica.longest_draft, extra)
    new = draft_length(d, request, places, extra, replica.draft_limit)
    if new > 0:
        replica.drafts_at_once += 1
        replica.longest_new_draft = max(replica.longest_new_draft, new)


@compiled
def _prefill(
    replica: Replica,
    chunks: Chunks,
    blocks: Blocks,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    request: Request,
    r: int,
    tokens: int,
) -> None:
    """A prompt takes part with its next `tokens` tokens."""
    start = int(request.computed)
    request.quota = tokens
    chunks[replica.chunks].new = tokens
    chunks[replica.chunks].cached = start
    replica.chunks += 1
    replica.rows += tokens
    replica.prompt_tokens_computed += tokens
    if limits.prefix_cache:
        publish(blocks, prefixes, limits, request, r, start, start + tokens)


@compiled
def _chunk(replica: Replica, request: Request, limits: SchedulerLimits, computed: int) -> int:
    """Tokens of a prompt that the rest of the budget lets in; 0: none now."""
    tokens = request.prompt + request.generated - computed
    room = limits.token_budget - replica.rows
    if tokens <= room or (not limits.chunked and replica.rows == 0):
        return tokens
    return max(room, 0) if limits.chunked else 0


@compiled
def _decodes(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Decoder | None,
    places: Places | None,
    batch: int,
) -> None:
    """Requests that decode, in the order of their keys."""
    running = buffers.running
    at = 0
    while at < replica.running:
        r = running[at]
        request = requests[r]
        if request.phase != DECODING or request.quota > 0 or waits_for_block(replica, request):
            at += 1
            continue
        room = limits.token_budget - replica.rows - 1
        if room < 0:
            break
        extra = 0
        if d is not None:
            extra = wanted(d, request, places, batch)
            if d.decoder != BLOCK:
                extra = fits(d, extra, room)
            elif extra > room and replica.rows > 0:
                break
        tokens = held_tokens(d, request, limits, 1 + extra)
        if has_blocks(replica, request, limits, tokens) or _secure(
            replica, buffers, requests, prefixes, limits, d, places, at, tokens
        ):
            _decode(replica, request, d, places, extra)
            if d is not None and d.decoder == BLOCK:
                add_block_pass(d, replica, buffers.chunks, request, places, 1 + extra)
            at += 1
        elif at < replica.running and running[at] == r:
            at += 1


@compiled
def _prompts(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Decoder | None,
    places: Places | None,
) -> bool:
    """Prompts under way, in the order of their keys; False: one of them had to sit the iteration
    out.
    """
    running = buffers.running
    at = 0
    everybody = True
    while at < replica.running:
        r = running[at]
        request = requests[r]
        if request.phase != PREFILLING:
            at += 1
            continue
        tokens = _chunk(replica, request, limits, int(request.computed))
        if tokens == 0:
            return False
        if _secure(
            replica, buffers, requests, prefixes, limits, d, places, at, request.computed + tokens
        ):
            _prefill(replica, buffers.chunks, buffers.blocks, prefixes, limits, request, r, tokens)
            at += 1
        else:
            everybody = False
            if at < replica.running and running[at] == r:
                at += 1
    return everybody


@compiled
def _join(
    replica: Replica, buffers: Buffers, requests: Requests, limits: SchedulerLimits, r: int
) -> None:
    """Enter the running list at the place of the key, or of the slot where these are numbered."""
    running, request = buffers.running, requests[r]
    at = replica.running
    if limits.numbered_slots:
        request.slot = take_slot(replica, buffers.seats, limits)
    while at > 0 and stands_behind(requests[running[at - 1]], request, limits):
        running[at] = running[at - 1]
        at -= 1
    running[at] = r
    replica.running += 1
    if limits.reserve_ratio >= 0.0:
        replica.reserved_blocks += _owed_blocks(request, limits)
    if np.isnan(request.scheduled_s):
        request.scheduled_s = replica.clock_s


@compiled
def _owed_blocks(request: Request, limits: SchedulerLimits) -> int:
    """Blocks that a running request was promised and does not hold yet."""
    return max(promised_blocks(request, limits) - request.slots // limits.block_tokens, 0)


@compiled
def _has_room(
    replica: Replica,
    request: Request,
    limits: SchedulerLimits,
    count: int,
    hits: int,
    idle: int,
) -> bool:
    """Whether a waiting request may take `count` blocks beside `hits` shared ones, `idle` of which
    it wakes.
    """
    if limits.reserve_ratio >= 0.0:
        promised = promised_blocks(request, limits) - hits
        if replica.reserved_blocks + promised > obtainable(replica) - idle:
            return False
    spare = limits.watermark_blocks if replica.running > 0 else 0
    return obtainable(replica) - idle - count >= spare


@compiled
def _first_tokens(
    replica: Replica,
    request: Request,
    limits: SchedulerLimits,
    d: Decoder | None,
    places: Places | None,
    batch: int,
    computed: int,
    decodes: bool,
) -> int:
    """Query tokens with which a request joins the iteration.

    A block decodes from the next iteration on; with numbered slots a prompt takes its slot, and the
    iteration is filled afterwards.
    """
    if not decodes:
        return 0 if limits.numbered_slots else _chunk(replica, request, limits, computed)
    if d is None:
        return 1
    if d.decoder == BLOCK:
        return 0
    extra = wanted(d, request, places, batch)
    return 1 + fits(d, extra, limits.token_budget - replica.rows - 1)


@compiled
def _admit(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Decoder | None,
    places: Places | None,
    batch: int,
) -> bool:
    """Let the first of the queue in, if there is room for its next tokens.

    A block whose first pass computes the prompt too is admitted with that pass.
    """
    r = buffers.queue[0].heap
    request = requests[r]
    computed = int(request.computed)
    hits, idle = 0, 0
    whole = request.prompt + request.generated
    swapped = request.phase == SWAPPED
    moved = computed
    if d is not None and d.renews:
        tokens = 1 + wanted(d, request, places, batch)
        if replica.sharing or (replica.rows + tokens > limits.token_budget and replica.rows > 0):
            return False
        decodes = True
        count = missing_blocks(request, limits, held_tokens(d, request, limits, tokens))
        computed = whole
    else:
        if not swapped and limits.prefix_cache:
            hits, idle = cached_prefix(buffers.blocks, prefixes, limits, request, r, whole - 1)
            computed = hits * limits.block_tokens
        started = request.generated > 0 or limits.lag == 0
        decodes = swapped and started and computed >= whole - limits.lag
        tokens = _first_tokens(replica, request, limits, d, places, batch, computed, decodes)
        if tokens == 0 and not decodes and not limits.numbered_slots:
            return False
        count = (computed + tokens + limits.block_tokens - 1) // limits.block_tokens - hits
    if not _has_room(replica, request, limits, count, hits, idle):
        return False
    dequeue(replica, buffers.queue, requests)
    if hits:
        claim(replica, buffers.blocks, prefixes, limits, request, r, hits)
    if swapped and not np.isnan(request.scheduled_s):
        moved = (moved + limits.block_tokens - 1) // limits.block_tokens
        replica.swap_s += moved * limits.swap_block_s
    grow(replica, buffers.blocks, request, limits, count)
    replica.admitted += 1
    request.computed = computed
    _join(replica, buffers, requests, limits, r)
    request.phase = DECODING if decodes else PREFILLING
    if tokens and decodes:
        _decode(replica, request, d, places, tokens - 1)
        if d is not None and d.decoder == BLOCK:
            add_block_pass(d, replica, buffers.chunks, request, places, tokens)
    elif tokens:
        _prefill(replica, buffers.chunks, buffers.blocks, prefixes, limits, request, r, tokens)
    return True


@compiled
def _admissions(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Decoder | None,
    places: Places | None,
    batch: int,
) -> None:
    """The queue, in the order of keys, until its first request does not fit."""
    queue, clock = buffers.queue, replica.clock_s
    if replica.running < limits.max_requests and waits(replica, queue, requests, limits):
        return
    replica.reserved_blocks = 0
    if limits.reserve_ratio >= 0.0 and replica.queued > 0:
        for i in range(replica.running):
            replica.reserved_blocks += _owed_blocks(requests[buffers.running[i]], limits)
    while replica.queued > 0 and replica.running < limits.max_requests:
        request = requests[queue[0].heap]
        if clock - request.sent_s > limits.slo_ttft_s and np.isnan(request.scheduled_s):
            r = dequeue(replica, queue, requests)
            end_request(replica, queue, requests, r, REJECTED, clock)
            continue
        if replica.rows >= limits.token_budget:
            return
        slow = replica.recent_step_s > limits.slo_tpot_s * replica.recent_tokens
        if slow and replica.running > 0:
            return
        if not _admit(replica, buffers, requests, prefixes, limits, d, places, batch):
            return


@compiled
def compose(
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
) -> None:
    """Fill the next iteration, at the replica's clock: see its numbers, and `quota` and `drafts` of
    the requests.
    """
    replica.rows = replica.decode_rows = replica.decoding = 0
    replica.context_tokens = replica.longest_context = replica.chunks = 0
    replica.drafts_at_once = replica.longest_draft = replica.longest_new_draft = 0
    replica.late_drafts = replica.late_context = 0
    replica.full_passes = replica.full_rows = replica.preempted = replica.admitted = 0
    replica.reread_rows = 0
    running, chunks, memory = buffers.running, buffers.chunks, buffers.memory
    decoding, context = count_ready(replica, running, requests, memory)
    replica.all_decode = 0
    batch = 0
    if d is not None:
        if d.decoder == BLOCK:
            find_sharing(d, replica, running, requests)
        else:
            batch = batch_drafts(
                d,
                tables,
                t,
                seconds,
                replica,
                buffers,
                requests,
                memory,
                decoding,
                float(context),
            )
        replica.draft_limit = batch
        if decoding > 0:
            change_length(d, replica, running, requests, batch)
            share_slots(
                replica,
                running,
                requests,
                d,
                places,
                t,
                seconds,
                chunks,
                batch,
                decoding,
                float(context),
                memory,
            )
    if limits.numbered_slots and replica.queued > 0 and replica.running < limits.max_requests:
        replica.postponed = postponed(replica, buffers.queue, buffers.seats, requests, limits)
        _admissions(replica, buffers, requests, prefixes, limits, d, places, batch)
    prompts = decoding < replica.running  # counted before decodes preempt anybody
    if not limits.prefill_first:
        _decodes(replica, buffers, requests, prefixes, limits, d, places, batch)
    goes_on = not prompts or _prompts(replica, buffers, requests, prefixes, limits, d, places)
    room = replica.queued > 0 and replica.running < limits.max_requests
    if goes_on and room and replica.preempted == 0 and not limits.numbered_slots:
        _admissions(replica, buffers, requests, prefixes, limits, d, places, batch)
    if limits.prefill_first and replica.chunks == replica.full_passes:
        _decodes(replica, buffers, requests, prefixes, limits, d, places, batch)
    if d is not None:
        count_branches(d, replica, running, requests, places, batch)
