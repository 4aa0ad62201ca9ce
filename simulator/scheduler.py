"""What goes into the next iteration?

Decoding requests first, then prompts under way, then the queue, within a budget of query tokens, of requests and of
cache blocks; or prompts alone, before anybody decodes. Whoever lacks blocks takes them from the request with the last
key; the request with the first key therefore always gets on, and no two of them can wait for each other. Leaves out
what an iteration brings about: `simulator.iteration`.

Reference: Agrawal et al. 2024, "Sarathi-Serve" (arXiv:2403.02310), algorithm 3; Kwon et al. 2023, "PagedAttention"
(arXiv:2309.06180), section 4.5.
"""

from __future__ import annotations

import numpy as np

from simulator.compiled import compiled
from simulator.drafting import AHEAD, BLOCK, Drafts, batch_drafts, fits, start_again, wanted
from simulator.kv_cache import cached_prefix, claim, grow, obtainable, publish, release
from simulator.request import DECODING, FILLING, REJECTED, SWAPPED, WAITING
from simulator.state import (
    ADMITTED,
    ARRIVED,
    BATCH,
    CHUNKS,
    CLOCK,
    CONTEXT,
    DECODE_ROWS,
    DECODING_NOW,
    DRAFT_MOST,
    DRAFTING,
    ENDED,
    GAVE_WAY,
    LONGEST,
    PREEMPTIONS,
    PROMPT_TOKENS,
    PROMPTS_ENDING,
    QUEUED,
    RESERVED,
    ROWS,
    RUNNING,
    STEP_S,
    SWAP_S,
    TOKENS,
    Limits,
    Prefixes,
    Replica,
    Requests,
)
from simulator.tables import Tables
from simulator.waiting import dequeue, enqueue


@compiled
def most_blocks(requests: Requests, limits: Limits, r: int) -> int:
    """Blocks that a request may come to hold."""
    tokens = requests[r].prompt + requests[r].output - limits.lag + limits.lookahead
    if requests[r].output == 1 and limits.lag:
        tokens = requests[r].prompt
    return int((tokens + limits.block_tokens - 1) // limits.block_tokens)


@compiled
def missing_blocks(requests: Requests, limits: Limits, r: int, tokens: int) -> int:
    """Blocks without which a request cannot hold so many tokens."""
    short = tokens - requests[r].slots
    return int((short + limits.block_tokens - 1) // limits.block_tokens) if short > 0 else 0


@compiled
def leave(replica: Replica, requests: Requests, limits: Limits, at: int) -> None:
    """Take the request at a place of the running list out of it."""
    number, running = replica.number, replica.running
    if limits.reserve:
        number[RESERVED] -= most_blocks(requests, limits, running[at])
    number[RUNNING] -= 1
    for i in range(at, number[RUNNING]):
        running[i] = running[i + 1]


@compiled
def end_request(replica: Replica, requests: Requests, limits: Limits, r: int, phase: int, now: float) -> None:
    """A request ends, one way or another; in a closed loop the next one is sent."""
    number = replica.number
    requests[r].phase = phase
    replica.over[number[ENDED]] = r
    follower = limits.users + number[ENDED]
    number[ENDED] += 1
    if follower < number[ARRIVED]:
        following = replica.inbox[follower]
        requests[following].ready_s = max(requests[following].ready_s, now + limits.think_s)


@compiled
def _give_way(
    replica: Replica, requests: Requests, prefixes: Prefixes, limits: Limits, d: Drafts, at: int
) -> None:  # fmt: skip
    """The request at a place of the running list loses its blocks and waits again."""
    number = replica.number
    r = replica.running[at]
    if limits.swap and requests[r].computed > 0:
        blocks = (requests[r].computed + limits.block_tokens - 1) // limits.block_tokens
        replica.second[SWAP_S] += blocks * limits.swap_block_s
        requests[r].phase = SWAPPED
    else:
        requests[r].phase = WAITING
        requests[r].computed = 0
        start_again(d, requests, r)
    release(replica, requests, prefixes, limits, r)
    leave(replica, requests, limits, at)
    enqueue(replica.heap, number, requests, r)
    number[PREEMPTIONS] += 1
    number[GAVE_WAY] += 1


@compiled
def _secure(
    replica: Replica, requests: Requests, prefixes: Prefixes, limits: Limits, d: Drafts, at: int, tokens: int
) -> bool:  # fmt: skip
    """Blocks for `tokens` tokens of the request at a place of the running list, from others behind it if need be.

    Others that already take part in the iteration keep theirs. False: the request sits the iteration out; the last of
    all has given way itself.
    """
    r = replica.running[at]
    blocks = missing_blocks(requests, limits, r, tokens)
    while obtainable(replica) < blocks:
        last = replica.number[RUNNING] - 1
        alone = last == at
        while last > at and requests[replica.running[last]].quota > 0:
            last -= 1
        if last == at and (at == 0 or not alone):
            return False
        _give_way(replica, requests, prefixes, limits, d, last)
        if last == at:
            return False
    if blocks:
        grow(replica, requests, limits, r, blocks)
    return True


@compiled
def _decode(replica: Replica, requests: Requests, limits: Limits, d: Drafts, r: int, extra: int) -> None:
    """A request that decodes takes part with 1 + `extra` query tokens."""
    number = replica.number
    requests[r].quota = 1 + extra
    drafts = 0 if d.decoder == BLOCK else extra
    requests[r].drafts = drafts
    number[ROWS] += 1 + extra
    number[DECODE_ROWS] += 1 + extra
    number[DECODING_NOW] += 1
    number[CONTEXT] += requests[r].computed
    number[LONGEST] = max(number[LONGEST], requests[r].computed)
    if drafts > 0:
        number[DRAFTING] += 1
        number[DRAFT_MOST] = max(number[DRAFT_MOST], drafts)


@compiled
def _fill(replica: Replica, requests: Requests, prefixes: Prefixes, limits: Limits, r: int, tokens: int) -> None:
    """A prompt takes part with its next `tokens` tokens."""
    number = replica.number
    start = requests[r].computed
    requests[r].quota = tokens
    replica.chunks[0, number[CHUNKS]] = tokens
    replica.chunks[1, number[CHUNKS]] = start
    number[CHUNKS] += 1
    number[ROWS] += tokens
    number[PROMPTS_ENDING] += start + tokens == requests[r].prompt + requests[r].made
    number[PROMPT_TOKENS] += tokens
    if limits.prefix_cache:
        publish(replica, requests, prefixes, limits, r, start, start + tokens)


@compiled
def _chunk(requests: Requests, limits: Limits, replica: Replica, r: int, computed: int) -> int:
    """Tokens of a prompt that the rest of the budget lets in; 0: none now."""
    tokens = requests[r].prompt + requests[r].made - computed
    room = limits.token_budget - replica.number[ROWS]
    if tokens <= room or (not limits.chunked and replica.number[ROWS] == 0):
        return int(tokens)
    return int(max(room, 0)) if limits.chunked else 0


@compiled
def _decodes(
    replica: Replica, requests: Requests, prefixes: Prefixes, limits: Limits, d: Drafts, batch: int
) -> None:  # fmt: skip
    """Requests that decode, in the order of their keys."""
    number, running = replica.number, replica.running
    at = 0
    while at < number[RUNNING]:
        r = running[at]
        if requests[r].phase != DECODING or requests[r].quota > 0:
            at += 1
            continue
        room = limits.token_budget - number[ROWS] - 1
        extra = wanted(d, requests, r, batch)
        if room < 0 or (d.decoder == BLOCK and extra > room and number[ROWS] > 0):
            return
        if d.decoder != BLOCK:
            extra = fits(d, extra, room)
        tokens = requests[r].computed + 1 + extra
        if requests[r].slots >= tokens or _secure(replica, requests, prefixes, limits, d, at, tokens):
            _decode(replica, requests, limits, d, r, extra)
            at += 1
        elif at < number[RUNNING] and running[at] == r:
            at += 1


@compiled
def _prompts(replica: Replica, requests: Requests, prefixes: Prefixes, limits: Limits, d: Drafts) -> bool:
    """Prompts under way, in the order of their keys; False: one of them had to sit the iteration out."""
    number, running = replica.number, replica.running
    at = 0
    everybody = True
    while at < number[RUNNING]:
        r = running[at]
        if requests[r].phase != FILLING:
            at += 1
            continue
        tokens = _chunk(requests, limits, replica, r, requests[r].computed)
        if tokens == 0:
            return False
        if _secure(replica, requests, prefixes, limits, d, at, requests[r].computed + tokens):
            _fill(replica, requests, prefixes, limits, r, tokens)
            at += 1
        else:
            everybody = False
            if at < number[RUNNING] and running[at] == r:
                at += 1
    return everybody


@compiled
def _join(replica: Replica, requests: Requests, limits: Limits, r: int) -> None:
    """Enter the running list at the place of the key."""
    number, running = replica.number, replica.running
    at = number[RUNNING]
    while at > 0 and requests[running[at - 1]].key > requests[r].key:
        running[at] = running[at - 1]
        at -= 1
    running[at] = r
    number[RUNNING] += 1
    if limits.reserve:
        number[RESERVED] += most_blocks(requests, limits, r)
    if np.isnan(requests[r].scheduled_s):
        requests[r].scheduled_s = replica.second[CLOCK]


@compiled
def _has_room(replica: Replica, requests: Requests, limits: Limits, r: int, blocks: int, idle: int) -> bool:
    """Whether a waiting request may take `blocks` blocks beside `idle` ones that it wakes."""
    number = replica.number
    if limits.reserve and number[RESERVED] + most_blocks(requests, limits, r) > limits.kv_blocks:
        return False
    spare = limits.watermark_blocks if number[RUNNING] > 0 else 0
    return bool(obtainable(replica) - idle - blocks >= spare)


@compiled
def _admit(
    replica: Replica, requests: Requests, prefixes: Prefixes, limits: Limits, d: Drafts, r: int, batch: int
) -> bool:  # fmt: skip
    """Let the first of the queue in, if there is room for its next tokens."""
    number = replica.number
    computed = requests[r].computed
    hits, idle = 0, 0
    known = requests[r].prompt + requests[r].made
    kept = requests[r].phase == SWAPPED
    if not kept and limits.prefix_cache:
        hits, idle = cached_prefix(replica, requests, prefixes, limits, r, known - 1)
        computed = hits * limits.block_tokens
    started = requests[r].made > 0 or limits.lag == 0
    decodes = kept and started and computed >= known - limits.lag
    extra = 0
    if decodes:
        room = limits.token_budget - number[ROWS] - 1
        extra = fits(d, wanted(d, requests, r, batch), room)
        tokens = 0 if d.decoder == BLOCK else 1 + extra  # 0: it joins, and decodes from the next iteration on
    else:
        tokens = _chunk(requests, limits, replica, r, computed)
        if tokens == 0:
            return False
    blocks = (computed + tokens + limits.block_tokens - 1) // limits.block_tokens - hits
    if not _has_room(replica, requests, limits, r, blocks, idle):
        return False
    dequeue(replica.heap, number, requests)
    if hits:
        claim(replica, requests, prefixes, limits, r, hits)
    if kept and not np.isnan(requests[r].scheduled_s):
        replica.second[SWAP_S] += ((computed + limits.block_tokens - 1) // limits.block_tokens) * limits.swap_block_s
    grow(replica, requests, limits, r, blocks)
    number[ADMITTED] += 1
    requests[r].computed = computed
    _join(replica, requests, limits, r)
    requests[r].phase = DECODING if decodes else FILLING
    if not decodes:
        _fill(replica, requests, prefixes, limits, r, tokens)
    elif tokens:
        _decode(replica, requests, limits, d, r, extra)
    return True


@compiled
def _admissions(
    replica: Replica, requests: Requests, prefixes: Prefixes, limits: Limits, d: Drafts, batch: int
) -> None:  # fmt: skip
    """The queue, in the order of keys, until its first request does not fit."""
    number = replica.number
    clock = replica.second[CLOCK]
    while number[QUEUED] > 0 and number[RUNNING] < limits.max_requests:
        r = replica.heap[0]
        if clock - requests[r].ready_s > limits.slo_ttft_s and np.isnan(requests[r].scheduled_s):
            dequeue(replica.heap, number, requests)
            end_request(replica, requests, limits, r, REJECTED, clock)
            continue
        if number[ROWS] >= limits.token_budget:
            return
        slow = replica.second[STEP_S] > limits.slo_tpot_s * replica.second[TOKENS]
        if slow and number[RUNNING] > 0:
            return
        if not _admit(replica, requests, prefixes, limits, d, r, batch):
            return


@compiled
def compose(
    replica: Replica, requests: Requests, prefixes: Prefixes, limits: Limits, d: Drafts, t: Tables
) -> None:  # fmt: skip
    """Fill the next iteration, at the replica's clock: see its numbers, and `quota` and `drafts` of the requests."""
    number = replica.number
    for i in range(ROWS, BATCH + 1):
        number[i] = 0
    decoding, context = 0, 0
    for i in range(number[RUNNING]):
        r = replica.running[i]
        if requests[r].phase == DECODING:
            decoding += 1
            context += requests[r].computed
    batch = batch_drafts(d, t, replica, decoding, float(context))
    number[BATCH] = batch
    if not limits.prefill_first:
        _decodes(replica, requests, prefixes, limits, d, batch)
    if _prompts(replica, requests, prefixes, limits, d) and number[GAVE_WAY] == 0:
        _admissions(replica, requests, prefixes, limits, d, batch)
    if limits.prefill_first and number[CHUNKS] == 0:
        _decodes(replica, requests, prefixes, limits, d, batch)
    if d.decoder == AHEAD and batch > 0:
        number[DRAFTING] = number[DECODING_NOW]
        number[DRAFT_MOST] = batch
