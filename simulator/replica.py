"""One simulated engine, as the processes around it see it: send requests, let it run, ask how it stands.

Leaves out where requests come from and which engine gets them (`simulator.environment`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from hardware_profiles.errors import InputError
from simulator.compiled import Compiled, plain_rows, plain_tuple
from simulator.drafting import AHEAD, PLAIN, REGROUP, SPLIT, Drafts
from simulator.iteration import COMPOSED, COUNTED, PAUSED, advance, begin, settle, start
from simulator.metrics import Series
from simulator.passes import drafting_requests, group, groups, part, parts, tabled_seconds, with_pass
from simulator.state import (
    ARRIVED,
    BUSY,
    CHUNKS,
    CLOCK,
    CONTEXT,
    DECODE_ROWS,
    DECODING_NOW,
    DRAFT_MOST,
    END,
    ENDED,
    LONGEST,
    ROWS,
    SAMPLES,
    Limits,
    Prefixes,
    Requests,
    Small,
    new_replica,
)
from simulator.step_time import DraftTimer, StepTimer
from simulator.tables import Tables, no_tables


class Pool(NamedTuple):
    """What the replicas of a stage share.

    Args:
        requests: of the workload.
        prefixes: their blocks.
        limits: of every replica.
        drafts: the decoder.
        tables: seconds of iterations; None: the timers are asked.
        timer: for iterations.
        draft_timer: for draft passes; None: they are free.
        merge: advance iterations that are alike together.
        machine: run machine code; False: the Python that it is made from.
    """

    requests: Requests
    prefixes: Prefixes
    limits: Limits
    drafts: Drafts
    tables: Tables | None
    timer: StepTimer
    draft_timer: DraftTimer | None
    merge: bool
    machine: bool = True


class SimulatedReplica:
    """One engine of a pool.

    Args:
        pool: what it shares with others.
        index: its number.
        inbox: most requests that it can be sent.
    """

    def __init__(self, pool: Pool, index: int, inbox: int) -> None:
        self.pool = pool
        self.index = index
        self.state = new_replica(pool.limits, pool.prefixes, inbox)
        tables = no_tables() if pool.tables is None else pool.tables
        parts = (self.state, pool.requests, pool.prefixes, pool.limits, pool.drafts, tables)
        if not pool.machine:
            state, requests, *others = parts
            parts = (plain_tuple(state), plain_rows(requests), *(plain_tuple(each) for each in others))
        self._parts: tuple[Any, ...] = parts

    @property
    def clock_s(self) -> float:
        """End of its latest iteration, or start of the one under way."""
        return float(self.state.second[CLOCK])

    @property
    def end_s(self) -> float:
        """End of the iteration under way."""
        return float(self.state.second[END])

    @property
    def unfinished(self) -> int:
        """Requests that were sent to it and have not ended."""
        return int(self.state.number[ARRIVED] - self.state.number[ENDED])

    def send(self, requests: Small | Iterable[int]) -> None:
        """Hand over requests, by their order of arrival; they must not be ready before those sent earlier."""
        indices = np.atleast_1d(np.asarray(requests, dtype=np.int32))
        at = int(self.state.number[ARRIVED])
        self.state.inbox[at : at + indices.size] = indices
        self.state.number[ARRIVED] = at + indices.size
        self.pool.requests["replica"][indices] = self.index

    def advance(self, until_s: float, most: int) -> int:
        """Run iterations that start before `until_s`, at most about `most`; a status of `simulator.iteration`."""
        p = self.pool
        if p.tables is not None:
            return int(self._run(advance, *self._parts, until_s, most, p.merge))
        for _ in range(most):
            if self.state.number[BUSY]:
                if self.end_s > until_s:
                    return PAUSED
                self.settle()
            status = self.begin(until_s)
            if status != COMPOSED:
                return status
        return COUNTED

    def begin(self, until_s: float = np.inf) -> int:
        """Start the next iteration, if there is anything to do before `until_s`."""
        status = int(self._run(begin, *self._parts, until_s))
        if status == COMPOSED:
            self._run(start, self._parts[0], self._seconds())
        return status

    def settle(self) -> None:
        """End the iteration under way."""
        self._run(settle, *self._parts[:5])

    def series(self) -> Series:
        """Its states over time."""
        s, count = self.state, int(self.state.number[SAMPLES])
        return Series(
            t_s=s.series[0, :count].copy(),
            running=s.series[1, :count].astype(np.int32),
            waiting=s.series[2, :count].astype(np.int32),
            kv_used_ratio=s.series[3, :count] / self.pool.limits.kv_blocks,
        )

    def _run(self, function: Compiled, *arguments: Any) -> Any:
        return function.machine(*arguments) if self.pool.machine else function(*arguments)

    def _seconds(self) -> float:
        """Seconds of the composed iteration, by the timers."""
        p, number = self.pool, self.state.number
        if p.tables is not None:
            return float(self._run(tabled_seconds, *self._parts[:2], *self._parts[4:]))
        drafts = self._parts[4]
        count = int(self._run(parts, self._parts[0], drafts))
        draft = 0.0
        if p.draft_timer is not None and p.drafts.decoder != PLAIN:
            made, context = self._run(drafting_requests, self._parts[0], drafts)
            prompt_rows = int(number[ROWS] - number[DECODE_ROWS])
            draft = p.draft_timer(int(made), int(number[DRAFT_MOST]), float(context), prompt_rows) / count
        seconds = 0.0 if p.drafts.decoder in (AHEAD, PLAIN) else draft
        for at in range(count):
            if count > 1:
                verify = self._asked(self._run(part, *self._parts[:2], drafts, at, count), prompts=at == 0)
            else:
                verify = self._whole_pass()
            seconds = float(self._run(with_pass, drafts, seconds, draft, verify, at == count - 1))
        if not 0.0 < seconds < np.inf:
            raise InputError("a timer must answer positive, finite seconds", key="timer", value=seconds)
        return seconds

    def _whole_pass(self) -> float:
        """Seconds of verifying everything, in groups where batches are padded."""
        number, drafts = self.state.number, self.pool.drafts
        decoding = int(number[DECODING_NOW])
        if drafts.ragged == SPLIT or not decoding:
            queries = float(number[DECODE_ROWS] / decoding) if decoding else 0.0
            return self._asked((decoding, queries, float(number[CONTEXT])), prompts=True)
        ways = (False, True) if drafts.ragged == REGROUP else (False,)
        return min(self._in_groups(by_length) for by_length in ways)

    def _in_groups(self, by_length: bool) -> float:
        count = int(self._run(groups, *self._parts[:2], self._parts[4], by_length))
        seconds = 0.0
        for at in range(count):
            held = self._run(group, *self._parts[:2], self._parts[4], at)
            seconds += self._asked(held, prompts=at == 0, alike=True)
        return seconds

    def _asked(self, held: tuple[int, float, float], *, prompts: bool, alike: bool = False) -> float:
        """What the timer says of a pass: decoding requests, query tokens and context, beside the prompts or not."""
        members, queries, context = held
        count = int(self.state.number[CHUNKS]) if prompts else 0
        if not members and not prompts:
            return 0.0
        new, cached = self.state.chunks[:, :count].tolist()
        longest = context / members if alike else float(self.state.number[LONGEST])
        seconds = self.pool.timer(
            int(members), float(queries), float(context), list(zip(new, cached, strict=True)), longest
        )
        if not 0.0 < seconds < np.inf:
            raise InputError("a timer must answer positive, finite seconds", key="timer", value=seconds)
        return float(seconds)
