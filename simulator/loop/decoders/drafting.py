"""How many tokens does a decoding request draft, and how many does it keep?

Every simulated request walks along a recording from a place of its own; where a recorded text ends,
the walk goes on with the next one. Leaves out what drafting costs and when a request decodes at
all.

Reference: Liu et al. 2025, "PEARL" (arXiv:2408.11850), section 4, for drafting during verification;
Shen et al. 2025, "SpecBranch" (arXiv:2506.01979), for branches.
"""

from __future__ import annotations

from simulator.loop.compiled import compiled, inlined
from simulator.loop.decoders.block_walk import advance_block, block_rows, restart_block
from simulator.loop.decoders.record import (
    ALIKE,
    ALWAYS,
    BLOCK,
    BY_REQUEST,
    CHAIN,
    EMA,
    NOTHING,
    PARALLEL,
    PLAIN,
    TREE,
    WHOLE,
    WITHOUT_FIRST,
    Drafts,
)
from simulator.loop.state import Replica, Requests


@inlined
def wanted(d: Drafts, requests: Requests, r: int, batch: int) -> int:
    """Query tokens beyond the first that a decoding request would like to have."""
    if d.decoder == PLAIN:
        return 0
    if d.decoder == BLOCK:
        return int(block_rows(d, requests, r)) - 1
    if batch == 0 or requests[r].pending == NOTHING:
        return 0
    if d.decoder == TREE:
        return int(requests[r].proposes)
    if d.controller == EMA:
        batch = min(batch, int(requests[r].recent_accepted + 0.5) + 1)
    if requests[r].pending == WITHOUT_FIRST:
        batch -= 1
    tokens = drafted_tokens(d, requests, r, batch)
    return int(tokens if d.slots == ALIKE else min(tokens, requests[r].granted))


@inlined
def drafted_tokens(d: Drafts, requests: Requests, r: int, batch: int) -> int:
    """Tokens of a request's draft, of which the batch may verify fewer."""
    return int(min(_allowed(d, requests, r, batch), requests[r].proposes))


@inlined
def _allowed(d: Drafts, requests: Requests, r: int, batch: int) -> int:
    """Draft tokens that a request may have where the batch allows so many."""
    return (
        int(min(batch, requests[r].output - requests[r].generated - 1))
        if d.within_output
        else batch
    )


@inlined
def draft_length(d: Drafts, requests: Requests, r: int, drafts: int, batch: int) -> int:
    """Draft passes of a request's step that verifies `drafts` tokens, or the tokens that they make
    one by one.
    """
    if drafts > 0 and len(d.passes) > 0:
        passes = d.passes[requests[r].place]
        return int(passes if d.decoder == TREE else min(passes, _allowed(d, requests, r, batch)))
    return drafts if d.slots == ALIKE else drafted_tokens(d, requests, r, batch)


@inlined
def fits(d: Drafts, extra: int, room: int) -> int:
    """What remains of `extra` query tokens where there is room for `room`; trees and blocks are not
    cut.
    """
    if extra <= room:
        return extra
    return max(room, 0) if d.decoder in (CHAIN, PARALLEL) else 0


@compiled
def start_again(d: Drafts, requests: Requests, r: int) -> None:
    """A request lost its cache: an unfinished block starts again."""
    requests[r].unread = 0
    if d.decoder == BLOCK:
        restart_block(d, requests, r)
    else:
        requests[r].pending = NOTHING if d.decoder == PARALLEL else WHOLE


@inlined
def accepted_tokens(d: Drafts, requests: Requests, r: int, drafts: int) -> int:
    """Draft tokens that a step keeps, before the request's end cuts it."""
    return int(min(requests[r].emits, drafts + 1)) - 1


@compiled
def branches_behind(d: Drafts, requests: Requests, r: int) -> int:
    """Branches of the draft that is made while a request's pending one is verified: they begin
    where that one ends.
    """
    if d.branches <= 1:
        return 1
    return int(d.branches_at[(requests[r].place + requests[r].drafts) % len(d.branches_at)])


@compiled
def meanwhile_tokens(d: Drafts, requests: Requests, r: int, batch: int) -> int:
    """Tokens of the draft that is made while a request's pending one is verified, as if that one
    were accepted.
    """
    following = (requests[r].place + requests[r].drafts + 1) % len(d.proposes)
    return int(min(batch, 1 + d.proposes[following]))


@compiled
def _throw_away(
    d: Drafts, replica: Replica, requests: Requests, r: int, batch: int, stays: int
) -> None:
    """Count the draft that was made meanwhile: the branches beside the one that stays, and that one
    if none does.
    """
    tokens = meanwhile_tokens(d, requests, r, batch)
    unselected = (branches_behind(d, requests, r) - 1) * tokens
    rolled_back = (1 - stays) * tokens
    replica.unselected += unselected
    replica.rolled_back += rolled_back
    replica.wasted += unselected + rolled_back


@compiled
def _parallel_step(
    d: Drafts, replica: Replica, requests: Requests, r: int, accepted: int, batch: int
) -> int:
    """What becomes of the draft that was made while this step's was verified; tokens that the step
    emits.
    """
    drafts, place = requests[r].drafts, requests[r].place
    if (
        drafts > 0 and d.branches == 0 and accepted == drafts
    ):  # the draft goes on behind its own last token
        requests[r].pending = WHOLE
        return accepted
    decided = place + accepted  # the token behind those that were accepted
    whole = accepted == drafts and d.left[place] > accepted + 1 and (drafts == 0 or d.branches > 0)
    if whole and d.foreseen[decided] and batch > 0:
        requests[r].pending = WITHOUT_FIRST
        _throw_away(d, replica, requests, r, batch, 1)
    else:
        requests[r].pending = NOTHING
        _throw_away(d, replica, requests, r, batch, 0)
    return accepted + 1


@inlined
def _walk(
    d: Drafts, replica: Replica, requests: Requests, r: int, drafts: int, batch: int
) -> tuple[int, int]:
    """Tokens that a step emits and draft tokens that it keeps, before the request's end cuts it;
    the walk moves on.
    """
    accepted = accepted_tokens(d, requests, r, drafts)
    emitted = (
        _parallel_step(d, replica, requests, r, accepted, batch)
        if d.decoder == PARALLEL
        else accepted + 1
    )
    if drafts > 0 and (d.controller != ALWAYS or d.slots == BY_REQUEST):
        requests[r].recent_accepted += d.weight * (accepted - requests[r].recent_accepted)
        replica.recent_accepted += accepted
        replica.recent_tried += accepted + (accepted < drafts)
    step = requests[r].place + emitted
    if d.states > 1 and drafts > 0:
        step = d.following[requests[r].place]
    place = step if step < len(d.steps) else 0
    requests[r].place = place
    requests[r].emits, requests[r].proposes = d.steps[place, 0], d.steps[place, 1]
    return int(emitted), int(accepted)


@inlined
def advance_walk(d: Drafts, replica: Replica, requests: Requests, r: int, batch: int) -> int:
    """Let a decoding request take its step: the tokens that it emits, at most as many as it still
    wants.
    """
    missing = requests[r].output - requests[r].generated
    if d.decoder == PLAIN:
        emitted = 1
    elif d.decoder == BLOCK:
        emitted = min(advance_block(d, replica, requests, r), missing)
    else:
        drafts = requests[r].drafts
        if d.slots != ALIKE:
            unselected = drafted_tokens(d, requests, r, batch) - drafts
            replica.unselected += unselected
            replica.wasted += unselected
        emitted, accepted = _walk(d, replica, requests, r, drafts, batch)
        emitted = min(emitted, missing)
        accepted = min(emitted, accepted)
        replica.drafted += drafts
        replica.accepted += accepted
        replica.wasted += drafts - accepted
    replica.emitted += emitted
    return int(emitted)


@compiled
def forget_slowly(d: Drafts, replica: Replica) -> None:
    """Old steps count less in the acceptance that a replica remembers."""
    keep = 1.0 - d.weight
    replica.recent_accepted *= keep
    replica.recent_tried *= keep
