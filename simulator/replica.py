"""One simulated engine, as the processes around it see it: send requests, let it run, ask how it stands.

Leaves out where requests come from and which engine gets them (`simulator.environment`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from hardware_profiles.errors import InputError
from simulator.drafting import PEARL, Drafts
from simulator.iteration import COMPOSED, COUNTED, PAUSED, advance, begin, query_tokens, settle, start, tabled_seconds
from simulator.metrics import Series
from simulator.state import (
    ARRIVED,
    BUSY,
    CHUNKS,
    CLOCK,
    CONTEXT,
    DECODE_ROWS,
    DECODING_NOW,
    DRAFT_MOST,
    DRAFTING,
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
    """

    requests: Requests
    prefixes: Prefixes
    limits: Limits
    drafts: Drafts
    tables: Tables | None
    timer: StepTimer
    draft_timer: DraftTimer | None
    merge: bool


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
        self._tables = no_tables() if pool.tables is None else pool.tables

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
            return int(
                advance(self.state, p.requests, p.prefixes, p.limits, p.drafts, p.tables, until_s, most, p.merge)
            )
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
        p = self.pool
        status = int(begin(self.state, p.requests, p.prefixes, p.limits, p.drafts, self._tables, until_s))
        if status == COMPOSED:
            start(self.state, self._seconds())
        return status

    def settle(self) -> None:
        """End the iteration under way."""
        p = self.pool
        settle(self.state, p.requests, p.prefixes, p.limits, p.drafts)

    def series(self) -> Series:
        """Its states over time."""
        s, count = self.state, int(self.state.number[SAMPLES])
        return Series(
            t_s=s.series[0, :count].copy(),
            running=s.series[1, :count].astype(np.int32),
            waiting=s.series[2, :count].astype(np.int32),
            kv_used_ratio=s.series[3, :count] / self.pool.limits.kv_blocks,
        )

    def _seconds(self) -> float:
        """Seconds of the composed iteration, by the timers."""
        p, number = self.pool, self.state.number
        if p.tables is not None:
            return float(tabled_seconds(self.state, p.drafts, p.tables))
        decoding, context, chunks = int(number[DECODING_NOW]), int(number[CONTEXT]), int(number[CHUNKS])
        new, cached = self.state.chunks[:, :chunks].tolist()
        queries = float(query_tokens(self.state, p.drafts))
        target = p.timer(
            decoding, queries, float(context), list(zip(new, cached, strict=True)), float(number[LONGEST])
        )  # fmt: skip
        draft = 0.0
        if p.draft_timer is not None and p.drafts.most:
            drafting = int(number[DRAFTING])
            share = context * drafting / decoding if decoding else 0.0
            draft = p.draft_timer(drafting, int(number[DRAFT_MOST]), share, int(number[ROWS] - number[DECODE_ROWS]))
        seconds = max(target, draft) if p.drafts.decoder == PEARL else target + draft
        if not 0.0 < seconds < np.inf:
            raise InputError("a timer must answer positive, finite seconds", key="timer", value=seconds)
        return float(seconds)
