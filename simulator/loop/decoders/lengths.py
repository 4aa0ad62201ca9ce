"""Which draft length does a batch take in this iteration, by what its engine has seen so far?

Every rule compares the tokens that a step of K draft tokens would emit with the seconds of such a
step, or counts what its own choices brought: `simulator.loop.length_policies` says who does which.
Leaves out what a draft costs and keeps.

Reference: Liu et al. 2024, "SmartSpec" (arXiv:2406.14066), section 4, for goodput; Li et al. 2025,
"Nightjar" (arXiv:2512.22420), section 4, for the bandit.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from simulator.loop.compiled import compiled, inlined
from simulator.loop.decoders.record import (
    ALWAYS,
    BANDIT,
    BLOCK,
    EMA,
    EXPECTED,
    GOODPUT,
    ORACLE,
    PLAIN,
    SURVIVAL,
    TIERS,
    VERIFIED,
    Drafts,
)
from simulator.loop.request import DECODING
from simulator.loop.state import Buffers, Replica, Requests, SchedulerLimits
from simulator.loop.tables import Tables, between, draft_seconds, target_seconds

PROBE_EVERY = (
    64  # iterations after which the goodput controller drafts although it seems not to pay
)
# columns of a tier: the batch that it begins at, its thresholds and pace, and its draft lengths
FIRST, DOWN, UP, PACE, WARM_UP, COUNT, LENGTHS = range(7)
AVERAGE, SEEN, AT = range(3)  # columns of what is remembered of a tier
BINS, LEFT, ARM, BLOCK_STEPS, DONE, TRIES = range(
    6
)  # and of a bandit's batch size; the losses stand behind the tries
SHARE, KNOWN, NOW = range(
    3
)  # rows of what is remembered of drafts that were accepted up to a token


def memory_shape(d: Drafts, limits: SchedulerLimits) -> tuple[int, int]:
    """Rows and columns of what a rule remembers."""
    if d.controller == TIERS:
        return d.tiers.shape[0], 3
    if d.controller == BANDIT:
        return limits.max_requests + 1, TRIES + 2 * (d.most + 1)
    return (3, d.most + 2) if d.controller == SURVIVAL else (1, 1)


def begin_policy(d: Drafts, memory: NDArray[np.float64]) -> None:
    """What a rule remembers before the first iteration: every tier begins at the longest draft, or
    in its middle.
    """
    if d.controller != TIERS:
        return
    for row in range(d.tiers.shape[0]):
        lengths = d.tiers[row, LENGTHS : LENGTHS + int(d.tiers[row, COUNT])].tolist()
        at = lengths.index(d.most) if d.most in lengths else len(lengths) // 2
        memory[row] = lengths[at] - 1.0, 0.0, at


@compiled
def length_seconds(
    d: Drafts, t: Tables, buffers: Buffers, decoding: int, k: int, context_tokens: float
) -> float:
    """Seconds of an iteration beside no prompts in which every request drafts k tokens."""
    seconds = target_seconds(t, decoding, 1.0 + k, context_tokens, buffers.chunks, 0, 0)
    return float(seconds + draft_seconds(t, decoding, k, context_tokens, 0))


@compiled
def _expect_survivors(buffers: Buffers, most: int) -> None:
    """Tokens of a step by how often drafts were accepted up to each token; beyond the last seen, as
    before it.
    """
    expected, before, last = 1.0, 1.0, 1.0
    buffers.gains[0] = 1.0
    for k in range(1, most + 1):
        share = buffers.memory[SHARE, k]
        if buffers.memory[KNOWN, k] == 0.0:
            share = last * (last / before if before > 0.0 else 0.0)
        before, last = last, share
        expected += share
        buffers.gains[k] = expected


@compiled
def _count_acceptance(
    buffers: Buffers, replica: Replica, requests: Requests, most: int, decoding: int
) -> None:
    """Tokens of a step as the recording will have it: who of the batch accepts how many."""
    gains = buffers.gains
    for k in range(most + 1):
        gains[k] = 0.0
    for i in range(replica.running):
        r = buffers.running[i]
        if requests[r].phase == DECODING:
            missing = requests[r].output - requests[r].generated
            gains[min(requests[r].emits, requests[r].proposes + 1, missing, most + 1) - 1] += 1.0
    tokens, longer = 0.0, float(decoding)
    for k in range(most + 1):
        ends, tokens = gains[k], tokens + longer
        longer -= ends
        gains[k] = tokens / decoding


@compiled
def _expect(
    d: Drafts, replica: Replica, buffers: Buffers, requests: Requests, most: int, decoding: int
) -> None:
    """Write the tokens that a step of 0, 1, ... draft tokens is taken to emit."""
    if d.controller == SURVIVAL:
        _expect_survivors(buffers, most)
        return
    if d.controller == ORACLE:
        _count_acceptance(buffers, replica, requests, most, decoding)
        return
    rate = replica.recent_accepted / replica.recent_tried if replica.recent_tried > 0.0 else 1.0
    expected, power = 0.0, 1.0
    for k in range(most + 1):
        expected += power
        power *= rate
        buffers.gains[k] = d.gains[k] if d.controller == EXPECTED else expected


@compiled
def _best_length(
    d: Drafts, t: Tables, buffers: Buffers, decoding: int, most: int, context_tokens: float
) -> int:
    """The candidate that emits most tokens a second by the written expectation."""
    context = context_tokens if d.profiled_context < 0.0 else d.profiled_context * decoding
    best, best_rate = 0, 0.0
    for i in range(len(d.lengths)):
        k = d.lengths[i]
        if k > most:
            break
        rate = buffers.gains[k] / length_seconds(d, t, buffers, decoding, k, context)
        if rate > best_rate:
            best, best_rate = k, rate
    return int(best)


@compiled
def _tier(d: Drafts, decoding: int) -> int:
    """The last tier that begins at a batch of so many or below."""
    found = 0
    for i in range(len(d.tiers)):
        if d.tiers[i, FIRST] <= decoding:
            found = i
    return found


@compiled
def _move_in_tier(d: Drafts, buffers: Buffers, row: int) -> None:
    """Go to a shorter length of a tier where fewer tokens are accepted than that, else to a longer
    one.
    """
    at, average = int(buffers.memory[row, AT]), buffers.memory[row, AVERAGE]
    last = int(d.tiers[row, COUNT]) - 1
    now = d.tiers[row, LENGTHS + at]
    if now == 0.0:  # nothing is seen without drafts: the next length is tried
        at = min(at + 1, last)
        if average < 0.0:
            buffers.memory[row, AVERAGE] = d.tiers[row, LENGTHS + at] - 1.0
        buffers.memory[row, AT] = at
        return
    lower = at
    while lower > 0:
        below = d.tiers[row, LENGTHS + lower - 1]
        if average > (below - 0.5 if below > 0.0 else 0.5) + d.tiers[row, DOWN]:
            break
        lower -= 1
    while (
        lower == at and at < last and average > d.tiers[row, LENGTHS + at] - 0.5 + d.tiers[row, UP]
    ):
        at += 1
        lower = at
    buffers.memory[row, AT] = lower


@compiled
def _learn_tier(d: Drafts, replica: Replica, buffers: Buffers) -> None:
    """Count an iteration in its tier, and look again at the tier's length now and then."""
    row = _tier(d, replica.decoding)
    if d.tiers[row, LENGTHS + int(buffers.memory[row, AT])] > 0.0:
        mean = replica.just_accepted / replica.decoding
        buffers.memory[row, AVERAGE] += d.weight * (mean - buffers.memory[row, AVERAGE])
    buffers.memory[row, SEEN] += 1.0
    since = buffers.memory[row, SEEN] - d.tiers[row, WARM_UP]
    if since > 0.0 and since % d.tiers[row, PACE] == 0.0:
        _move_in_tier(d, buffers, row)


@compiled
def _draw(d: Drafts, replica: Replica) -> float:
    """The next of the policy's own draws, in [0, 1)."""
    replica.drawn += 1
    return float(d.draws[replica.drawn % len(d.draws)])


@compiled
def _arm(d: Drafts, t: Tables, replica: Replica, buffers: Buffers, row: int, most: int) -> int:
    """Any length, with a probability that falls from bin to bin; else that of the least mean loss.

    A length above 0 after a while without drafts also bears what its drafter has to read first, by
    draft token.
    """
    if _draw(d, replica) * buffers.memory[row, BINS] < 1.0:
        return int(_draw(d, replica) * (most + 1))
    reread_s = (
        between(t.draft_row_s, float(row * replica.undrafted)) if replica.undrafted > 0 else 0.0
    )
    best, least = 0, np.inf
    for k in range(most + 1):
        tries = buffers.memory[row, TRIES + k]
        loss = buffers.memory[row, TRIES + most + 1 + k] / tries if tries > 0.0 else 0.0
        if k > 0:
            loss += reread_s / k
        if loss < least:
            best, least = k, loss
    return best


@compiled
def _pull(d: Drafts, t: Tables, replica: Replica, buffers: Buffers, decoding: int) -> int:
    """The bandit's length: it stays for a bin of steps of this batch size; blocks of bins
    double.
    """
    memory, row = buffers.memory, decoding
    if memory[row, LEFT] <= 0.0:
        if memory[row, DONE] >= memory[row, BLOCK_STEPS]:
            memory[row, BLOCK_STEPS] = max(2.0 * memory[row, BLOCK_STEPS], 1.0)
            memory[row, DONE] = memory[row, BINS] = 0.0
        memory[row, BINS] += 1.0
        memory[row, LEFT] = math.ceil(math.sqrt(memory[row, BLOCK_STEPS]))
        memory[row, ARM] = _arm(d, t, replica, buffers, row, d.most)
    memory[row, LEFT] -= 1.0
    memory[row, DONE] += 1.0
    return int(memory[row, ARM])


@compiled
def count_ready(
    d: Drafts, replica: Replica, buffers: Buffers, requests: Requests
) -> tuple[int, int]:
    """Requests that are ready to decode, and their cached tokens, or 0 where no draft length
    depends on these.
    """
    weighed = d.decoder not in (PLAIN, BLOCK) and d.controller not in (ALWAYS, EMA, VERIFIED)
    if replica.all_decode and not weighed:
        return replica.running, 0
    decoding, context = 0, 0
    for i in range(replica.running):
        r = buffers.running[i]
        if requests[r].phase == DECODING:
            decoding += 1
            context += requests[r].computed
    return decoding, context


@compiled
def batch_drafts(
    d: Drafts,
    t: Tables,
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    decoding: int,
    context_tokens: float,
) -> int:
    """Draft tokens that a request may have in an iteration in which `decoding` requests decode."""
    if d.decoder in (PLAIN, BLOCK):
        return 0
    most = int(d.by_batch[min(decoding, len(d.by_batch) - 1)])
    if d.controller in (ALWAYS, EMA, VERIFIED) or most == 0 or decoding == 0:
        return most
    if d.controller == TIERS:
        row = _tier(d, decoding)
        return int(min(most, d.tiers[row, LENGTHS + int(buffers.memory[row, AT])]))
    if d.controller == BANDIT:
        return int(min(most, _pull(d, t, replica, buffers, decoding)))
    if d.pace == 1 or replica.iterations % d.pace == 0 or replica.iterations == 0:
        _expect(d, replica, buffers, requests, most, decoding)
        replica.held_length = _best_length(d, t, buffers, decoding, most, context_tokens)
    if (
        d.controller == GOODPUT
        and replica.held_length == 0
        and replica.iterations % PROBE_EVERY == 0
    ):
        return 1
    return int(min(most, replica.held_length))


@compiled
def change_length(
    d: Drafts, replica: Replica, buffers: Buffers, requests: Requests, batch: int
) -> None:
    """Count a change of the draft length, and what the drafter has to read that was generated
    without it.
    """
    replica.reread_rows = 0
    if batch != replica.last_length:
        replica.last_length = batch
        if replica.steps > 0:
            replica.length_changes += 1
            replica.swap_s += d.change_s
    if batch == 0 or replica.undrafted == 0:
        return
    replica.undrafted = 0
    for i in range(replica.running):
        r = buffers.running[i]
        if requests[r].phase == DECODING:
            replica.reread_rows += requests[r].unread
            requests[r].unread = 0


@inlined
def see_step(
    d: Drafts, replica: Replica, buffers: Buffers, requests: Requests, r: int, emitted: int
) -> None:
    """Note what a request emitted, as far as a policy wants to know."""
    if d.controller == SURVIVAL:
        buffers.memory[NOW, min(emitted - 1, d.most)] += 1.0
    if d.rereads and replica.draft_limit == 0:
        requests[r].unread += emitted


@compiled
def learn(d: Drafts, replica: Replica, buffers: Buffers, emitted: int) -> None:
    """A policy looks at the iteration that has ended, in which requests that decode emitted so many
    tokens.
    """
    if replica.decoding == 0:
        return
    if d.rereads and replica.draft_limit == 0:
        replica.undrafted += 1
    if d.controller == TIERS:
        _learn_tier(d, replica, buffers)
    elif d.controller == BANDIT and replica.chunks == 0 and emitted > 0:
        k = replica.draft_limit
        buffers.memory[replica.decoding, TRIES + k] += 1.0
        loss = (replica.end_s - replica.began_s) * replica.decoding / emitted
        buffers.memory[replica.decoding, TRIES + d.most + 1 + k] += loss
    elif d.controller == SURVIVAL:
        longer = float(replica.decoding)
        for k in range(d.most + 1):
            if 0 < k <= replica.draft_limit:
                weight = d.weight if buffers.memory[KNOWN, k] > 0.0 else 1.0
                buffers.memory[SHARE, k] += weight * (
                    longer / replica.decoding - buffers.memory[SHARE, k]
                )
                buffers.memory[KNOWN, k] = 1.0
            longer -= buffers.memory[NOW, k]
            buffers.memory[NOW, k] = 0.0
