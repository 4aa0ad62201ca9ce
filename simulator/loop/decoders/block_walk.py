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
from simulator.loop.decoders.record import BEGINS_CANVAS, FULL, PAD, Drafts, Places
from simulator.loop.request import DECODING
from simulator.loop.state import Chunks, Replica, Request, Requests, SchedulerLimits, Small


@inlined
def whole_tokens(d: Drafts, request: Request) -> int:
    """Tokens of a request's prompt, of what is finished before its canvas, and of the canvas."""
    return request.prompt + request.pending + d.canvas


@compiled
def block_rows(d: Drafts, request: Request, places: Places) -> int:
    """Query tokens of the pass that a request is at."""
    rows = int(places[request.place].proposes)
    if rows > 0:
        return rows * d.copies
    whole = whole_tokens(d, request)
    return whole if rows == FULL else (whole - request.prompt - request.generated) * d.copies


@inlined
def held_tokens(d: Drafts | None, request: Request, limits: SchedulerLimits, rows: int) -> int:
    """Tokens whose cache a request needs room for when it takes part with so many query tokens."""
    if d is not None and d.canvas:
        return limits.sequences * whole_tokens(d, request)
    return request.computed + rows


@inlined
def waits_for_block(replica: Replica, request: Request) -> bool:
    """Whether a request has to wait until others have finished the block that they share steps
    of.
    """
    return replica.sharing > 0 and request.granted == 0


@compiled
def find_sharing(d: Drafts, replica: Replica, running: Small, requests: Requests) -> None:
    """Note whether requests that share steps are within a block."""
    replica.sharing = 0
    if d.ragged != PAD:
        return
    for i in range(replica.running):
        request = requests[running[i]]
        if request.phase == DECODING and request.granted:
            replica.sharing = 1


@compiled
def count_shared(
    d: Drafts, replica: Replica, running: Small, requests: Requests, places: Places | None
) -> None:
    """Note how many passes those who share steps take until the last of them has finished its
    block.
    """
    replica.shared_passes = 0
    if places is None:
        return
    if d.ragged != PAD:
        return
    for i in range(replica.running):
        request = requests[running[i]]
        if request.phase == DECODING and request.granted:
            passes = places[request.place].passes
            replica.shared_passes = max(replica.shared_passes, passes)


@compiled
def add_block_pass(
    d: Drafts,
    replica: Replica,
    chunks: Chunks,
    request: Request,
    places: Places | None,
    rows: int,
) -> None:
    """Count what a request reads and computes in the iteration; full passes stand among the
    prompts.
    """
    if places is None:
        return
    request.granted = d.ragged == PAD
    if not d.canvas:
        cached = int(request.computed)
    elif places[request.place].proposes == FULL:
        chunks[replica.chunks].new = rows
        chunks[replica.chunks].cached = 0
        replica.chunks += 1
        replica.full_passes += 1
        replica.full_rows += rows
        return
    else:
        cached = whole_tokens(d, request) - rows // d.copies
    replica.context_tokens += cached * d.copies
    replica.longest_context = max(replica.longest_context, cached)


@compiled
def _enter(d: Drafts, request: Request, places: Places, place: int, generated: int) -> None:
    """A request that has generated so many tokens goes on at a place."""
    request.place = place
    if places[place].left > 0:
        return
    request.granted = 0
    if d.canvas and (
        generated - request.pending >= d.canvas or places[place].foreseen == BEGINS_CANVAS
    ):
        request.pending = generated


@compiled
def advance_block(d: Drafts, replica: Replica, request: Request, places: Places) -> int:
    """Let a request take its pass: the tokens of its block if that is finished, otherwise none."""
    at = int(request.place)
    if d.ragged == PAD and places[at].passes == 1 and replica.shared_passes > 1:
        return 0  # it waits for others
    emitted = int(places[at].emits)
    _enter(d, request, places, (at + 1) % len(places), request.generated + emitted)
    return emitted


@compiled
def restart_block(d: Drafts, request: Request, places: Places) -> None:
    """A request lost its cache: it begins its block again, or the next one if only the storing was
    missing.
    """
    at = int(request.place)
    if d.canvas == 0 or places[at].passes > 0:
        request.place -= places[at].left
        return
    while places[at].left > 0:
        at = (at + 1) % len(places)
    _enter(d, request, places, at, int(request.generated))
