"""How do two stages of a service advance that feed each other: prompts, and who decodes?

The stage where something may happen first runs until something ends in it or the other comes first.
Prompts that end send their requests on; what is over frees a user. Leaves out what happens in a
stage (`simulator.loop.service`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from simulator.loop.compiled import compiled, record_type
from simulator.loop.fleet import Fleet, Rules
from simulator.loop.front import Front, free_user, next_sent_s
from simulator.loop.iteration import ASKED, COUNTED, DONE
from simulator.loop.request import FINISHED
from simulator.loop.service import FULL, serve
from simulator.loop.state import Real, Request, Requests, Whole, arrive_with_cache

NOBODY, PROMPTS, DECODERS = range(3)


@dataclass(slots=True)
class LinkState:
    """The numbers of what joins two stages; the loop works on a record with these fields.

    Args:
        latency_s: of a transfer, whatever its size.
        token_s: of it, by token of the prompt.
        deferred: 1: the stage that decodes delivers the first token, once it has the cache.
        turn: the stage that is running: `NOBODY`, `PROMPTS` or `DECODERS`.
        until_s: when the turn ends.
        prompts_handed: ends of the prompts' stage that were handed over.
        decoders_handed: of the other stage.
    """

    latency_s: float = 0.0
    token_s: float = 0.0
    deferred: int = 0
    turn: int = NOBODY
    until_s: float = 0.0
    prompts_handed: int = 0
    decoders_handed: int = 0


LINK = record_type(LinkState)
Link = Any  # a record of LINK


class StageState(NamedTuple):
    """What a stage is: see `simulator.loop.service.serve`."""

    front: Front
    fleet: Fleet
    requests: Requests
    rules: Rules


def new_link(latency_s: float, token_s: float, *, deferred: bool) -> Link:
    """Two stages of which neither has run; see `LinkState`."""
    link = np.zeros(1, LINK)[0]
    link.latency_s, link.token_s, link.deferred = latency_s, token_s, int(deferred)
    return link


@compiled
def _arrive(link: Link, request: Request, prompt: Request) -> float:
    """Let the cache of a prompt that has ended reach the replicas that decode; when it does."""
    arrives_s = prompt.last_s + (link.latency_s + link.token_s * prompt.prompt)
    arrive_with_cache(request, prompt)
    if link.deferred:
        request.first_s = arrives_s
        request.delivered_s = arrives_s
    return float(arrives_s)


@compiled
def arrive(
    link: Link, requests: Requests, prompts: Requests, moved: Whole, arrives_s: Real
) -> None:
    """Let the caches of prompts that have ended reach the replicas that decode.

    Args:
        link: between the stages.
        requests: of the stage that decodes.
        prompts: the same requests in the prompts' stage.
        moved: whose caches, [m].
        arrives_s: when they do, [m]; written.
    """
    for i in range(len(moved)):
        arrives_s[i] = _arrive(link, requests[moved[i]], prompts[moved[i]])


@compiled
def _next_s(stage: StageState) -> float:
    """When something may end in a stage, or is sent; infinity: never, as far as is known."""
    next_s = next_sent_s(stage.front, stage.requests)
    for i in range(len(stage.fleet.due_s)):
        next_s = min(next_s, stage.fleet.due_s[i])
    return next_s


@compiled
def _list_next(front: Front, requests: Requests, r: int, at_s: float) -> None:
    """Request r is going to be sent at a time, beside those that are listed for later."""
    state = front.state
    requests[r].sent_s = at_s
    at = state.listed
    while at > state.sent and requests[front.order[at - 1]].sent_s > at_s:
        front.order[at] = front.order[at - 1]
        at -= 1
    front.order[at] = r
    state.listed += 1


@compiled
def _hand_over(prompts: StageState, decoders: StageState, link: Link) -> None:
    """Send on what the prompts' stage has ended, and free the users of what is over."""
    while link.prompts_handed < prompts.front.state.ended:
        r = prompts.front.ended[link.prompts_handed]
        link.prompts_handed += 1
        prompt, request = prompts.requests[r], decoders.requests[r]
        if prompt.phase == FINISHED and request.output > 1:
            _list_next(decoders.front, decoders.requests, r, _arrive(link, request, prompt))
        else:
            free_user(prompts.front, prompt.last_s)
    while link.decoders_handed < decoders.front.state.ended:
        r = decoders.front.ended[link.decoders_handed]
        link.decoders_handed += 1
        free_user(prompts.front, decoders.requests[r].last_s)


@compiled
def _serve(stage: StageState, until: float, most: int) -> tuple[int, int]:
    return serve(stage.front, stage.fleet, stage.requests, stage.rules, until, most)


@compiled
def serve_in_turn(
    prompts: StageState, decoders: StageState, link: Link, most: int
) -> tuple[int, int]:
    """Run stages in turn, for at most so many turns, each of at most about so many iterations.

    Args:
        prompts: the stage to which all requests are sent.
        decoders: the stage to which those go on that want more than one token.
        link: between the stages; says whose turn it is.
        most: turns, and iterations of a turn.

    Returns:
        DONE; COUNTED; ASKED or FULL with a replica of the stage whose turn it is, as
        `simulator.loop.service.serve`.
    """
    for _ in range(most):
        if link.turn == NOBODY:
            first_s, second_s = _next_s(prompts), _next_s(decoders)
            if min(first_s, second_s) == np.inf:
                return DONE, 0
            link.turn = PROMPTS if first_s <= second_s else DECODERS
            link.until_s = np.nextafter(second_s, np.inf) if first_s <= second_s else first_s
        status, i = (
            _serve(prompts, link.until_s, most)
            if link.turn == PROMPTS
            else _serve(decoders, link.until_s, most)
        )
        if status in (ASKED, FULL, COUNTED):
            return status, i
        link.turn = NOBODY
        _hand_over(prompts, decoders, link)
    return COUNTED, 0
