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

from simulator.loop.compiled import compiled, inlined
from simulator.loop.decoders.record import (
    ALWAYS,
    BANDIT,
    COST,
    EMA,
    EXPECTED,
    GATE,
    GOODPUT,
    ORACLE,
    SURVIVAL,
    TIERS,
    VERIFIED,
    Decoder,
    Drafts,
)
from simulator.loop.request import DECODING
from simulator.loop.state import (
    GAINS,
    Buffers,
    Chunks,
    Real,
    Replica,
    Request,
    Requests,
    SchedulerLimits,
    Small,
)
from simulator.loop.tables import Tables, between, draft_seconds, target_seconds

_BY_BATCH = ALWAYS, EMA, VERIFIED  # rules that set no length of the batch by what they have seen
# iterations after which the goodput controller drafts although it seems not to pay
PROBE_EVERY = 64
# columns of a tier: the batch that it begins at, its thresholds and pace, and its draft lengths
FIRST, DOWN, UP, PACE, WARM_UP, COUNT, LENGTHS = range(7)
AVERAGE, SEEN, AT = range(3)  # columns of what is remembered of a tier
# and of a bandit's batch size; the losses stand behind the tries
BINS, LEFT, ARM, BLOCK_STEPS, DONE, TRIES = range(6)
# columns of what is remembered at a gate: whether it is closed, the sum and the number of the
# rolling shares, and behind these the shares
CLOSED, SUM, COUNTED, ROLLING = range(4)
# rows of what is remembered of drafts that were accepted up to a token
SHARE, KNOWN, NOW = range(3)


def new_memory(d: Drafts, limits: SchedulerLimits) -> Real | None:
    """What a rule remembers before the first iteration: every tier begins at the longest draft, or
    in its middle.

    Returns:
        float64[rows of the rule and `GAINS`, columns]; None: the length follows from the batch.
    """
    if d.controller in _BY_BATCH:
        return None
    rows, columns = 1, 1
    if d.controller == TIERS:
        rows, columns = d.tiers.shape[0], AT + 1
    elif d.controller == BANDIT:
        rows, columns = limits.max_requests + 1, TRIES + 2 * (d.most + 1)
    elif d.controller == SURVIVAL:
        rows, columns = NOW + 1, d.most + 2
    elif d.controller == GATE:
        columns = ROLLING + d.pace
    memory = np.zeros((rows + 1, max(columns, d.most + 1)))
    if d.controller == TIERS:
        for row in range(rows):
            lengths = d.tiers[row, LENGTHS : LENGTHS + int(d.tiers[row, COUNT])].tolist()
            at = lengths.index(d.most) if d.most in lengths else len(lengths) // 2
            memory[row, : AT + 1] = lengths[at] - 1.0, 0.0, at
    return memory


@compiled
def length_seconds(
    t: Tables, seconds: Real, chunks: Chunks, decoding: int, k: int, context_tokens: float
) -> float:
    """Seconds of an iteration beside no prompts in which every request drafts k tokens."""
    target_s = target_seconds(t, seconds, decoding, 1.0 + k, context_tokens, chunks, 0, k > 0)
    return target_s + draft_seconds(t, seconds, decoding, k, context_tokens, 0)


@compiled
def _expect_survivors(memory: Real, most: int) -> None:
    """Tokens of a step by how often drafts were accepted up to each token; beyond the last seen, as
    before it.
    """
    expected, before, last = 1.0, 1.0, 1.0
    memory[GAINS, 0] = 1.0
    for k in range(1, most + 1):
        share = memory[SHARE, k]
        if memory[KNOWN, k] == 0.0:
            share = last * (last / before if before > 0.0 else 0.0)
        before, last = last, share
        expected += share
        memory[GAINS, k] = expected


@compiled
def _count_acceptance(
    memory: Real, replica: Replica, running: Small, requests: Requests, most: int, decoding: int
) -> None:
    """Tokens of a step as the recording will have it: who of the batch accepts how many."""
    for k in range(most + 1):
        memory[GAINS, k] = 0.0
    for i in range(replica.running):
        request = requests[running[i]]
        if request.phase == DECODING:
            missing = request.output - request.generated
            emits = min(int(request.emits), request.proposes + 1, missing, most + 1)
            memory[GAINS, emits - 1] += 1.0
    tokens, longer = 0.0, float(decoding)
    for k in range(most + 1):
        ends, tokens = memory[GAINS, k], tokens + longer
        longer -= ends
        memory[GAINS, k] = tokens / decoding


@compiled
def _expect(
    d: Decoder,
    tables: Real,
    replica: Replica,
    running: Small,
    memory: Real,
    requests: Requests,
    most: int,
    decoding: int,
) -> None:
    """Write the tokens that a step of 0, 1, ... draft tokens is taken to emit."""
    if d.controller == SURVIVAL:
        _expect_survivors(memory, most)
        return
    if d.controller == ORACLE:
        _count_acceptance(memory, replica, running, requests, most, decoding)
        return
    rate = replica.recent_accepted / replica.recent_tried if replica.recent_tried > 0.0 else 1.0
    expected, power = 0.0, 1.0
    for k in range(most + 1):
        expected += power
        power *= rate
        memory[GAINS, k] = tables[d.gains.first + k] if d.controller == EXPECTED else expected


@compiled
def _best_length(
    d: Decoder,
    tables: Real,
    memory: Real,
    t: Tables,
    seconds: Real,
    chunks: Chunks,
    decoding: int,
    most: int,
    context_tokens: float,
) -> int:
    """The candidate that emits most tokens a second by the written expectation."""
    context = context_tokens if d.profiled_context < 0.0 else d.profiled_context * decoding
    best, best_rate = 0, 0.0
    for i in range(d.lengths.length):
        k = int(tables[d.lengths.first + i])
        if k > most:
            break
        rate = memory[GAINS, k] / length_seconds(t, seconds, chunks, decoding, k, context)
        if rate > best_rate:
            best, best_rate = k, rate
    return best


@compiled
def _tier(d: Decoder, tables: Real, decoding: int) -> tuple[int, int]:
    """The last tier that begins at a batch of so many or below, and where its columns lie."""
    last = 0
    for i in range(d.tiers.length):
        if tables[d.tiers.first + i * d.tiers.width + FIRST] <= decoding:
            last = i
    return last, d.tiers.first + last * d.tiers.width


@compiled
def _move_in_tier(tables: Real, tier: int, memory: Real, row: int) -> None:
    """Go to a shorter length of a tier where fewer tokens are accepted than that, else to a longer
    one.
    """
    at, average = int(memory[row, AT]), memory[row, AVERAGE]
    last, lengths = int(tables[tier + COUNT]) - 1, tier + LENGTHS
    if tables[lengths + at] == 0.0:  # nothing is seen without drafts: the next length is tried
        at = min(at + 1, last)
        if average < 0.0:
            memory[row, AVERAGE] = tables[lengths + at] - 1.0
        memory[row, AT] = at
        return
    lower = at
    while lower > 0:
        below = tables[lengths + lower - 1]
        if average > (below - 0.5 if below > 0.0 else 0.5) + tables[tier + DOWN]:
            break
        lower -= 1
    while lower == at and at < last and average > tables[lengths + at] - 0.5 + tables[tier + UP]:
        at += 1
        lower = at
    memory[row, AT] = lower


@compiled
def _draw(d: Decoder, tables: Real, replica: Replica) -> float:
    """The next of the policy's own draws, in [0, 1)."""
    replica.drawn += 1
    return tables[d.draws.first + replica.drawn % d.draws.length]


@compiled
def _arm(
    d: Decoder, tables: Real, t: Tables, seconds: Real, replica: Replica, memory: Real, row: int
) -> int:
    """Any length, with a probability that falls from bin to bin; else that of the least mean loss.

    A length above 0 after a while without drafts also bears what its drafter has to read first, by
    draft token.
    """
    most = d.most
    if _draw(d, tables, replica) * memory[row, BINS] < 1.0:
        return int(_draw(d, tables, replica) * (most + 1))
    reread_s = 0.0
    if replica.undrafted > 0:
        reread_s = between(seconds, t.draft_row_s, float(row * replica.undrafted))
    best, least = 0, np.inf
    for k in range(most + 1):
        tries = memory[row, TRIES + k]
        loss = memory[row, TRIES + most + 1 + k] / tries if tries > 0.0 else 0.0
        if k > 0:
            loss += reread_s / k
        if loss < least:
            best, least = k, loss
    return best


@compiled
def _pull(
    d: Decoder, tables: Real, t: Tables, seconds: Real, replica: Replica, memory: Real, row: int
) -> int:
    """The bandit's length at a batch of `row` requests: it stays for a bin of steps of this batch
    size; blocks of bins double.
    """
    if memory[row, LEFT] <= 0.0:
        if memory[row, DONE] >= memory[row, BLOCK_STEPS]:
            memory[row, BLOCK_STEPS] = max(2.0 * memory[row, BLOCK_STEPS], 1.0)
            memory[row, DONE] = memory[row, BINS] = 0.0
        memory[row, BINS] += 1.0
        memory[row, LEFT] = math.ceil(math.sqrt(memory[row, BLOCK_STEPS]))
        memory[row, ARM] = _arm(d, tables, t, seconds, replica, memory, row)
    memory[row, LEFT] -= 1.0
    memory[row, DONE] += 1.0
    return int(memory[row, ARM])


@compiled
def count_ready(
    replica: Replica, running: Small, requests: Requests, memory: Real | None
) -> tuple[int, int]:
    """Requests that are ready to decode, and their cached tokens, which may be 0 where no draft
    length depends on these.
    """
    if memory is None and replica.all_decode:
        return replica.running, 0
    decoding, context = 0, 0
    for i in range(replica.running):
        request = requests[running[i]]
        if request.phase == DECODING:
            decoding += 1
            context += request.computed
    return decoding, context


@compiled
def batch_drafts(
    d: Decoder,
    tables: Real,
    t: Tables,
    seconds: Real,
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    memory: Real | None,
    decoding: int,
    context_tokens: float,
) -> int:
    """Draft tokens that a request may have in an iteration in which `decoding` requests decode, by
    a decoder that drafts.
    """
    most = int(tables[d.by_batch.first + min(decoding, d.by_batch.length - 1)])
    if memory is None:
        return most
    if d.controller == GATE and memory[0, CLOSED] > 0.0:
        most = 0
    if most == 0 or decoding == 0 or d.controller in (COST, GATE):
        return most
    if d.controller == TIERS:
        row, tier = _tier(d, tables, decoding)
        return min(most, int(tables[tier + LENGTHS + int(memory[row, AT])]))
    if d.controller == BANDIT:
        return min(most, _pull(d, tables, t, seconds, replica, memory, decoding))
    if d.pace == 1 or replica.iterations % d.pace == 0 or replica.iterations == 0:
        _expect(d, tables, replica, buffers.running, memory, requests, most, decoding)
        replica.held_length = _best_length(
            d, tables, memory, t, seconds, buffers.chunks, decoding, most, context_tokens
        )
    if (
        d.controller == GOODPUT
        and replica.held_length == 0
        and replica.iterations % PROBE_EVERY == 0
    ):
        return 1
    return min(most, replica.held_length)


@compiled
def change_length(
    d: Decoder, replica: Replica, running: Small, requests: Requests, batch: int
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
        request = requests[running[i]]
        if request.phase == DECODING:
            replica.reread_rows += request.unread
            request.unread = 0


@inlined
def see_step(
    d: Decoder, replica: Replica, memory: Real | None, request: Request, emitted: int
) -> None:
    """Note what a request emitted, as far as a policy wants to know."""
    if memory is not None and d.controller == SURVIVAL:
        memory[NOW, min(emitted - 1, d.most)] += 1.0
    if d.rereads and replica.draft_limit == 0:
        request.unread += emitted


@compiled
def _roll(d: Decoder, replica: Replica, memory: Real) -> None:
    """Note the share of an iteration's draft tokens that was accepted; the gate closes for good
    where the rolling mean of these falls below its threshold.
    """
    drafted = replica.decoding * replica.draft_limit
    if drafted == 0:
        return
    share, at = replica.just_accepted / drafted, ROLLING + int(memory[0, COUNTED]) % d.pace
    memory[0, SUM] += share - memory[0, at]
    memory[0, at] = share
    memory[0, COUNTED] += 1.0
    if memory[0, COUNTED] >= d.pace and memory[0, SUM] < d.least_share * d.pace:
        memory[0, CLOSED] = 1.0


@compiled
def learn(d: Decoder, tables: Real, replica: Replica, memory: Real | None, emitted: int) -> None:
    """A policy looks at the iteration that has ended, in which requests that decode emitted so many
    tokens.
    """
    if replica.decoding == 0:
        return
    if d.rereads and replica.draft_limit == 0:
        replica.undrafted += 1
    if memory is None:
        return
    if d.controller == TIERS:
        row, tier = _tier(d, tables, replica.decoding)
        if tables[tier + LENGTHS + int(memory[row, AT])] > 0.0:
            mean = replica.just_accepted / replica.decoding
            memory[row, AVERAGE] += d.weight * (mean - memory[row, AVERAGE])
        memory[row, SEEN] += 1.0
        since = memory[row, SEEN] - tables[tier + WARM_UP]
        if since > 0.0 and since % tables[tier + PACE] == 0.0:
            _move_in_tier(tables, tier, memory, row)
    elif d.controller == GATE:
        _roll(d, replica, memory)
    elif d.controller == BANDIT and replica.chunks == 0 and emitted > 0:
        row, k = replica.decoding, replica.draft_limit
        memory[row, TRIES + k] += 1.0
        loss = (replica.end_s - replica.began_s) * replica.decoding / emitted
        memory[row, TRIES + d.most + 1 + k] += loss
    elif d.controller == SURVIVAL:
        longer = float(replica.decoding)
        for k in range(d.most + 1):
            if 0 < k <= replica.draft_limit:
                weight = d.weight if memory[KNOWN, k] > 0.0 else 1.0
                memory[SHARE, k] += weight * (longer / replica.decoding - memory[SHARE, k])
                memory[KNOWN, k] = 1.0
            longer -= memory[NOW, k]
            memory[NOW, k] = 0.0
