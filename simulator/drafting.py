"""How many tokens does a decoding request draft, and how many does it keep?

Every simulated request walks along a recording from a place of its own; where a recorded text ends, the walk goes on
with the next one. Leaves out what drafting costs and when a request decodes at all.

Reference: Liu et al. 2025, "PEARL" (arXiv:2408.11850), section 4, for drafting ahead; Shen et al. 2025, "SpecBranch"
(arXiv:2506.01979), for branches; Liu et al. 2024, "SmartSpec" (arXiv:2406.14066), section 4, for goodput.
"""

from __future__ import annotations

from typing import NamedTuple

from simulator.compiled import compiled
from simulator.state import (
    ACCEPTED,
    DECODING_NOW,
    DRAFTED,
    EMITTED,
    ITERATIONS,
    KEPT,
    ROLLED_BACK,
    STEPS,
    TRIED,
    WASTED,
    Byte,
    Replica,
    Requests,
    Small,
)
from simulator.tables import Tables, draft_seconds, target_seconds

PLAIN, CHAIN, TREE, AHEAD, BLOCK = range(5)
SPLIT, PAD, REGROUP = range(3)
WHOLE, NOTHING, WITHOUT_FIRST = range(3)  # what a request has pending of a draft that was made ahead
ALWAYS, EMA, GOODPUT = range(3)
PROBE_EVERY = 64  # iterations after which the goodput controller drafts although it seems not to pay


class Drafts(NamedTuple):
    """Decoder of every request; arrays over the places of a recording, or over the passes of recorded blocks."""

    decoder: int
    controller: int
    most: int  # draft tokens
    weight: float
    branches: int  # 0: a draft made ahead goes on behind the drafter's own token
    parts: int  # passes in which a draft is verified
    prunes: bool  # requests with a rejected token take no part in later ones
    interference_ratio: float
    ragged: int
    group: int  # most requests that are padded together
    by_batch: Small  # draft tokens by decoding requests; the last entry serves all larger batches
    emits: Small  # tokens of a step that drafts enough; of a pass of a block decoder
    proposes: Small  # draft tokens that the drafter has there; query tokens of a pass of a block decoder
    left: Small  # tokens to the end of the recorded text; passes since the start of the block
    foreseen: Byte  # 1 where a draft made ahead would have begun with the recorded token


@compiled
def batch_drafts(d: Drafts, t: Tables, replica: Replica, decoding: int, context_tokens: float) -> int:
    """Draft tokens that a request may have in an iteration in which `decoding` requests decode."""
    if d.decoder in (PLAIN, BLOCK):
        return 0
    most = int(d.by_batch[min(decoding, len(d.by_batch) - 1)])
    if d.controller != GOODPUT or most == 0 or decoding == 0:
        return most
    rate = replica.second[KEPT] / replica.second[TRIED] if replica.second[TRIED] > 0.0 else 1.0
    best, best_rate, expected, power = 0, 0.0, 0.0, 1.0
    for k in range(most + 1):
        expected += power
        power *= rate
        seconds = target_seconds(t, decoding, 1.0 + k, context_tokens, replica.chunks, 0, 0)
        seconds += draft_seconds(t, decoding, k, context_tokens, 0)
        if expected / seconds > best_rate:
            best, best_rate = k, expected / seconds
    if best == 0 and replica.number[ITERATIONS] % PROBE_EVERY == 0:
        return 1
    return best


@compiled
def wanted(d: Drafts, requests: Requests, r: int, batch: int) -> int:
    """Query tokens beyond the first that a decoding request would like to have."""
    if d.decoder == PLAIN:
        return 0
    place = requests[r].place
    if d.decoder == BLOCK:
        return int(d.proposes[place]) - 1
    if batch == 0 or requests[r].pending == NOTHING:
        return 0
    if d.decoder == TREE:
        return int(d.proposes[place])
    if d.controller == EMA:
        batch = min(batch, int(requests[r].kept + 0.5) + 1)
    if requests[r].pending == WITHOUT_FIRST:
        batch -= 1
    return int(min(batch, d.proposes[place]))


@compiled
def fits(d: Drafts, extra: int, room: int) -> int:
    """What remains of `extra` query tokens where there is room for `room`; trees and blocks are not cut."""
    if extra <= room:
        return extra
    return max(room, 0) if d.decoder in (CHAIN, AHEAD) else 0


@compiled
def start_again(d: Drafts, requests: Requests, r: int) -> None:
    """A request lost its cache: an unfinished block starts again."""
    if d.decoder == BLOCK:
        requests[r].place -= d.left[requests[r].place]
    requests[r].pending = NOTHING if d.decoder == AHEAD else WHOLE


@compiled
def _one_pass(d: Drafts, requests: Requests, r: int) -> int:
    place = requests[r].place
    requests[r].place = (place + 1) % len(d.emits)
    return int(d.emits[place])


@compiled
def kept_tokens(d: Drafts, requests: Requests, r: int, drafts: int) -> int:
    """Draft tokens that a step keeps, before the request's end cuts it."""
    place = requests[r].place
    return int(min(d.emits[place], drafts + 1, d.left[place])) - 1


@compiled
def _roll_back(replica: Replica, tokens: int) -> None:
    replica.number[ROLLED_BACK] += tokens
    replica.number[WASTED] += tokens


@compiled
def _look_ahead(d: Drafts, replica: Replica, requests: Requests, r: int, kept: int, batch: int) -> int:
    """What becomes of the draft that was made while this step's was verified; tokens that the step emits."""
    drafts, place = requests[r].drafts, requests[r].place
    decided = place + kept  # the token behind those that were kept
    whole = kept == drafts and d.left[place] > kept + 1
    if drafts > 0 and d.branches == 0:  # the draft goes on behind its own last token
        if kept == drafts:
            requests[r].pending = WHOLE
            return kept
        whole = False
    if whole and d.foreseen[decided] and batch > 0:
        requests[r].pending = WITHOUT_FIRST
        _roll_back(replica, (max(d.branches, 1) - 1) * batch)
    else:
        requests[r].pending = NOTHING
        _roll_back(replica, max(d.branches, 1) * batch)
    return kept + 1


@compiled
def _walk(d: Drafts, replica: Replica, requests: Requests, r: int, drafts: int, batch: int) -> tuple[int, int]:
    """Tokens that a step emits and draft tokens that it keeps, before the request's end cuts it; the walk moves on."""
    kept = kept_tokens(d, requests, r, drafts)
    emitted = _look_ahead(d, replica, requests, r, kept, batch) if d.decoder == AHEAD else kept + 1
    if drafts > 0:
        requests[r].kept += d.weight * (kept - requests[r].kept)
        replica.second[KEPT] += kept
        replica.second[TRIED] += kept + (kept < drafts)
    step = requests[r].place + emitted
    requests[r].place = step if step < len(d.emits) else 0
    return int(emitted), int(kept)


@compiled
def advance_walk(d: Drafts, replica: Replica, requests: Requests, r: int, batch: int) -> int:
    """Let a decoding request take its step: the tokens that it emits, at most as many as it still wants."""
    number = replica.number
    missing = requests[r].output - requests[r].made
    if d.decoder == PLAIN:
        emitted = 1
    elif d.decoder == BLOCK:
        emitted = min(_one_pass(d, requests, r), missing)
    else:
        drafts = requests[r].drafts
        emitted, kept = _walk(d, replica, requests, r, drafts, batch)
        emitted = min(emitted, missing)
        kept = min(emitted, kept)
        number[DRAFTED] += drafts
        number[ACCEPTED] += kept
        number[WASTED] += drafts - kept
    decoding = number[DECODING_NOW]
    number[STEPS] += 1
    number[EMITTED] += emitted
    replica.by_batch[0, decoding] += 1
    replica.by_batch[1, decoding] += emitted
    return int(emitted)


@compiled
def forget_slowly(d: Drafts, replica: Replica) -> None:
    """Old steps count less in the acceptance that a replica remembers."""
    keep = 1.0 - d.weight
    replica.second[KEPT] *= keep
    replica.second[TRIED] *= keep
