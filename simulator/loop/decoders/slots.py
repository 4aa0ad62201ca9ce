"""Which draft tokens of a batch are verified, where it may not verify all of them?

Every request drafts as many tokens as it may, and the batch has a budget of so many per request: it
goes to the draft tokens that are likeliest to be accepted, over all requests (TETRIS), by what the
drafter thinks of them or by what each request's lately accepted tokens suggest. Or the budget is
what emits most tokens a second: of this step alone, or weighed by what a second of many steps
emits. The probabilities along a chain never rise, so that taking the likeliest one again and again
is exact. Leaves out what the choice itself costs on the host.

Reference: Wu et al. 2025, "TETRIS" (arXiv:2502.15197); vLLM's documentation, "Adaptive
Verification", for a budget by the seconds of passes that were timed at its start; Cheng et al.
2026, "DSpark" (arXiv:2607.05147).
"""

from __future__ import annotations

import numpy as np

from simulator.loop.compiled import compiled
from simulator.loop.decoders.drafting import drafted_tokens
from simulator.loop.decoders.record import ALIKE, CHAIN, COST, LIKELIEST, VERIFIED, Drafts, Places
from simulator.loop.request import DECODING
from simulator.loop.state import Chunks, Real, Replica, Request, Requests, Small
from simulator.loop.tables import Tables, draft_seconds, target_seconds

EARNED, SPENT = range(2)  # what is remembered of steps: tokens expected, and their seconds


@compiled
def _next_probability(d: Drafts, request: Request, places: Places) -> float:
    """Probability that the next draft token of a request is accepted, if those before it are."""
    if d.slots == LIKELIEST:
        return places[(request.place + request.granted) % len(places)].sure
    # independent tokens of this probability have that many accepted on average
    accepted = float(request.recent_accepted)
    return accepted / (1.0 + accepted)


@compiled
def _begin_grants(
    replica: Replica, running: Small, requests: Requests, d: Drafts, places: Places
) -> None:
    """Nobody has been granted a draft token."""
    for i in range(replica.running):
        request = requests[running[i]]
        if request.phase == DECODING:
            request.granted = 0
            request.probability = _next_probability(d, request, places)


@compiled
def _grant_next(
    replica: Replica, running: Small, requests: Requests, d: Drafts, places: Places, batch: int
) -> float:
    """Grant the likeliest draft token that is left, and say how likely it is; below 0: none is
    left.
    """
    best, likeliest = -1, -1.0
    for i in range(replica.running):
        r = running[i]
        request = requests[r]
        if request.phase != DECODING or request.granted >= drafted_tokens(d, request, batch):
            continue
        shorter = best >= 0 and request.granted < requests[best].granted
        if request.probability > likeliest or (request.probability == likeliest and shorter):
            best, likeliest = r, request.probability
    if best < 0:
        return -1.0
    chosen = requests[best]
    chosen.granted += 1
    chosen.probability *= _next_probability(d, chosen, places)
    return likeliest


@compiled
def _profitable(
    replica: Replica,
    running: Small,
    requests: Requests,
    d: Drafts,
    places: Places,
    t: Tables,
    seconds: Real,
    chunks: Chunks,
    batch: int,
    decoding: int,
    context_tokens: float,
    memory: Real | None,
) -> int:
    """Draft tokens of the batch with which most tokens are expected per second: of this step by the
    passes that were timed, or of this step beside those that are remembered.
    """
    context = context_tokens if d.profiled_context < 0.0 else d.profiled_context * decoding
    per_second = 0.0
    if memory is not None and memory[0, SPENT] > 0.0:
        per_second = memory[0, EARNED] / memory[0, SPENT]
    drafting_s = draft_seconds(t, seconds, decoding, batch, context, 0)
    expected, tokens, best, best_worth = float(decoding), 0, 0, -np.inf
    best_expected, best_s = 0.0, 0.0
    while True:
        queries = 1.0 + tokens / decoding
        step_s = drafting_s + target_seconds(
            t, seconds, decoding, queries, context, chunks, 0, batch > 0
        )
        worth = expected - per_second * step_s if per_second > 0.0 else expected / step_s
        if worth > best_worth:
            best, best_worth = tokens, worth
            best_expected, best_s = expected, step_s
        likeliest = _grant_next(replica, running, requests, d, places, batch)
        if likeliest < 0.0:
            break
        expected += likeliest
        tokens += 1
    if memory is not None and d.weight > 0.0:
        memory[0, EARNED] = (1.0 - d.weight) * memory[0, EARNED] + best_expected
        memory[0, SPENT] = (1.0 - d.weight) * memory[0, SPENT] + best_s
    return best


@compiled
def share_slots(
    replica: Replica,
    running: Small,
    requests: Requests,
    d: Drafts,
    places: Places | None,
    t: Tables,
    seconds: Real,
    chunks: Chunks,
    batch: int,
    decoding: int,
    context_tokens: float,
    memory: Real | None,
) -> None:
    """Grant every request that decodes the draft tokens that are verified."""
    if places is None:
        return
    if d.slots == ALIKE or d.decoder != CHAIN or decoding == 0:
        return
    _begin_grants(replica, running, requests, d, places)
    if d.controller in (VERIFIED, COST):
        budget = _profitable(
            replica,
            running,
            requests,
            d,
            places,
            t,
            seconds,
            chunks,
            batch,
            decoding,
            context_tokens,
            memory,
        )
        _begin_grants(replica, running, requests, d, places)
    else:
        budget = int(d.budget_per_request * decoding)
    for _ in range(budget):
        if _grant_next(replica, running, requests, d, places, batch) < 0.0:
            return
