"""Which passes verify the drafts of an iteration, and how long do they take beside the draft
passes?

One pass over everybody, or several where passes are limited (`simulator.loop.scheduling.split`); or
parts of the drafts in turn; or groups of requests, each padded to its longest. Leaves out what a
pass costs: `simulator.loop.tables`, or a timer that is asked (`simulator.cluster.asked`).

Reference: Qian et al. 2024, "BASS" (arXiv:2404.15778), for ragged batches that are padded or split;
Zhang et al. 2025, "Batch Speculative Decoding Done Right" (arXiv:2510.22876), for groups of equal
length out of a pool.
"""

from __future__ import annotations

from simulator.loop.compiled import compiled
from simulator.loop.decoders.drafting import accepted_tokens
from simulator.loop.decoders.record import BLOCK, PARALLEL, REGROUP, SPLIT, Drafts
from simulator.loop.request import DECODING
from simulator.loop.scheduling.split import split_seconds
from simulator.loop.state import Buffers, Real, Replica, Requests, SchedulerLimits, Seats, Small
from simulator.loop.tables import (
    Tables,
    device_seconds,
    draft_seconds,
    host_seconds,
)


@compiled
def speculates(replica: Replica) -> bool:
    """Whether the engine runs the drafter in the composed iteration, or passes over open blocks."""
    drafts = replica.draft_limit > 0 or replica.decode_rows > replica.decoding
    return replica.decoding > 0 and drafts


@compiled
def parts(replica: Replica, d: Drafts) -> int:
    """In how many parts the drafts of the composed iteration are verified."""
    return max(1, min(d.parts, replica.longest_draft))


@compiled
def part(
    replica: Replica, running: Small, requests: Requests, d: Drafts, at: int, count: int
) -> tuple[int, float, float]:
    """Requests, mean query tokens and cached tokens of one part of the verification."""
    most = replica.longest_draft
    first, end = at * most // count, (at + 1) * most // count
    members, rows, context = 0, 0, 0
    for i in range(replica.running):
        request = requests[running[i]]
        if request.phase != DECODING or request.quota == 0:
            continue
        drafts = int(request.drafts)
        if at == 0:
            rows += 1 + min(drafts, end)
            context += request.computed
        elif drafts <= first or (d.prunes and accepted_tokens(request, drafts) < first):
            continue
        else:
            rows += min(drafts, end) - first
            context += request.computed + 1 + first
        members += 1
    return members, rows / members if members else 0.0, float(context)


@compiled
def groups(
    replica: Replica,
    running: Small,
    seats: Seats,
    requests: Requests,
    d: Drafts,
    by_length: bool,
) -> int:
    """Line up the requests that decode, by their keys or the shortest first; into how many groups
    they fall.
    """
    count = 0
    for i in range(replica.running):
        r = running[i]
        request = requests[r]
        if request.phase != DECODING or request.quota == 0:
            continue
        at = count
        while by_length and at > 0 and requests[seats[at - 1].order].computed > request.computed:
            seats[at].order = seats[at - 1].order
            at -= 1
        seats[at].order = r
        count += 1
    return (count + d.group - 1) // d.group


@compiled
def group(
    replica: Replica, seats: Seats, requests: Requests, d: Drafts, at: int
) -> tuple[int, float, float]:
    """Requests, query tokens and cached tokens of one group, all as long as its longest."""
    first = at * d.group
    end = min(first + d.group, replica.decoding)
    rows, longest = 0, 0
    for i in range(first, end):
        request = requests[seats[i].order]
        rows = max(rows, int(request.quota))
        longest = max(longest, int(request.computed))
    return end - first, float(rows), float(longest * (end - first))


@compiled
def drafts_at_once(replica: Replica, d: Drafts) -> tuple[int, float]:
    """Drafts of an iteration, and the cached tokens that they read: of those for the outcomes of
    one request, once; where nothing is drafted, the requests beside which the drafter stands idle.
    """
    if replica.decoding == 0:
        return 0, 0.0
    if d.fan_out > 0:
        return replica.drafts_at_once, float(replica.context_tokens)
    count = replica.drafts_at_once if replica.longest_new_draft else replica.decoding
    return count, replica.context_tokens * count / replica.decoding


@compiled
def with_pass(
    d: Drafts | None, so_far_s: float, draft_s: float, verify_s: float, last: bool
) -> float:
    """Seconds up to the end of one more verify pass, beside which `draft_s` are spent on drafting:
    see `step_s`.
    """
    if d is None:
        return so_far_s + verify_s
    if last and d.decoder != PARALLEL:
        return so_far_s + verify_s
    return so_far_s + max(draft_s, verify_s) + d.interference_ratio * min(draft_s, verify_s)


@compiled
def over_caches(replica: Replica, d: Drafts | None) -> tuple[int, float]:
    """Sequences that decode over their caches, and their mean query tokens; full passes stand among
    the prompts.
    """
    copies = 1 if d is None else d.copies
    sequences = (replica.decoding - replica.full_passes) * copies
    queries = (replica.decode_rows - replica.full_rows) / sequences if sequences else 0.0
    return sequences, queries


@compiled
def _pass_seconds(
    buffers: Buffers,
    t: Tables,
    seconds: Real,
    members: int,
    queries: float,
    context: float,
    chunks: int,
) -> float:
    """Seconds on the device of one of several passes of an iteration, beside its first `chunks`
    prompt chunks; 0 of nothing.
    """
    sampled = round(members * queries)
    rows = sampled
    for i in range(chunks):
        rows += buffers.chunks[i].new
    if rows == 0:
        return 0.0
    return device_seconds(
        t, seconds, members, queries, context, buffers.chunks, chunks, rows, sampled + chunks
    )


@compiled
def _in_groups(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    d: Drafts,
    t: Tables,
    seconds: Real,
    by_length: bool,
) -> float:
    total, seats = 0.0, buffers.seats
    for at in range(groups(replica, buffers.running, seats, requests, d, by_length)):
        members, queries, context = group(replica, seats, requests, d, at)
        chunks = replica.chunks if at == 0 else 0
        total += _pass_seconds(buffers, t, seconds, members, queries, context, chunks)
    return total


@compiled
def _engine_seconds(replica: Replica, t: Tables, device_s: float) -> float:
    """What the engine adds to an iteration whose target passes take so long on the device: it
    schedules, prepares and samples once, in however many passes it verifies.

    Of what the device waits for its host the replica remembers the sum.
    """
    prompts = replica.chunks - replica.full_passes
    served, rows = replica.decoding + prompts, max(replica.rows, 1)
    own_s, host_s = host_seconds(
        t, speculates(replica), served, replica.decode_rows, rows, prompts, device_s
    )
    replica.host_s += host_s
    return own_s + host_s


@compiled
def _in_parts(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    d: Drafts,
    t: Tables,
    seconds: Real,
    draft_s: float,
) -> float:
    count = parts(replica, d)
    part_s, device_s = draft_s / count, 0.0
    total = 0.0 if d.decoder == PARALLEL else part_s
    for at in range(count):
        members, queries, context = part(replica, buffers.running, requests, d, at, count)
        chunks = replica.chunks if at == 0 else 0
        verify_s = _pass_seconds(buffers, t, seconds, members, queries, context, chunks)
        device_s += verify_s
        last = at == count - 1
        if last:  # after all of them, so that no drafting hides it
            verify_s += _engine_seconds(replica, t, device_s)
            verify_s += t.accepted_s * replica.just_accepted
        total = with_pass(d, total, part_s, verify_s, last)
    return total


@compiled
def _in_turn(
    replica: Replica,
    buffers: Buffers,
    seats: Seats | None,
    requests: Requests,
    limits: SchedulerLimits,
    d: Drafts | None,
    t: Tables,
    seconds: Real,
) -> float:
    """Seconds in which everything is verified: in groups, in passes of limited size, or in one."""
    if (
        d is not None
        and seats is not None
        and d.ragged != SPLIT
        and d.decoder != BLOCK
        and replica.decoding
    ):
        device_s = _in_groups(replica, buffers, requests, d, t, seconds, False)
        if d.ragged == REGROUP:
            device_s = min(device_s, _in_groups(replica, buffers, requests, d, t, seconds, True))
    elif seats is not None and limits.pass_tokens > 0:
        device_s = split_seconds(replica, buffers, requests, limits, t, seconds)
    else:
        rows, prompts = replica.rows, replica.chunks - replica.full_passes
        sampled = replica.decode_rows + prompts
        sequences, queries = over_caches(replica, d)
        context = float(replica.context_tokens)
        chunks, count = buffers.chunks, replica.chunks
        device_s = device_seconds(
            t, seconds, sequences, queries, context, chunks, count, rows, sampled
        )
    return device_s + _engine_seconds(replica, t, device_s)


@compiled
def tabled_seconds(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    limits: SchedulerLimits,
    d: Drafts | None,
    t: Tables,
    seconds: Real,
) -> float:
    """Seconds of the composed iteration by the tables; of those that the device waits for its host
    the replica remembers the sum.
    """
    if d is None:
        return _in_turn(replica, buffers, buffers.seats, requests, limits, d, t, seconds)
    count, context = drafts_at_once(replica, d)
    rows = replica.rows - replica.decode_rows + replica.reread_rows
    draft_s = draft_seconds(t, seconds, count, replica.longest_new_draft, context, rows)
    if d.parts > 1:
        return _in_parts(replica, buffers, requests, d, t, seconds, draft_s)
    verify_s = _in_turn(replica, buffers, buffers.seats, requests, limits, d, t, seconds)
    verify_s += t.accepted_s * replica.just_accepted
    so_far_s = 0.0 if d.decoder == PARALLEL else draft_s
    if replica.late_drafts > 0:
        context = float(replica.late_context)
        so_far_s += draft_seconds(t, seconds, replica.late_drafts, replica.draft_limit, context, 0)
    return with_pass(d, so_far_s, draft_s, verify_s, True)
