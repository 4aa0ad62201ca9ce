"""Which draft tokens of a batch are verified, where it may not verify all of them?

Every request drafts as many tokens as it may, and the batch has a budget of so many per request: it
goes to the draft tokens that are likeliest to be accepted, over all requests (TETRIS), by what the
drafter thinks of them or by what each request's lately accepted tokens suggest. The probabilities
along a chain never rise, so that taking the likeliest one again and again is exact. Leaves out what
the choice itself costs on the host.

Reference: Wu et al. 2025, "TETRIS" (arXiv:2502.15197); vLLM's documentation, "Adaptive
Verification", for a budget by the seconds of passes that were timed at its start.
"""

from __future__ import annotations

from simulator.loop.compiled import compiled
from simulator.loop.decoders.drafting import drafted_tokens
from simulator.loop.decoders.record import ALIKE, CHAIN, LIKELIEST, VERIFIED, Drafts
from simulator.loop.request import DECODING
from simulator.loop.state import Buffers, Replica, Requests
from simulator.loop.tables import Tables, draft_seconds, target_seconds


@compiled
def _next_probability(d: Drafts, requests: Requests, r: int) -> float:
    """Probability that the next draft token of a request is accepted, if those before it are."""
    if d.slots == LIKELIEST:
        return float(d.sure[(requests[r].place + requests[r].granted) % len(d.sure)])
    accepted = float(requests[r].recent_accepted)
    return accepted / (
        1.0 + accepted
    )  # independent tokens of this probability have that many accepted on average


@compiled
def _begin_grants(replica: Replica, buffers: Buffers, requests: Requests, d: Drafts) -> None:
    """Nobody has been granted a draft token."""
    for i in range(replica.running):
        r = buffers.running[i]
        if requests[r].phase == DECODING:
            requests[r].granted = 0
            requests[r].probability = _next_probability(d, requests, r)


@compiled
def _grant_next(
    replica: Replica, buffers: Buffers, requests: Requests, d: Drafts, batch: int
) -> float:
    """Grant the likeliest draft token that is left, and say how likely it is; below 0: none is
    left.
    """
    best, likeliest = -1, -1.0
    for i in range(replica.running):
        r = buffers.running[i]
        if requests[r].phase != DECODING or requests[r].granted >= drafted_tokens(
            d, requests, r, batch
        ):
            continue
        shorter = best >= 0 and requests[r].granted < requests[best].granted
        if requests[r].probability > likeliest or (
            requests[r].probability == likeliest and shorter
        ):
            best, likeliest = r, requests[r].probability
    if best < 0:
        return -1.0
    requests[best].granted += 1
    requests[best].probability *= _next_probability(d, requests, best)
    return float(likeliest)


@compiled
def _profitable(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    d: Drafts,
    t: Tables,
    batch: int,
    decoding: int,
) -> int:
    """Draft tokens of the batch with which most tokens are expected per second, by the passes that
    were timed.
    """
    context = d.profiled_context * decoding
    drafting_s = draft_seconds(t, decoding, batch, context, 0)
    expected, tokens, best, best_rate = float(decoding), 0, 0, 0.0
    while True:
        seconds = drafting_s + target_seconds(
            t, decoding, 1.0 + tokens / decoding, context, buffers.chunks, 0, 0
        )
        if expected / seconds > best_rate:
            best, best_rate = tokens, expected / seconds
        likeliest = _grant_next(replica, buffers, requests, d, batch)
        if likeliest < 0.0:
            return best
        expected += likeliest
        tokens += 1


@compiled
def share_slots(
    replica: Replica,
    buffers: Buffers,
    requests: Requests,
    d: Drafts,
    t: Tables,
    batch: int,
    decoding: int,
) -> None:
    """Grant every request that decodes the draft tokens that are verified."""
    if d.slots == ALIKE or d.decoder != CHAIN or decoding == 0:
        return
    _begin_grants(replica, buffers, requests, d)
    if d.controller == VERIFIED:
        budget = _profitable(replica, buffers, requests, d, t, batch, decoding)
        _begin_grants(replica, buffers, requests, d)
    else:
        budget = int(d.budget_per_request * decoding)
    for _ in range(budget):
        if _grant_next(replica, buffers, requests, d, batch) < 0.0:
            return
