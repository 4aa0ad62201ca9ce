"""Which draft tokens of a batch are verified, where it may not verify all of them?

Every request drafts as many tokens as it may, and the batch has a budget of so many per request: it goes to the draft
tokens that are likeliest to be accepted, over all requests (TETRIS), by what the drafter thinks of them or by what each
request's lately accepted tokens suggest. The probabilities along a chain never rise, so that taking the likeliest one
again and again is exact. Leaves out what the choice itself costs on the host.

Reference: Wu et al. 2025, "TETRIS" (arXiv:2502.15197).
"""

from __future__ import annotations

from simulator.loop.compiled import compiled
from simulator.loop.decoders.drafting import drafted_tokens
from simulator.loop.decoders.record import ALIKE, CHAIN, LIKELIEST, Drafts
from simulator.loop.request import DECODING
from simulator.loop.state import Buffers, Replica, Requests


@compiled
def _next_probability(d: Drafts, requests: Requests, r: int) -> float:
    """Probability that the next draft token of a request is accepted, if those before it are."""
    if d.slots == LIKELIEST:
        return float(d.sure[(requests[r].place + requests[r].granted) % len(d.sure)])
    accepted = float(requests[r].recent_accepted)
    return accepted / (1.0 + accepted)  # independent tokens of this probability have that many accepted on average


@compiled
def share_slots(replica: Replica, buffers: Buffers, requests: Requests, d: Drafts, batch: int, decoding: int) -> None:
    """Grant every request that decodes the draft tokens that are verified."""
    if d.slots == ALIKE or d.decoder != CHAIN:
        return
    for i in range(replica.running):
        r = buffers.running[i]
        if requests[r].phase != DECODING:
            continue
        requests[r].granted = 0
        requests[r].probability = _next_probability(d, requests, r)
    for _ in range(int(d.budget_per_request * decoding)):
        best, likeliest = -1, -1.0
        for i in range(replica.running):
            r = buffers.running[i]
            if requests[r].phase != DECODING or requests[r].granted >= drafted_tokens(d, requests, r, batch):
                continue
            shorter = best >= 0 and requests[r].granted < requests[best].granted
            if requests[r].probability > likeliest or (requests[r].probability == likeliest and shorter):
                best, likeliest = r, requests[r].probability
        if best < 0:
            return
        requests[best].granted += 1
        requests[best].probability *= _next_probability(d, requests, best)
