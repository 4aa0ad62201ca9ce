"""How many tokens does a decoding request draft, and how many does it keep?

Every simulated request walks along a recording from a place of its own; where a recorded text ends,
the walk goes on with the next one. Leaves out what drafting costs and when a request decodes at
all.

Reference: Liu et al. 2025, "PEARL" (arXiv:2408.11850), section 4, for drafting during verification;
Shen et al. 2025, "SpecBranch" (arXiv:2506.01979), for branches; Kumar, Dao, May 2026, "Speculative
Speculative Decoding" (arXiv:2603.03251), for drafts of several outcomes.
"""

from __future__ import annotations

from costmodel.laws.batching import OUTCOME_PASSES
from simulator.loop.compiled import compiled, inlined
from simulator.loop.decoders.block_walk import advance_block, block_rows, restart_block
from simulator.loop.decoders.record import (
    ALIKE,
    ALWAYS,
    BEHIND,
    BLOCK,
    BY_REQUEST,
    CHAIN,
    EMA,
    INSTEAD,
    LATE,
    NOTHING,
    PARALLEL,
    TREE,
    WHOLE,
    WITHOUT_FIRST,
    Drafts,
    Places,
    Steps,
)
from simulator.loop.request import DECODING
from simulator.loop.state import Replica, Request, Requests, Small


@inlined
def wanted(d: Drafts, request: Request, places: Places | None, batch: int) -> int:
    """Query tokens beyond the first that a decoding request would like to have."""
    if places is not None and d.decoder == BLOCK:
        return block_rows(d, request, places) - 1
    if batch == 0 or request.pending == NOTHING:
        return 0
    if d.decoder == TREE:
        return int(request.proposes)
    if d.controller == EMA:
        batch = min(batch, int(request.recent_accepted + 0.5) + 1)
    if request.pending == WITHOUT_FIRST:
        batch -= 1
    tokens = drafted_tokens(d, request, batch)
    if d.slots != ALIKE and request.granted < tokens:
        tokens = int(request.granted)
    return tokens


@inlined
def drafted_tokens(d: Drafts, request: Request, batch: int) -> int:
    """Tokens of a request's draft where the batch allows so many, of which it may verify fewer."""
    if d.within_output:
        batch = min(batch, request.output - request.generated - 1)
    return min(batch, int(request.proposes))


@inlined
def draft_length(
    d: Drafts, request: Request, places: Places | None, drafts: int, batch: int
) -> int:
    """Draft passes of a request's step that verifies `drafts` tokens, or the tokens that they make
    one by one.
    """
    if places is not None and drafts > 0 and d.counts_passes:
        passes = int(places[request.place].passes)
        if d.decoder == TREE:
            return passes
        if d.within_output:
            batch = min(batch, request.output - request.generated - 1)
        return min(passes, batch)
    return drafts if d.slots == ALIKE else drafted_tokens(d, request, batch)


@inlined
def fits(d: Drafts, extra: int, room: int) -> int:
    """What remains of `extra` query tokens where there is room for `room`; trees and blocks are not
    cut.
    """
    if extra <= room:
        return extra
    return max(room, 0) if d.decoder in (CHAIN, PARALLEL) else 0


@compiled
def start_again(d: Drafts, request: Request, places: Places | None) -> None:
    """A request lost its cache: an unfinished block starts again."""
    request.unread = 0
    if places is not None and d.decoder == BLOCK:
        restart_block(d, request, places)
    else:
        request.pending = without_draft(d)


@inlined
def without_draft(d: Drafts) -> int:
    """What a request has whose draft is worth nothing."""
    if d.decoder != PARALLEL:
        return WHOLE
    return LATE if d.waits else NOTHING


@inlined
def accepted_tokens(request: Request, drafts: int) -> int:
    """Draft tokens that a step keeps, before the request's end cuts it."""
    return min(int(request.emits), drafts + 1) - 1


@inlined
def accept(d: Drafts, replica: Replica, request: Request) -> int:
    """Draft tokens that a step keeps, before the request's end cuts it; those that the batch did
    not verify are counted.
    """
    drafts = int(request.drafts)
    if d.slots != ALIKE:
        unselected = drafted_tokens(d, request, replica.draft_limit) - drafts
        replica.unselected += unselected
        replica.wasted += unselected
    return accepted_tokens(request, drafts)


@compiled
def meanwhile(d: Drafts, request: Request, places: Places, batch: int) -> tuple[int, int]:
    """Branches of the draft that is made while a request's pending one is verified, which begin
    where that one ends, and their tokens, as if that one were accepted.
    """
    behind = request.place + request.drafts
    branches = 1
    if d.branches > 1:
        branches = int(places[behind % len(places)].branches_at)
    following = places[(behind + 1) % len(places)]
    return branches, min(batch, 1 + following.proposes)


@compiled
def count_branches(
    d: Drafts,
    replica: Replica,
    running: Small,
    requests: Requests,
    places: Places | None,
    batch: int,
) -> None:
    """Note the drafts that are made while those of the composed iteration are verified."""
    if places is None:
        return
    if d.decoder != PARALLEL or batch == 0:
        return
    replica.longest_draft = batch
    replica.drafts_at_once = replica.longest_new_draft = 0
    for i in range(replica.running):
        request = requests[running[i]]
        if request.phase == DECODING and request.quota > 0:
            if d.fan_out > 0:
                replica.drafts_at_once += (request.drafts + 1) * d.fan_out
                replica.longest_new_draft = batch + OUTCOME_PASSES
                if request.pending == LATE and request.drafts > 0:
                    replica.late_drafts += 1
                    replica.late_context += request.computed
                continue
            branches, tokens = meanwhile(d, request, places, batch)
            replica.drafts_at_once += branches
            replica.longest_new_draft = max(replica.longest_new_draft, tokens)


@compiled
def keep_foreseen(
    d: Drafts, replica: Replica, request: Request, places: Places, accepted: int
) -> int:
    """What becomes of the drafts that were made for the outcomes of this step's verification;
    tokens that the step emits.
    """
    place, batch = request.place, replica.draft_limit
    outcome = BEHIND if accepted == request.drafts else INSTEAD
    stays = (
        batch > 0
        and places[place].left > accepted + 1
        and places[place + accepted].foreseen & outcome > 0
    )
    request.pending = WHOLE if stays else without_draft(d)
    unselected = ((request.drafts + 1) * d.fan_out - 1) * batch
    rolled_back = 0 if stays else batch
    replica.unselected += unselected
    replica.rolled_back += rolled_back
    replica.wasted += unselected + rolled_back
    return accepted + 1


@compiled
def keep_parallel_draft(
    d: Drafts, replica: Replica, request: Request, places: Places, accepted: int
) -> int:
    """What becomes of the draft that was made while this step's was verified; tokens that the step
    emits.
    """
    drafts, place, batch = request.drafts, request.place, replica.draft_limit
    if d.fan_out > 0:
        return keep_foreseen(d, replica, request, places, accepted)
    # the draft goes on behind its own last token
    if drafts > 0 and d.branches == 0 and accepted == drafts:
        request.pending = WHOLE
        return accepted
    decided = place + accepted  # the token behind those that were accepted
    whole = (
        accepted == drafts and places[place].left > accepted + 1 and (drafts == 0 or d.branches > 0)
    )
    stays = whole and batch > 0 and places[decided].foreseen > 0
    request.pending = WITHOUT_FIRST if stays else NOTHING
    # the branches beside the one that stays are thrown away, and that one if none does
    branches, tokens = meanwhile(d, request, places, batch)
    unselected = (branches - 1) * tokens
    rolled_back = 0 if stays else tokens
    replica.unselected += unselected
    replica.rolled_back += rolled_back
    replica.wasted += unselected + rolled_back
    return accepted + 1


@inlined
def keep_accepted(
    d: Drafts,
    replica: Replica,
    request: Request,
    places: Places | None,
    accepted: int,
    emitted: int,
) -> int:
    """A step emits its accepted draft tokens, and mostly one more, as far as the request still wants
    them: so many, and the request's walk moves on.
    """
    drafts = int(request.drafts)
    if drafts > 0 and (d.controller != ALWAYS or d.slots == BY_REQUEST):
        request.recent_accepted += d.weight * (accepted - request.recent_accepted)
        replica.recent_accepted += accepted
        replica.recent_tried += accepted + (accepted < drafts)
    following = request.place + emitted
    if places is not None and d.states > 1 and drafts > 0:
        following = int(places[request.place].following)
    request.place = following
    emitted = min(emitted, request.output - request.generated)
    accepted = min(emitted, accepted)
    replica.drafted += drafts
    replica.accepted += accepted
    replica.wasted += drafts - accepted
    return emitted


@inlined
def decode(
    d: Drafts, steps: Steps, places: Places | None, replica: Replica, request: Request
) -> int:
    """A request that decodes takes its step, and its walk moves on; tokens that it emits."""
    if places is not None and d.decoder == BLOCK:
        emitted = advance_block(d, replica, request, places)
        return min(emitted, request.output - request.generated)
    accepted = accept(d, replica, request)
    emitted = accepted + 1
    if places is not None and d.decoder == PARALLEL:
        emitted = keep_parallel_draft(d, replica, request, places, accepted)
    emitted = keep_accepted(d, replica, request, places, accepted, emitted)
    if request.place >= len(steps):
        request.place = 0
    request.emits = steps[request.place].emits
    request.proposes = steps[request.place].proposes
    return emitted


@compiled
def forget_slowly(d: Drafts, replica: Replica) -> None:
    """Old steps count less in the acceptance that a replica remembers."""
    keep = 1.0 - d.weight
    replica.recent_accepted *= keep
    replica.recent_tried *= keep
