"""Which pass of its block does a request take, what does it compute, and who waits for whom?

A request walks along the passes of blocks. Where these were recorded, they lie in a canvas behind
the text that is finished: `Requests.pending` counts the generated tokens before it, and another one
begins where it is full or its text has ended. Where steps are shared (`PAD`), a block begins for
everybody at once, whoever is done computes along until all are, and all blocks are delivered
together. Leaves out what a pass costs and who takes part in an iteration.

Reference: Wu et al. 2025, "Fast-dLLM" (arXiv:2505.22618), algorithm 1, and its code for several
requests.
"""

from __future__ import annotations

from simulator.loop.compiled import compiled, inlined
from simulator.loop.decoders.record import BEGINS_CANVAS, FULL, PAD, Drafts
from simulator.loop.request import DECODING
from simulator.loop.state import Buffers, Replica, Requests, SchedulerLimits


@inlined
def whole_tokens(d: Drafts, requests: Requests, r: int) -> int:
    """Tokens of a request's prompt, of what is finished before its canvas, and of the canvas."""
    return int(requests[r].prompt + requests[r].pending + d.canvas)


@compiled
def block_rows(d: Drafts, requests: Requests, r: int) -> int:
    """Query tokens of the pass that a request is at."""
    rows = int(d.proposes[requests[r].place])
    if rows > 0:
        return rows * d.copies
    whole = whole_tokens(d, requests, r)
    return int(
        whole if rows == FULL else (whole - requests[r].prompt - requests[r].generated) * d.copies
    )


@inlined
def held_tokens(d: Drafts, requests: Requests, limits: SchedulerLimits, r: int, rows: int) -> int:
    """Tokens whose cache a request needs room for when it takes part with so many query tokens."""
    if d.canvas:
        return int(limits.sequences * whole_tokens(d, requests, r))
    return int(requests[r].computed + rows)


@inlined
def waits_for_block(replica: Replica, requests: Requests, r: int) -> bool:
    """Whether a request has to wait until others have finished the block that they share steps
    of.
    """
    return bool(replica.sharing and requests[r].granted == 0)


@compiled
def find_sharing(d: Drafts, replica: Replica, buffers: Buffers, requests: Requests) -> None:
    """Note whether requests that share steps are within a block."""
    replica.sharing = 0
    if d.ragged != PAD:
        return
    for i in range(replica.running):
        r = buffers.running[i]
        if requests[r].phase == DECODING and requests[r].granted:
            replica.sharing = 1


@compiled
def count_shared(d: Drafts, replica: Replica, buffers: Buffers, requests: Requests) -> None:
    """Note how many passes those who share steps take until the last of them has finished its
    block.
    """
    replica.shared_passes = 0
    if d.ragged != PAD:
        return
    for i in range(replica.running):
        r = buffers.running[i]
        if requests[r].phase == DECODING and requests[r].granted:
            replica.shared_passes = max(replica.shared_passes, d.passes[requests[r].place])


@compiled
def add_block_pass(
    d: Drafts, replica: Replica, buffers: Buffers, requests: Requests, r: int, rows: int
) -> None:
    """Count what a request reads and computes in the iteration; full passes stand among the
    prompts.
    """
    requests[r].granted = d.ragged == PAD
    if not d.canvas:
        cached = requests[r].computed
    elif d.proposes[requests[r].place] == FULL:
        buffers.chunks[0, replica.chunks] = rows
        buffers.chunks[1, replica.chunks] = 0
        replica.chunks += 1
        replica.full_passes += 1
        replica.full_rows += rows
        return
    else:
        cached = whole_tokens(d, requests, r) - rows // d.copies
    replica.context_tokens += cached * d.copies
    replica.longest_context = max(replica.longest_context, cached)


@compiled
def _enter(d: Drafts, requests: Requests, r: int, place: int, generated: int) -> None:
    """A request that has generated so many tokens goes on at a place."""
    requests[r].place = place
    if d.left[place] > 0:
        return
    requests[r].granted = 0
    if d.canvas and (
        generated - requests[r].pending >= d.canvas or d.foreseen[place] == BEGINS_CANVAS
    ):
        requests[r].pending = generated


@compiled
def advance_block(d: Drafts, replica: Replica, requests: Requests, r: int) -> int:
    """Let a request take its pass: the tokens of its block if that is finished, otherwise none."""
    place = requests[r].place
    if d.ragged == PAD and d.passes[place] == 1 and replica.shared_passes > 1:
        return 0  # it waits for others
    emitted = int(d.emits[place])
    _enter(d, requests, r, (place + 1) % len(d.emits), requests[r].generated + emitted)
    return emitted


@compiled
def restart_block(d: Drafts, requests: Requests, r: int) -> None:
    """A request lost its cache: it begins its block again, or the next one if only the storing was
    missing.
    """
    place = requests[r].place
    if d.canvas == 0 or d.passes[place] > 0:
        requests[r].place -= d.left[place]
        return
    while d.left[place] > 0:
        place = (place + 1) % len(d.emits)
    _enter(d, requests, r, place, requests[r].generated)
