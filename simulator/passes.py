"""Which passes verify the drafts of an iteration, and how long do they take beside the draft passes?

One pass over everybody; or parts of the drafts in turn; or groups of requests, each padded to its longest. Leaves out
what a pass costs: `simulator.tables`, or a timer that is asked (`simulator.replica`).

Reference: Qian et al. 2024, "BASS" (arXiv:2404.15778), for ragged batches that are padded or split; Zhang et al. 2025,
"Batch Speculative Decoding Done Right" (arXiv:2510.22876), for groups of equal length out of a pool.
"""

from __future__ import annotations

from simulator.compiled import compiled
from simulator.drafting import AHEAD, PLAIN, REGROUP, SPLIT, Drafts, kept_tokens
from simulator.request import DECODING
from simulator.state import (
    CHUNKS,
    CONTEXT,
    DECODE_ROWS,
    DECODING_NOW,
    DRAFT_MOST,
    DRAFTING,
    PROMPTS_ENDING,
    ROWS,
    RUNNING,
    Replica,
    Requests,
)
from simulator.tables import Tables, draft_seconds, target_seconds


@compiled
def parts(replica: Replica, d: Drafts) -> int:
    """In how many parts the drafts of the composed iteration are verified."""
    return int(max(1, min(d.parts, replica.number[DRAFT_MOST])))


@compiled
def part(replica: Replica, requests: Requests, d: Drafts, at: int, count: int) -> tuple[int, float, float]:
    """Requests, mean query tokens and cached tokens of one part of the verification."""
    most = replica.number[DRAFT_MOST]
    first, end = at * most // count, (at + 1) * most // count
    members, rows, context = 0, 0, 0
    for i in range(replica.number[RUNNING]):
        r = replica.running[i]
        if requests[r].phase != DECODING or requests[r].quota == 0:
            continue
        drafts = requests[r].drafts
        if at == 0:
            rows += 1 + min(drafts, end)
            context += requests[r].computed
        elif drafts <= first or (d.prunes and kept_tokens(d, requests, r, drafts) < first):
            continue
        else:
            rows += min(drafts, end) - first
            context += requests[r].computed + 1 + first
        members += 1
    return members, rows / members if members else 0.0, float(context)


@compiled
def groups(replica: Replica, requests: Requests, d: Drafts, by_length: bool) -> int:
    """Line up the requests that decode, by their keys or the shortest first; into how many groups they fall."""
    count, order = 0, replica.order
    for i in range(replica.number[RUNNING]):
        r = replica.running[i]
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
def group(replica: Replica, requests: Requests, d: Drafts, at: int) -> tuple[int, float, float]:
    """Requests, query tokens and cached tokens of one group, all as long as its longest."""
    first = at * d.group
    end = min(first + d.group, replica.number[DECODING_NOW])
    rows, longest = 0, 0
    for i in range(first, end):
        r = replica.order[i]
        rows = max(rows, requests[r].quota)
        longest = max(longest, requests[r].computed)
    return end - first, float(rows), float(longest * (end - first))


@compiled
def drafting_requests(replica: Replica, d: Drafts) -> tuple[int, float]:
    """Drafts that are made at once, and the cached tokens that they read."""
    number = replica.number
    if number[DECODING_NOW] == 0:
        return 0, 0.0
    made = number[DRAFTING] * max(d.branches, 1)
    return made, float(number[CONTEXT] * made / number[DECODING_NOW])


@compiled
def with_pass(d: Drafts, so_far_s: float, draft_s: float, verify_s: float, last: bool) -> float:
    """Seconds up to the end of one more verify pass, beside which `draft_s` are spent on drafting: see `step_s`."""
    if last and d.decoder != AHEAD:
        return so_far_s + verify_s
    return float(so_far_s + max(draft_s, verify_s) + d.interference_ratio * min(draft_s, verify_s))


@compiled
def _in_groups(replica: Replica, requests: Requests, d: Drafts, t: Tables, by_length: bool) -> float:
    number = replica.number
    total = 0.0
    for at in range(groups(replica, requests, d, by_length)):
        members, queries, context = group(replica, requests, d, at)
        prompts = at == 0
        total += target_seconds(
            t, members, queries, context, replica.chunks, number[CHUNKS] if prompts else 0,
            number[PROMPTS_ENDING] if prompts else 0,
        )  # fmt: skip
    return float(total)


@compiled
def tabled_seconds(replica: Replica, requests: Requests, d: Drafts, t: Tables) -> float:
    """Seconds of the composed iteration by the tables."""
    number = replica.number
    decoding = number[DECODING_NOW]
    if d.parts > 1:
        return float(_in_parts(replica, requests, d, t))
    if d.ragged != SPLIT and decoding:
        target = _in_groups(replica, requests, d, t, False)
        if d.ragged == REGROUP:
            target = min(target, _in_groups(replica, requests, d, t, True))
    else:
        queries = float(number[DECODE_ROWS] / decoding) if decoding else 0.0
        target = target_seconds(
            t, decoding, queries, float(number[CONTEXT]), replica.chunks, number[CHUNKS], number[PROMPTS_ENDING]
        )
    if d.decoder == PLAIN:
        return float(target)
    draft = _draft_seconds(replica, d, t)
    return float(with_pass(d, 0.0 if d.decoder == AHEAD else draft, draft, target, True))


@compiled
def _draft_seconds(replica: Replica, d: Drafts, t: Tables) -> float:
    number = replica.number
    made, context = drafting_requests(replica, d)
    return float(draft_seconds(t, made, number[DRAFT_MOST], context, number[ROWS] - number[DECODE_ROWS]))


@compiled
def _in_parts(replica: Replica, requests: Requests, d: Drafts, t: Tables) -> float:
    number = replica.number
    count = parts(replica, d)
    each = _draft_seconds(replica, d, t) / count
    total = 0.0 if d.decoder == AHEAD else each
    for at in range(count):
        members, queries, context = part(replica, requests, d, at, count)
        verify = 0.0
        if members or at == 0:
            verify = target_seconds(
                t, members, queries, context, replica.chunks, number[CHUNKS] if at == 0 else 0,
                number[PROMPTS_ENDING] if at == 0 else 0,
            )  # fmt: skip
        total = with_pass(d, total, each, verify, at == count - 1)
    return float(total)
