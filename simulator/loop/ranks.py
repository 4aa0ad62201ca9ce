"""Which rank takes a request, and what happens in an iteration that all ranks begin together?

The slowest rank's own part, then what all spend together. The front end sends every request when
its time has come, in turn, to whoever has fewest, or to whoever had at the last report of all: counts
come every tenth of a second, a request that waits counts four times, and each one sent since counts
as one that waits. Leaves out timers that have no tables (`simulator.cluster.ranks`).

Reference: vLLM, vllm/v1/engine/core.py `DPEngineCoreProc`, core_client.py `DPLBAsyncMPClient`,
coordinator.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from simulator.loop.compiled import compiled, record_type
from simulator.loop.fleet import Fleet, Rules, buffers_of
from simulator.loop.front import REPORTED, Front, choose, next_sent_s, note_ends, send
from simulator.loop.iteration import (
    ASKED,
    COMPOSED,
    COUNTED,
    DONE,
    begin,
    next_arrival_s,
    settle,
    start,
)
from simulator.loop.passes import tabled_seconds
from simulator.loop.rank_time import IDLE_TOKENS
from simulator.loop.state import Real, Requests, Whole

REPORT_S = 0.1
WAITING_WEIGHT = 4  # of a request that waits over one that runs
_HEARD, _REPORTED, _LATEST = range(3)


@dataclass(slots=True)
class StepState:
    """The numbers of ranks in step; the loop works on a record with these fields.

    Args:
        now_s: when the next iteration begins.
        began_s: when the latest one began.
        ended_s: when it ended.
        heard_s: when the latest report was heard.
        pass_s: seconds of the composed iteration, where a timer was asked for them; else 0.
        idle_passes: of ranks that had nothing to do while others had.
    """

    now_s: float = 0.0
    began_s: float = 0.0
    ended_s: float = 0.0
    heard_s: float = 0.0
    pass_s: float = 0.0
    idle_passes: int = 0


STEP_STATE = record_type(StepState)


class InStep(NamedTuple):
    """What n ranks in step remember together.

    Args:
        state: record of its numbers.
        counts: int64[heard or reported or latest, waiting or running, n].
        by_mean_s: seconds that they spend together by the mean tokens of a rank, as of
            `TabledTogether`.
        by_most_s: and by the most tokens of any.
    """

    state: Any
    counts: Whole
    by_mean_s: Real
    by_most_s: Real


def new_step(ranks: int, by_mean_s: Real, by_most_s: Real) -> InStep:
    """Ranks that have done nothing; see `InStep`."""
    counts = np.zeros((3, 2, ranks), np.int64)
    return InStep(np.zeros(1, STEP_STATE)[0], counts, by_mean_s, by_most_s)


@compiled
def _tell(step: InStep, to: int, reported: int) -> None:
    for of in range(2):
        for i in range(step.counts.shape[2]):
            step.counts[to, of, i] = step.counts[reported, of, i]


@compiled
def _choose(front: Front, fleet: Fleet, step: InStep, at_s: float) -> int:
    state, counts = step.state, step.counts
    if front.state.route != REPORTED:
        for i in range(len(front.heard)):
            front.heard[i] = fleet.ended[i]
        return choose(front, front.order[front.state.sent])
    heard_s = int(at_s / REPORT_S) * REPORT_S
    if heard_s > state.heard_s:
        state.heard_s = heard_s
        _tell(step, _HEARD, _REPORTED if heard_s <= state.ended_s else _LATEST)
    chosen, least = 0, 0
    for i in range(counts.shape[2]):
        load = WAITING_WEIGHT * counts[_HEARD, 0, i] + counts[_HEARD, 1, i]
        if i == 0 or load < least:
            chosen, least = i, load
    counts[_HEARD, 0, chosen] += 1
    return chosen


@compiled
def _send(
    front: Front, fleet: Fleet, step: InStep, requests: Requests, rules: Rules, before_s: float
) -> None:
    """Send what is due before a time."""
    at_s = next_sent_s(front, requests)
    while at_s < before_s:
        send(front, fleet, requests, rules.limits, _choose(front, fleet, step, at_s), at_s)
        at_s = next_sent_s(front, requests)


@compiled
def _note_ends(front: Front, fleet: Fleet, requests: Requests) -> None:
    for i in range(len(fleet.ended)):
        fleet.ended[i] = fleet.replicas[i].ended
    if front.state.users < len(requests):
        note_ends(front, fleet, requests)


@compiled
def _report(fleet: Fleet, step: InStep, now: float) -> None:
    """An iteration has ended; a report in between said how it was before."""
    state = step.state
    crossed_s = int(now / REPORT_S) * REPORT_S
    if state.ended_s < crossed_s < now:
        _tell(step, _REPORTED, _LATEST)
    for i in range(len(fleet.ended)):
        step.counts[_LATEST, 0, i] = fleet.replicas[i].queued
        step.counts[_LATEST, 1, i] = fleet.replicas[i].running
    if crossed_s == now:
        _tell(step, _REPORTED, _LATEST)
    state.ended_s = now


@compiled
def _begin(front: Front, fleet: Fleet, step: InStep, requests: Requests, rules: Rules) -> int:
    """Compose an iteration of everybody who has something to do, at the time of the next request if
    nobody has.

    A rank that has nothing to do holds no rows then.

    Returns:
        Ranks that have something to do; 0: nothing is left, and nothing more will come.
    """
    state = step.state
    while True:
        now = state.now_s
        soon = np.nextafter(now, np.inf)
        _send(front, fleet, step, requests, rules, soon)
        busy = 0
        for i in range(len(fleet.ended)):
            replica = fleet.replicas[i]
            if replica.clock_s < now:
                replica.clock_s = now
                replica.began_s = state.began_s
            status = begin(
                replica,
                buffers_of(fleet, i),
                requests,
                rules.prefixes,
                rules.limits,
                rules.d,
                rules.places,
                rules.tables,
                rules.t,
                rules.seconds,
                soon,
            )
            if status == COMPOSED:
                busy += 1
            else:
                replica.rows = 0
        _note_ends(front, fleet, requests)
        if busy:
            return busy
        coming_s = next_sent_s(front, requests)
        for i in range(len(fleet.ended)):
            coming_s = min(coming_s, next_arrival_s(fleet.replicas[i], fleet.queue[i], requests))
        if coming_s == np.inf:
            return 0
        state.now_s = max(now, coming_s)


@compiled
def _run(
    front: Front, fleet: Fleet, step: InStep, requests: Requests, rules: Rules, pass_s: float
) -> None:
    """The composed iteration, moving blocks to and from the host included in its seconds; requests
    that come meanwhile are sent by what is known then.
    """
    state = step.state
    state.began_s = state.now_s
    for i in range(len(fleet.ended)):
        replica = fleet.replicas[i]
        replica.swap_s = 0.0
        if replica.rows > 0:
            start(replica, fleet.counts[i], rules.limits, pass_s)
        else:
            state.idle_passes += 1
    now = state.now_s + pass_s
    _send(front, fleet, step, requests, rules, now)
    for i in range(len(fleet.ended)):
        if fleet.replicas[i].busy:
            settle(
                fleet.replicas[i],
                buffers_of(fleet, i),
                requests,
                rules.prefixes,
                rules.limits,
                rules.d,
                rules.steps,
                rules.places,
                rules.tables,
            )
    state.now_s = now
    _note_ends(front, fleet, requests)
    _report(fleet, step, now)


@compiled
def _at(table: Real, position: float) -> float:
    """Value at a position of a table; beyond its end the last slope goes on."""
    low = min(int(position), len(table) - 2)
    return table[low] + (position - low) * (table[low + 1] - table[low])


@compiled
def _tabled_s(fleet: Fleet, step: InStep, requests: Requests, rules: Rules) -> float:
    """Seconds of the composed iteration by the tables."""
    ranks = len(fleet.ended)
    own_s, tokens, fullest = 0.0, 0, 0
    for i in range(ranks):
        replica = fleet.replicas[i]
        if replica.rows > 0:
            rank_s = tabled_seconds(
                replica,
                buffers_of(fleet, i),
                requests,
                rules.limits,
                rules.d,
                rules.t,
                rules.seconds,
            )
            own_s = max(own_s, rank_s + replica.swap_s)
        rows = max(replica.rows, IDLE_TOKENS)
        tokens += rows
        fullest = max(fullest, rows)
    return own_s + _at(step.by_mean_s, tokens / ranks) + _at(step.by_most_s, float(fullest))


@compiled
def serve_together(
    front: Front, fleet: Fleet, step: InStep, requests: Requests, rules: Rules, most: int
) -> int:
    """Run iterations, at most so many.

    Returns:
        DONE; COUNTED after `most` iterations; or ASKED, with an iteration that is composed, whose
        seconds are to be written to `StepState.pass_s`.
    """
    state = step.state
    for _ in range(most):
        if state.pass_s > 0.0:
            pass_s, state.pass_s = state.pass_s, 0.0
        elif not _begin(front, fleet, step, requests, rules):
            return DONE
        elif rules.asked:
            return ASKED
        else:
            pass_s = _tabled_s(fleet, step, requests, rules)
        _run(front, fleet, step, requests, rules, pass_s)
    return COUNTED
