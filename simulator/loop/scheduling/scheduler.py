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
from simulator.loop.decoders.drafting import (
    branches_behind,
    draft_length,
    fits,
    meanwhile_tokens,
    start_again,
    wanted,
)
from simulator.loop.decoders.lengths import batch_drafts, change_length, count_ready
from simulator.loop.decoders.record import BLOCK, PARALLEL, Drafts
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
from simulator.loop.state import Buffers, Prefixes, Replica, Requests, SchedulerLimits
from simulator.loop.tables import Tables


@compiled
def leave(
    replica: Replica, buffers: Buffers, requests: Requests, limits: SchedulerLimits, at: int
) -> None:
    """Take the request at a place of the running list out of it."""
    running = buffers.running
    replica.running -= 1
    for i in range(at, replica.running):
        running[i] = running[i + 1]


@compiled
def _preempt(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Drafts,
    at: int,
) -> None:
    """The request at a place of the running list loses its blocks and waits again."""
    r = buffers.running[at]
    if limits.swap and requests[r].computed > 0:
        blocks = (requests[r].computed + limits.block_tokens - 1) // limits.block_tokens
        replica.swap_s += blocks * limits.swap_block_s
        requests[r].phase = SWAPPED
    else:
        requests[r].phase = WAITING
        requests[r].computed = 0
        start_again(d, requests, r)
    requests[r].granted = 0
    release(replica, buffers, requests, prefixes, limits, r)
    leave(replica, buffers, requests, limits, at)
    enqueue(replica, buffers, requests, r)
    replica.preemptions += 1
    replica.preempted += 1


@compiled
def _secure(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Drafts,
    at: int,
    tokens: int,
) -> bool:
    """Blocks for `tokens` tokens of the request at a place of the running list, from others behind
    it if need be.

    Others that already take part in the iteration keep theirs. False: the request sits the
    iteration out; the last of all has been preempted itself.
    """
    r = buffers.running[at]
    blocks = missing_blocks(requests, limits, r, tokens)
    while obtainable(replica) < blocks:
        last = replica.running - 1
        alone = last == at
        while last > at and requests[buffers.running[last]].quota > 0:
            last -= 1
        if last == at and (at == 0 or not alone):
            return False
        _preempt(replica, buffers, requests, prefixes, limits, d, last)
        if last == at:
            return False
    if blocks:
        grow(replica, buffers, requests, limits, r, blocks)
    return True


@inlined
def _decode(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    limits: SchedulerLimits,
    d: Drafts,
    r: int,
    extra: int,
) -> None:
    """A request that decodes takes part with 1 + `extra` query tokens."""
    requests[r].quota = 1 + extra
    drafts = 0 if d.decoder == BLOCK else extra
    requests[r].drafts = drafts
    replica.rows += 1 + extra
    replica.decode_rows += 1 + extra
    replica.decoding += 1
    if d.decoder == BLOCK:
        add_block_pass(d, replica, buffers, requests, r, 1 + extra)
    else:
        replica.context_tokens += requests[r].computed
        replica.longest_context = max(replica.longest_context, requests[r].computed)
    replica.longest_draft = max(replica.longest_draft, drafts)
    new = draft_length(d, requests, r, drafts, replica.draft_limit)
    if new > 0:
        replica.drafts_at_once += 1
        replica.longest_new_draft = max(replica.longest_new_draft, new)


@compiled
def _prefill(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    r: int,
    tokens: int,
) -> None:
    """A prompt takes part with its next `tokens` tokens."""
    start = requests[r].computed
    requests[r].quota = tokens
    buffers.chunks[0, replica.chunks] = tokens
    buffers.chunks[1, replica.chunks] = start
    replica.chunks += 1
    replica.rows += tokens
    replica.prompts_ending += start + tokens == requests[r].prompt + requests[r].generated
    replica.prompt_tokens_computed += tokens
    if limits.prefix_cache:
        publish(replica, buffers, requests, prefixes, limits, r, start, start + tokens)


@compiled
def _chunk(
    requests: Requests, limits: SchedulerLimits, replica: Replica, r: int, computed: int
) -> int:
    """Tokens of a prompt that the rest of the budget lets in; 0: none now."""
    tokens = requests[r].prompt + requests[r].generated - computed
    room = limits.token_budget - replica.rows
    if tokens <= room or (not limits.chunked and replica.rows == 0):
        return int(tokens)
    return int(max(room, 0)) if limits.chunked else 0


@compiled
def _decodes(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Drafts,
    batch: int,
) -> None:
    """Requests that decode, in the order of their keys."""
    running = buffers.running
    at = 0
    while at < replica.running:
        r = running[at]
        if (
            requests[r].phase != DECODING
            or requests[r].quota > 0
            or waits_for_block(replica, requests, r)
        ):
            at += 1
            continue
        room = limits.token_budget - replica.rows - 1
        extra = wanted(d, requests, r, batch)
        if room < 0 or (d.decoder == BLOCK and extra > room and replica.rows > 0):
            return
        if d.decoder != BLOCK:
            extra = fits(d, extra, room)
        tokens = held_tokens(d, requests, limits, r, 1 + extra)
        if has_blocks(replica, requests, limits, r, tokens) or _secure(
            replica, buffers, requests, prefixes, limits, d, at, tokens
        ):
            _decode(replica, buffers, requests, limits, d, r, extra)
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
    d: Drafts,
) -> bool:
    """Prompts under way, in the order of their keys; False: one of them had to sit the iteration
    out.
    """
    running = buffers.running
    at = 0
    everybody = True
    while at < replica.running:
        r = running[at]
        if requests[r].phase != PREFILLING:
            at += 1
            continue
        tokens = _chunk(requests, limits, replica, r, requests[r].computed)
        if tokens == 0:
            return False
        if _secure(
            replica, buffers, requests, prefixes, limits, d, at, requests[r].computed + tokens
        ):
            _prefill(replica, buffers, requests, prefixes, limits, r, tokens)
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
    running = buffers.running
    at = replica.running
    if limits.numbered_slots:
        requests[r].slot = take_slot(replica, buffers)
    while at > 0 and stands_behind(requests, limits, running[at - 1], r):
        running[at] = running[at - 1]
        at -= 1
    running[at] = r
    replica.running += 1
    if limits.reserve_ratio >= 0.0:
        replica.reserved_blocks += _owed_blocks(requests, limits, r)
    if np.isnan(requests[r].scheduled_s):
        requests[r].scheduled_s = replica.clock_s


@compiled
def _owed_blocks(requests: Requests, limits: SchedulerLimits, r: int) -> int:
    """Blocks that a running request was promised and does not hold yet."""
    return int(
        max(promised_blocks(requests, limits, r) - requests[r].slots // limits.block_tokens, 0)
    )


@compiled
def _has_room(
    replica: Replica,
    requests: Requests,
    limits: SchedulerLimits,
    r: int,
    blocks: int,
    hits: int,
    idle: int,
) -> bool:
    """Whether a waiting request may take `blocks` blocks beside `hits` shared ones, `idle` of which
    it wakes.
    """
    if limits.reserve_ratio >= 0.0:
        promised = promised_blocks(requests, limits, r) - hits
        if replica.reserved_blocks + promised > obtainable(replica) - idle:
            return False
    spare = limits.watermark_blocks if replica.running > 0 else 0
    return bool(obtainable(replica) - idle - blocks >= spare)


@compiled
def _admit(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Drafts,
    r: int,
    batch: int,
) -> bool:
    """Let the first of the queue in, if there is room for its next tokens."""
    if d.renews:
        return bool(_admit_block(replica, buffers, requests, prefixes, limits, d, r, batch))
    computed = requests[r].computed
    hits, idle = 0, 0
    known = requests[r].prompt + requests[r].generated
    swapped = requests[r].phase == SWAPPED
    if not swapped and limits.prefix_cache:
        hits, idle = cached_prefix(replica, buffers, requests, prefixes, limits, r, known - 1)
        computed = hits * limits.block_tokens
    started = requests[r].generated > 0 or limits.lag == 0
    decodes = swapped and started and computed >= known - limits.lag
    extra = 0
    if decodes:
        room = limits.token_budget - replica.rows - 1
        extra = fits(d, wanted(d, requests, r, batch), room)
        tokens = (
            0 if d.decoder == BLOCK else 1 + extra
        )  # 0: it joins, and decodes from the next iteration on
    elif limits.numbered_slots:
        tokens = 0  # it takes its slot, and the iteration is filled afterwards
    else:
        tokens = _chunk(requests, limits, replica, r, computed)
        if tokens == 0:
            return False
    blocks = (computed + tokens + limits.block_tokens - 1) // limits.block_tokens - hits
    if not _has_room(replica, requests, limits, r, blocks, hits, idle):
        return False
    dequeue(replica, buffers, requests)
    if hits:
        claim(replica, buffers, requests, prefixes, limits, r, hits)
    if swapped and not np.isnan(requests[r].scheduled_s):
        replica.swap_s += (
            (computed + limits.block_tokens - 1) // limits.block_tokens
        ) * limits.swap_block_s
    grow(replica, buffers, requests, limits, r, blocks)
    replica.admitted += 1
    requests[r].computed = computed
    _join(replica, buffers, requests, limits, r)
    requests[r].phase = DECODING if decodes else PREFILLING
    if not decodes and tokens:
        _prefill(replica, buffers, requests, prefixes, limits, r, tokens)
    elif tokens:
        _decode(replica, buffers, requests, limits, d, r, extra)
    return True


@compiled
def _admit_block(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Drafts,
    r: int,
    batch: int,
) -> bool:
    """Let the first of the queue in with its block's first pass, which computes its prompt too."""
    extra = wanted(d, requests, r, batch)
    if replica.sharing or (replica.rows + 1 + extra > limits.token_budget and replica.rows > 0):
        return False
    blocks = missing_blocks(requests, limits, r, held_tokens(d, requests, limits, r, 1 + extra))
    if not _has_room(replica, requests, limits, r, blocks, 0, 0):
        return False
    if requests[r].phase == SWAPPED and not np.isnan(requests[r].scheduled_s):
        moved = (requests[r].computed + limits.block_tokens - 1) // limits.block_tokens
        replica.swap_s += moved * limits.swap_block_s
    dequeue(replica, buffers, requests)
    grow(replica, buffers, requests, limits, r, blocks)
    replica.admitted += 1
    requests[r].computed = requests[r].prompt + requests[r].generated
    _join(replica, buffers, requests, limits, r)
    requests[r].phase = DECODING
    _decode(replica, buffers, requests, limits, d, r, extra)
    return True


@compiled
def _admissions(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Drafts,
    batch: int,
) -> None:
    """The queue, in the order of keys, until its first request does not fit."""
    clock = replica.clock_s
    if replica.running < limits.max_requests and waits(replica, buffers, requests, limits):
        return
    replica.reserved_blocks = 0
    if limits.reserve_ratio >= 0.0 and replica.queued > 0:
        for i in range(replica.running):
            replica.reserved_blocks += _owed_blocks(requests, limits, buffers.running[i])
    while replica.queued > 0 and replica.running < limits.max_requests:
        r = buffers.heap[0]
        if clock - requests[r].sent_s > limits.slo_ttft_s and np.isnan(requests[r].scheduled_s):
            dequeue(replica, buffers, requests)
            end_request(replica, buffers, requests, limits, r, REJECTED, clock)
            continue
        if replica.rows >= limits.token_budget:
            return
        slow = replica.recent_step_s > limits.slo_tpot_s * replica.recent_tokens
        if slow and replica.running > 0:
            return
        if not _admit(replica, buffers, requests, prefixes, limits, d, r, batch):
            return


@compiled
def _nothing_yet(replica: Replica) -> None:
    """An iteration that holds nothing."""
    replica.rows = replica.decode_rows = replica.prompts_ending = replica.decoding = 0
    replica.context_tokens = replica.longest_context = replica.chunks = 0
    replica.drafts_at_once = replica.longest_draft = replica.longest_new_draft = (
        replica.draft_limit
    ) = 0
    replica.full_passes = replica.full_rows = replica.preempted = replica.admitted = (
        replica.reread_rows
    ) = 0


@compiled
def compose(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    prefixes: Prefixes,
    limits: SchedulerLimits,
    d: Drafts,
    t: Tables,
) -> None:
    """Fill the next iteration, at the replica's clock: see its numbers, and `quota` and `drafts` of
    the requests.
    """
    _nothing_yet(replica)
    running = replica.running
    decoding, context = count_ready(d, replica, buffers, requests)
    replica.all_decode = 0
    batch = batch_drafts(d, t, replica, buffers, requests, decoding, float(context))
    replica.draft_limit = batch
    if decoding > 0:
        change_length(d, replica, buffers, requests, batch)
    if d.decoder == BLOCK:
        find_sharing(d, replica, buffers, requests)
    share_slots(replica, buffers, requests, d, t, batch, decoding)
    if limits.numbered_slots and replica.queued > 0 and running < limits.max_requests:
        replica.postponed = postponed(replica, buffers, requests)
        _admissions(replica, buffers, requests, prefixes, limits, d, batch)
    prompts = decoding < replica.running  # counted before decodes preempt anybody
    if not limits.prefill_first:
        _decodes(replica, buffers, requests, prefixes, limits, d, batch)
    goes_on = not prompts or _prompts(replica, buffers, requests, prefixes, limits, d)
    if goes_on and replica.preempted == 0 and not limits.numbered_slots:
        _admissions(replica, buffers, requests, prefixes, limits, d, batch)
    if limits.prefill_first and replica.chunks == replica.full_passes:
        _decodes(replica, buffers, requests, prefixes, limits, d, batch)
    if d.decoder == PARALLEL and batch > 0:
        replica.longest_draft = batch
        replica.drafts_at_once = replica.longest_new_draft = 0
        for i in range(replica.running):
            r = buffers.running[i]
            if requests[r].phase == DECODING and requests[r].quota > 0:
                replica.drafts_at_once += branches_behind(d, requests, r)
                replica.longest_new_draft = max(
                    replica.longest_new_draft, meanwhile_tokens(d, requests, r, batch)
                )
