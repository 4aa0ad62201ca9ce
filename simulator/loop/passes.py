"""Which passes verify the drafts of an iteration, and how long do they take beside the draft
passes?

One pass over everybody, or several where passes are limited (`simulator.loop.scheduling.split`); or
parts of the drafts in turn; or groups of requests, each padded to its longest. Leaves out what a
pass costs: `simulator.loop.tables`, or a timer that is asked (`simulator.cluster.replica`).

Reference: Qian et al. 2024, "BASS" (arXiv:2404.15778), for ragged batches that are padded or split;
Zhang et al. 2025, "Batch Speculative Decoding Done Right" (arXiv:2510.22876), for groups of equal
length out of a pool.
"""

from __future__ import annotations

from simulator.loop.compiled import compiled
from simulator.loop.decoders.drafting import accepted_tokens
from simulator.loop.decoders.record import BLOCK, PARALLEL, PLAIN, REGROUP, SPLIT, Drafts
from simulator.loop.request import DECODING
from simulator.loop.scheduling.split import split_seconds
from simulator.loop.state import Buffers, Replica, Requests, SchedulerLimits
from simulator.loop.tables import (
    Tables,
    device_seconds,
    draft_seconds,
    engine_seconds,
    exposed_host_s,
    target_seconds,
)


@compiled
def parts(replica: Replica, d: Drafts) -> int:
    """In how many parts the drafts of the composed iteration are verified."""
    return int(max(1, min(d.parts, replica.longest_draft)))


@compiled
def part(
    replica: Replica, buffers: Buffers, requests: Requests, d: Drafts, at: int, count: int
) -> tuple[int, float, float]:
    """Requests, mean query tokens and cached tokens of one part of the verification."""
    most = replica.longest_draft
    first, end = at * most // count, (at + 1) * most // count
    members, rows, context = 0, 0, 0
    for i in range(replica.running):
        r = buffers.running[i]
        if requests[r].phase != DECODING or requests[r].quota == 0:
            continue
        drafts = requests[r].drafts
        if at == 0:
            rows += 1 + min(drafts, end)
            context += requests[r].computed
        elif drafts <= first or (d.prunes and accepted_tokens(d, requests, r, drafts) < first):
            continue
        else:
            rows += min(drafts, end) - first
            context += requests[r].computed + 1 + first
        members += 1
    return members, rows / members if members else 0.0, float(context)


@compiled
def groups(
    replica: Replica, buffers: Buffers, requests: Requests, d: Drafts, by_length: bool
) -> int:
    """Line up the requests that decode, by their keys or the shortest first; into how many groups
    they fall.
    """
    count, order = 0, buffers.order
    for i in range(replica.running):
        r = buffers.running[i]
        if requests[r].phase != DECODING or requests[r].quota == 0:
            continue
        at = count
        while by_length and at > 0 and requests[order[at - 1]].computed > requests[r].computed:
            order[at] = order[at - 1]
            at -= 1
        order[at] = r
        count += 1
    return int((count + d.group - 1) // d.group)


@compiled
def group(
    replica: Replica, buffers: Buffers, requests: Requests, d: Drafts, at: int
) -> tuple[int, float, float]:
    """Requests, query tokens and cached tokens of one group, all as long as its longest."""
    first = at * d.group
    end = min(first + d.group, replica.decoding)
    rows, longest = 0, 0
    for i in range(first, end):
        r = buffers.order[i]
        rows = max(rows, requests[r].quota)
        longest = max(longest, requests[r].computed)
    return end - first, float(rows), float(longest * (end - first))


@compiled
def drafts_at_once(replica: Replica) -> tuple[int, float]:
    """Drafts of an iteration, and the cached tokens that they read."""
    if replica.decoding == 0:
        return 0, 0.0
    count = replica.drafts_at_once
    return count, float(replica.context_tokens * count / replica.decoding)


@compiled
def with_pass(d: Drafts, so_far_s: float, draft_s: float, verify_s: float, last: bool) -> float:
    """Seconds up to the end of one more verify pass, beside which `draft_s` are spent on drafting:
    see `step_s`.
    """
    if last and d.decoder != PARALLEL:
        return so_far_s + verify_s
    return float(so_far_s + max(draft_s, verify_s) + d.interference_ratio * min(draft_s, verify_s))


@compiled
def _in_groups(
    replica: Replica, buffers: Buffers, requests: Requests, d: Drafts, t: Tables, by_length: bool
) -> float:
    total = 0.0
    for at in range(groups(replica, buffers, requests, d, by_length)):
        members, queries, context = group(replica, buffers, requests, d, at)
        prompts = at == 0
        total += target_seconds(
            t,
            members,
            queries,
            context,
            buffers.chunks,
            replica.chunks if prompts else 0,
            replica.prompts_ending if prompts else 0,
        )
    return float(total)


@compiled
def over_caches(replica: Replica, d: Drafts) -> tuple[int, float]:
    """Sequences that decode over their caches, and their mean query tokens; full passes stand among
    the prompts.
    """
    sequences = (replica.decoding - replica.full_passes) * d.copies
    return int(sequences), float(
        (replica.decode_rows - replica.full_rows) / sequences
    ) if sequences else 0.0


@compiled
def _whole_pass_seconds(replica: Replica, buffers: Buffers, d: Drafts, t: Tables) -> float:
    """Seconds of one pass over everybody, of which the replica remembers those that the device
    waits for its host.
    """
    rows, sampled = replica.rows, replica.decode_rows + replica.prompts_ending
    sequences, queries = over_caches(replica, d)
    device_s = device_seconds(
        t,
        sequences,
        queries,
        float(replica.context_tokens),
        buffers.chunks,
        replica.chunks,
        rows,
        sampled,
    )
    requests = replica.decoding + replica.prompts_ending
    host_s = exposed_host_s(t, requests, rows, replica.chunks - replica.full_passes, device_s)
    replica.host_s += host_s
    each = float(replica.decode_rows / replica.decoding) if replica.decoding else 0.0
    engine_s = engine_seconds(t, each, requests, replica.decode_rows, rows, device_s)
    return float(device_s + engine_s + host_s)


@compiled
def tabled_seconds(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    limits: SchedulerLimits,
    d: Drafts,
    t: Tables,
) -> float:
    """Seconds of the composed iteration by the tables."""
    if d.parts > 1:
        return float(_in_parts(replica, buffers, requests, d, t))
    if d.ragged != SPLIT and d.decoder != BLOCK and replica.decoding:
        target = _in_groups(replica, buffers, requests, d, t, False)
        if d.ragged == REGROUP:
            target = min(target, _in_groups(replica, buffers, requests, d, t, True))
    elif limits.pass_tokens > 0:
        target = split_seconds(replica, buffers, requests, limits, t)
    else:
        target = _whole_pass_seconds(replica, buffers, d, t)
    target += t.accepted_s * replica.just_accepted
    if d.decoder == PLAIN:
        return float(target)
    draft = _draft_seconds(replica, t)
    return float(with_pass(d, 0.0 if d.decoder == PARALLEL else draft, draft, target, True))


@compiled
def _draft_seconds(replica: Replica, t: Tables) -> float:
    count, context = drafts_at_once(replica)
    rows = replica.rows - replica.decode_rows + replica.reread_rows
    return float(draft_seconds(t, count, replica.longest_new_draft, context, rows))


@compiled
def _in_parts(
    replica: Replica, buffers: Buffers, requests: Requests, d: Drafts, t: Tables
) -> float:
    count = parts(replica, d)
    each = _draft_seconds(replica, t) / count
    total = 0.0 if d.decoder == PARALLEL else each
    for at in range(count):
        members, queries, context = part(replica, buffers, requests, d, at, count)
        verify = 0.0
        if members or at == 0:
            verify = target_seconds(
                t,
                members,
                queries,
                context,
                buffers.chunks,
                replica.chunks if at == 0 else 0,
                replica.prompts_ending if at == 0 else 0,
            )
        total = with_pass(d, total, each, verify, at == count - 1)
    return float(total)
