"""How long does a composed iteration take, where timers are asked for it?

In one pass, in parts of drafts, in groups that are padded, or in passes of limited size, as with
tables (`simulator.loop.passes`). Leaves out when iterations are composed (`simulator.loop.service`).
"""

from __future__ import annotations

import numpy as np

from hardware_profiles.errors import InputError
from simulator.loop.decoders.record import BLOCK, PARALLEL, PLAIN, REGROUP, SPLIT, Drafts
from simulator.loop.entries import group, groups, line_up, next_pass, part, tabled_seconds
from simulator.loop.fleet import Fleet, Rules, buffers_of, replica_of
from simulator.loop.passes import drafts_at_once, over_caches, parts, with_pass
from simulator.loop.state import Requests
from simulator.loop.step_time import DraftTimer, StepTimer


class AskedTimers:
    """Timers of a pool's iterations.

    Args:
        requests: of the workload.
        rules: of the pool.
        drafts: the decoder.
        timer: for iterations.
        draft_timer: for draft passes; None: they are free.
        tabled: the rules hold tables of both, which are read instead.
    """

    def __init__(
        self,
        requests: Requests,
        rules: Rules,
        drafts: Drafts,
        timer: StepTimer,
        draft_timer: DraftTimer | None,
        *,
        tabled: bool,
    ) -> None:
        self.tabled = tabled
        self.requests, self.rules, self.drafts = requests, rules, drafts
        self.timer, self.draft_timer = timer, draft_timer

    def seconds(self, fleet: Fleet, index: int) -> float:
        """Seconds of the iteration that a replica has composed, without moving blocks.

        Raises:
            InputError: a timer whose answer is no positive number.
        """
        if self.tabled:
            rules, replica, buffers = self.rules, replica_of(fleet, index), buffers_of(fleet, index)
            composed = replica, buffers, self.requests, rules.limits, rules.d
            return float(tabled_seconds(*composed, rules.t, rules.seconds))
        return _Composed(self, fleet, index).seconds()


class _Composed:
    """An iteration that one replica has composed."""

    def __init__(self, timers: AskedTimers, fleet: Fleet, index: int) -> None:
        self.timers, self.requests = timers, timers.requests
        self.state, self.buffers = replica_of(fleet, index), buffers_of(fleet, index)
        self.drafts, self.limits = timers.drafts, timers.rules.limits
        self.decoder = timers.rules.d

    def seconds(self) -> float:
        """Of all its passes."""
        state, decoder, running = self.state, self.decoder, self.buffers.running
        count = 1 if decoder is None else int(parts(state, decoder))
        draft = 0.0
        if self.timers.draft_timer is not None and self.drafts.decoder != PLAIN:
            count_at_once, context = drafts_at_once(state, decoder)
            prompt_rows = int(state.rows - state.decode_rows + state.reread_rows)
            draft = (
                self.timers.draft_timer(
                    int(count_at_once), int(state.longest_new_draft), float(context), prompt_rows
                )
                / count
            )
        seconds = 0.0 if self.drafts.decoder in (PARALLEL, PLAIN) else draft
        if state.late_drafts and self.timers.draft_timer is not None:
            seconds += self.timers.draft_timer(
                int(state.late_drafts), int(state.draft_limit), float(state.late_context), 0
            )
        for at in range(count):
            if count > 1:
                sequences = part(state, running, self.requests, decoder, at, count)
                verify = self._pass_s(sequences, prompts=at == 0)
            else:
                verify = self._whole_pass()
            seconds = float(with_pass(decoder, seconds, draft, verify, at == count - 1))
        return _checked(seconds)

    def _whole_pass(self) -> float:
        """Seconds of verifying everything, in groups where batches are padded."""
        state, drafts = self.state, self.drafts
        decoding = int(state.decoding)
        if self.limits.pass_tokens and drafts.ragged == SPLIT:
            return self._split()
        if drafts.ragged == SPLIT or drafts.decoder == BLOCK or not decoding:
            sequences, queries = over_caches(state, self.decoder)
            return self._pass_s((sequences, queries, float(state.context_tokens)), prompts=True)
        ways = (False, True) if drafts.ragged == REGROUP else (False,)
        return min(self._in_groups(by_length) for by_length in ways)

    def _split(self) -> float:
        """Seconds of the passes of an iteration that may be longer than one; a timer counts its own
        part for each.
        """
        buffers, requests, limits = self.buffers, self.requests, self.limits
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
        decoder, seats = self.decoder, self.buffers.seats
        requests, running = self.requests, self.buffers.running
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
            self.timers.timer(int(members), float(queries), float(context), prefill, longest)
        )


def _checked(seconds: float) -> float:
    if not 0.0 < seconds < np.inf:
        raise InputError("a timer must answer positive, finite seconds", key="timer", value=seconds)
    return float(seconds)
