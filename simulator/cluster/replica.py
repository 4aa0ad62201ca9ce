"""One simulated engine, as the processes around it see it: send requests, let it run, ask how it
stands.

Leaves out where requests come from and which engine gets them (`simulator.cluster.environment`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from hardware_profiles.errors import InputError
from simulator.loop.compiled import laid_out
from simulator.loop.decoders.lengths import new_memory
from simulator.loop.decoders.record import (
    BLOCK,
    PARALLEL,
    PLAIN,
    REGROUP,
    SPLIT,
    Drafts,
    walk_of,
)
from simulator.loop.entries import (
    advance,
    begin,
    group,
    groups,
    line_up,
    next_pass,
    part,
    receive_all,
    settle,
    start,
    tabled_seconds,
)
from simulator.loop.iteration import COMPOSED, COUNTED, PAUSED
from simulator.loop.passes import drafts_at_once, over_caches, parts, with_pass
from simulator.loop.state import (
    Prefixes,
    Requests,
    SchedulerLimits,
    Small,
    new_buffers,
    new_replica,
)
from simulator.loop.step_time import DraftTimer, StepTimer
from simulator.loop.tables import Tables, no_tables
from simulator.results.metrics import Series

_NEVER = 1 << 62  # iterations between two noted states


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
        merge: advance iterations that differ in context alone together.
        series: note states over time.
    """

    requests: Requests
    prefixes: Prefixes
    limits: SchedulerLimits
    drafts: Drafts
    tables: Tables | None
    timer: StepTimer
    draft_timer: DraftTimer | None
    merge: bool
    series: bool = True


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
        self.state = new_replica(pool.limits)
        if not pool.series:
            self.state.sample_stride = _NEVER
        groups = pool.drafts.ragged != SPLIT and pool.drafts.decoder != BLOCK
        self.buffers = new_buffers(
            pool.limits,
            pool.prefixes,
            inbox,
            groups=groups,
            memory=new_memory(pool.drafts, pool.limits),
        )
        limits, _ = laid_out(pool.limits)
        t, seconds = laid_out(no_tables() if pool.tables is None else pool.tables)
        self._walk = walk_of(pool.drafts)
        # where requests draft or commit blocks, iterations differ in more than their context
        self._merge = True if pool.merge and pool.drafts.decoder == PLAIN else None
        self._state = self.state, self.buffers, pool.requests
        self.limits, self.timing = limits, (t, seconds)  # as the loop reads them

    @property
    def to_begin(self) -> tuple[Any, ...]:
        """What `iteration.begin` reads and writes, `until` apart."""
        walk = self._walk.decoder, self._walk.places, self._walk.tables
        return *self._state, self.pool.prefixes, self.limits, *walk, *self.timing

    @property
    def to_settle(self) -> tuple[Any, ...]:
        """What `iteration.settle` reads and writes."""
        return *self._state, self.pool.prefixes, self.limits, *self._walk

    @property
    def clock_s(self) -> float:
        """End of its latest iteration, or start of the one under way."""
        return float(self.state.clock_s)

    @property
    def end_s(self) -> float:
        """End of the iteration under way."""
        return float(self.state.end_s)

    @property
    def unfinished(self) -> int:
        """Requests that were sent to it and have not ended."""
        return int(self.state.sent - self.state.ended)

    def send(self, requests: Small | Iterable[int]) -> None:
        """Hand over requests, by their order of arrival; they must not be ready before those sent
        earlier.
        """
        indices = np.atleast_1d(np.asarray(requests, dtype=np.int32))
        at = int(self.state.sent)
        self.buffers.queue["inbox"][at : at + indices.size] = indices
        self.state.sent = at + indices.size
        self.pool.requests["replica"][indices] = self.index
        limits = self.pool.limits
        if limits.intake_s + limits.intake_token_s > 0.0:
            # of a closed loop that the replica keeps itself, later requests are received once they
            # are sent
            end = min(at + indices.size, limits.users + int(self.state.ended))
            receive_all(self.state, self.buffers.queue, self.pool.requests, self.limits, at, end)

    def advance(self, until_s: float, most: int) -> int:
        """Run iterations that start before `until_s`, at most about `most`; a status of
        `simulator.loop.iteration`.
        """
        p = self.pool
        if p.tables is not None:
            return int(advance(*self.to_settle, *self.timing, until_s, most, self._merge))
        for _ in range(most):
            if self.state.busy:
                if self.end_s > until_s:
                    return PAUSED
                self.settle()
            status = self.begin(until_s)
            if status != COMPOSED:
                return status
        return COUNTED

    def begin(self, until_s: float = np.inf) -> int:
        """Start the next iteration, if there is anything to do before `until_s`."""
        status = int(begin(*self.to_begin, until_s))
        if status == COMPOSED:
            start(self.state, self.buffers.counts, self.limits, self._seconds())
        return status

    def pass_s(self) -> float:
        """Seconds of the composed iteration, moving blocks to and from the host included."""
        return self._seconds() + float(self.state.swap_s)

    def settle(self) -> None:
        """End the iteration under way."""
        settle(*self.to_settle)

    def series(self) -> Series:
        """Its states over time."""
        series, count = self.state.series, int(self.state.samples)
        return Series(
            t_s=series[0, :count].copy(),
            running=series[1, :count].astype(np.int32),
            waiting=series[2, :count].astype(np.int32),
            kv_used_ratio=series[3, :count] / self.pool.limits.kv_blocks,
        )

    def _seconds(self) -> float:
        """Seconds of the composed iteration, by the timers."""
        p, state = self.pool, self.state
        if p.tables is not None:
            composed = *self._state, self.limits, self._walk.decoder
            return float(tabled_seconds(*composed, *self.timing))
        decoder, running = self._walk.decoder, self.buffers.running
        count = 1 if decoder is None else int(parts(state, decoder))
        draft = 0.0
        if p.draft_timer is not None and p.drafts.decoder != PLAIN:
            count_at_once, context = drafts_at_once(state)
            prompt_rows = int(state.rows - state.decode_rows + state.reread_rows)
            draft = (
                p.draft_timer(
                    int(count_at_once), int(state.longest_new_draft), float(context), prompt_rows
                )
                / count
            )
        seconds = 0.0 if p.drafts.decoder in (PARALLEL, PLAIN) else draft
        for at in range(count):
            if count > 1:
                sequences = part(state, running, p.requests, decoder, at, count)
                verify = self._pass_s(sequences, prompts=at == 0)
            else:
                verify = self._whole_pass()
            seconds = float(with_pass(decoder, seconds, draft, verify, at == count - 1))
        return _checked(seconds)

    def _whole_pass(self) -> float:
        """Seconds of verifying everything, in groups where batches are padded."""
        state, drafts = self.state, self.pool.drafts
        decoding = int(state.decoding)
        if self.pool.limits.pass_tokens and drafts.ragged == SPLIT:
            return self._split()
        if drafts.ragged == SPLIT or drafts.decoder == BLOCK or not decoding:
            sequences, queries = over_caches(state, self._walk.decoder)
            return self._pass_s((sequences, queries, float(state.context_tokens)), prompts=True)
        ways = (False, True) if drafts.ragged == REGROUP else (False,)
        return min(self._in_groups(by_length) for by_length in ways)

    def _split(self) -> float:
        """Seconds of the passes of an iteration that may be longer than one; a timer counts its own
        part for each.
        """
        buffers, requests, limits = self.buffers, self.pool.requests, self.limits
        count = int(line_up(self.state, buffers.running, buffers.seats, requests))
        left, seconds = int(self.state.rows), 0.0
        while left > 0:
            decoding, decode_rows, context, longest, pieces, rows, _ = next_pass(
                buffers, requests, limits, count
            )
            queries = decode_rows / decoding if decoding else 0.0
            seconds += self._timed(
                decoding, queries, context, buffers.pieces[:pieces].tolist(), longest
            )
            left -= rows
        return seconds

    def _in_groups(self, by_length: bool) -> float:
        """Seconds of verifying the decoding requests group by group; prompts join the first."""
        decoder, seats = self._walk.decoder, self.buffers.seats
        requests, running = self.pool.requests, self.buffers.running
        count = int(groups(self.state, running, seats, requests, decoder, by_length))
        seconds = 0.0
        for at in range(count):
            sequences = group(self.state, seats, requests, decoder, at)
            seconds += self._pass_s(sequences, prompts=at == 0, equal_lengths=True)
        return seconds

    def _pass_s(
        self, sequences: tuple[int, float, float], *, prompts: bool, equal_lengths: bool = False
    ) -> float:
        """Seconds of a pass by the timer; none without requests or prompts.

        Args:
            sequences: requests that decode in it, query tokens of one, and cached tokens of all.
            prompts: the prompt chunks of the iteration are computed beside them.
            equal_lengths: all are padded to the longest, so that the longest context is their mean.
        """
        members, queries, context = sequences
        count = int(self.state.chunks) if prompts else 0
        if not members and not prompts:
            return 0.0
        prefill = self.buffers.chunks[:count].tolist()
        longest = context / members if equal_lengths else float(self.state.longest_context)
        return self._timed(members, queries, context, prefill, longest)

    def _timed(
        self,
        members: int,
        queries: float,
        context: float,
        prefill: list[tuple[int, int]],
        longest: float,
    ) -> float:
        return _checked(
            self.pool.timer(int(members), float(queries), float(context), prefill, longest)
        )


def _checked(seconds: float) -> float:
    if not 0.0 < seconds < np.inf:
        raise InputError("a timer must answer positive, finite seconds", key="timer", value=seconds)
    return float(seconds)
