"""An engine written for reading: the rules of the compiled one, one request and one cache block at
a time."""

import math
from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np

from simulator.loop.decoders import record as drafting
from simulator.loop.decoders.speculation import build_drafts, lookahead_tokens, place_requests
from simulator.loop.state import new_requests
from tests.simulator.likeliest_slots import likeliest_slots


@dataclass(eq=False)
class Job:
    """A request of the twin."""

    key: tuple
    prompt: int
    output: int
    arrival: float
    place: int
    names: list
    memory: float = 0.0
    stale: bool = False
    first_known: bool = False
    late: bool = False
    before_canvas: int = 0
    within: bool = False
    state: str = "new"
    sent: float = 0.0
    generated: int = 0
    computed: int = 0
    own: int = 0
    held: list = field(default_factory=list)
    quota: int = 0
    drafts: int = 0
    granted: int = 0
    slot: int = 0
    scheduled: float = math.nan
    first: float = math.nan
    last: float = math.nan

    @property
    def known(self):
        return self.prompt + self.generated


class Engine:
    """One engine, one iteration at a time; what each takes: `plain_timing`."""

    def __init__(self, scenario):
        self.o, w = scenario.scheduler, scenario.workload
        self.timer, self.speculation = scenario.timer, scenario.speculation
        self.draft_timer = scenario.speculation.draft if scenario.speculation else None
        generator = np.random.default_rng(scenario.seed)
        self.d = build_drafts(scenario, generator)
        records = new_requests(w, self.o)
        place_requests(records, self.d, generator)
        self.lag = 0 if scenario.blocks else 1
        self.look = lookahead_tokens(scenario)
        self.sequences = getattr(scenario.blocks, "held_sequences", 1)
        self.texts_end = getattr(scenario.blocks, "texts_end", False)
        self.passes_to_go = 0
        self.jobs = []
        for i in range(w.requests):
            names = []
            if self.o.prefix_cache and w.prefix_ids is not None:
                per = w.prefix_block_tokens // self.o.block_tokens
                names = [(each, part) for each in w.prefix_ids[i] for part in range(per)]
                names = names[: int(w.prompt_tokens[i]) // self.o.block_tokens]
            rank = int(w.priority[i]) if self.o.priorities and w.priority is not None else 0
            self.jobs.append(
                Job(
                    (rank, i),
                    int(w.prompt_tokens[i]),
                    int(w.output_tokens[i]),
                    float(w.arrival_s[i]),
                    int(records["place"][i]),
                    names,
                    float(self.d.most),
                )
            )
            self.forget_draft(self.jobs[-1])
        self.users, self.think = w.users or w.requests, float(w.think_s)
        self.received = 0.0
        for job in self.jobs:
            job.sent = job.arrival
        for job in self.jobs[: self.users]:
            self.receive(job)
        self.shared, self.idle = {}, OrderedDict()
        self.waiting, self.running = [], []
        self.clock, self.began, self.swap_s, self.sent, self.ended = 0.0, 0.0, 0.0, 0, 0
        self.since = self.step_s = self.tokens = 0.0
        self.waited = self.unseen = 0
        self.free_slots = {
            slot: -1 - slot for slot in range(self.o.max_requests if self.o.numbered_slots else 0)
        }
        self.preemptions = self.hits = self.rolled_back = self.unselected = 0

    # ends
    def end(self, job, state):
        job.state = state
        follower = self.users + self.ended
        self.ended += 1
        if follower < len(self.jobs):
            self.jobs[follower].sent = max(self.jobs[follower].sent, self.clock + self.think)
            self.receive(self.jobs[follower])

    def preempt(self, job):
        if self.o.preemption == "swap" and job.computed:
            self.swap_s += self.blocks(job.computed) * self.o.swap_block_s
            job.state = "swapped"
        else:
            job.state, job.computed = "waiting", 0
            if self.d.decoder == drafting.BLOCK:
                self.restart(job)
            self.forget_draft(job)
        job.granted, job.within = 0, False
        self.let_go(job)
        self.running.remove(job)
        self.waiting.append(job)
        self.preemptions += 1
        self.preempted = True

    def secure(self, job, tokens):
        short = self.blocks(tokens) - job.own - len(job.held)
        while self.obtainable() < short:
            behind = [other for other in self.running if other.key > job.key]
            free = [other for other in behind if not other.quota]
            if free:
                self.preempt(free[-1])
            else:
                if not behind and job is not self.running[0]:
                    self.preempt(job)
                return False
        if short > 0:
            self.take(job, short)
        return True

    # what an iteration holds
    def rows(self):
        return sum(job.quota for job in self.running)

    def room(self):
        return self.o.token_budget - self.rows()

    def batch_drafts(self, decoding):
        if self.d.decoder in (drafting.PLAIN, drafting.BLOCK):
            return 0
        k = self.speculation.draft_tokens
        for first, last, value in self.speculation.schedule:
            if first <= decoding <= last:
                k = value
        return k

    def wanted(self, job, batch):
        if self.d.decoder == drafting.PLAIN:
            return 0
        if self.d.decoder == drafting.BLOCK:
            return self.block_rows(job) - 1
        if batch == 0 or job.stale:
            return 0
        proposed = int(self.d.proposes[job.place])
        if self.d.decoder == drafting.TREE:
            return proposed
        if self.speculation.stop.rule == "ema":
            batch = min(batch, int(job.memory + 0.5) + 1)
        if self.o.drafts_within_output:
            batch = min(batch, job.output - job.generated - 1 + job.first_known)
        tokens = min(batch - job.first_known, proposed)
        return tokens if self.d.slots == drafting.ALIKE else min(tokens, job.granted)

    def share_slots(self, batch):
        """The oracle: the likeliest draft tokens of the batch, by a sort over all of them."""
        decoding = [job for job in self.running if job.state == "decoding"]
        chances = []
        for job in decoding:
            count = self.made(job, batch)
            each = np.full(count, job.memory / (1.0 + job.memory))
            if self.d.slots == drafting.LIKELIEST:
                each = self.d.sure[(job.place + np.arange(count)) % self.d.sure.size]
            chances.append(np.cumprod(each))
        shares = likeliest_slots(chances, int(self.d.budget_per_request * len(decoding)))
        for job, share in zip(decoding, shares, strict=True):
            job.granted = share

    def made(self, job, batch):
        """Tokens of the draft of a request, however many of them are verified."""
        within = job.output - job.generated - 1 if self.o.drafts_within_output else batch
        return min(batch, within, int(self.d.proposes[job.place]))

    def cut(self, extra, room):
        if extra <= room:
            return extra
        return max(room, 0) if self.d.decoder in (drafting.CHAIN, drafting.PARALLEL) else 0

    def decodes(self, batch):
        for job in list(self.running):
            if job not in self.running or job.state != "decoding" or job.quota:
                continue
            if self.waiting_for_block and not job.within:
                continue
            room, extra = self.room() - 1, self.wanted(job, batch)
            block = self.d.decoder == drafting.BLOCK
            if room < 0 or (block and extra > room and self.rows()):
                return
            extra = extra if block else self.cut(extra, room)
            if self.secure(job, self.needs(job, 1 + extra)):
                self.decode(job, extra)

    def decode(self, job, extra):
        job.quota = 1 + extra
        job.drafts = 0 if self.d.decoder == drafting.BLOCK else extra
        job.within = self.shares()
        self.decoding.append(job)
        if self.d.decoder == drafting.BLOCK and self.is_full(job):
            self.chunks.append((job.quota, 0))
            self.full.append(job)

    def prefill(self, job, tokens):
        job.quota = tokens
        self.chunks.append((tokens, job.computed))
        end = (job.computed + tokens) // self.o.block_tokens
        for name in job.names[job.computed // self.o.block_tokens : end]:
            if name not in self.shared:
                job.own -= 1
                self.hold(job, name)

    def chunk(self, job, computed):
        tokens, room = job.known - computed, self.room()
        if tokens <= room or (not self.o.chunked_prefill and not self.rows()):
            return tokens
        return max(room, 0) if self.o.chunked_prefill else 0

    def prompts(self):
        for job in list(self.running):
            if job not in self.running or job.state != "prefilling":
                continue
            tokens = self.chunk(job, job.computed)
            if tokens == 0:
                self.stuck = True
                return
            if self.secure(job, job.computed + tokens):
                self.prefill(job, tokens)
            else:
                self.stuck = True

    def admissions(self, batch):
        o = self.o
        if self.waits():
            return
        while self.waiting and len(self.running) < o.max_requests:
            job = min(self.waiting, key=lambda each: each.key)
            if o.slo_ttft_s and self.clock - job.sent > o.slo_ttft_s and math.isnan(job.scheduled):
                self.waiting.remove(job)
                self.end(job, "rejected")
                continue
            slow = o.slo_tpot_s is not None and self.step_s > o.slo_tpot_s * self.tokens
            if self.room() <= 0 or (slow and self.running) or not self.admit(job, batch):
                return

    def admit(self, job, batch):
        if self.d.renews:
            return self.admit_block(job)
        o, swapped, hits = self.o, job.state == "swapped", 0
        if not swapped:
            while (
                hits < min(len(job.names), (job.known - 1) // o.block_tokens)
                and job.names[hits] in self.shared
            ):
                hits += 1
        computed = job.computed if swapped else hits * o.block_tokens
        decodes = (
            swapped and (job.generated > 0 or not self.lag) and computed >= job.known - self.lag
        )
        extra = self.cut(self.wanted(job, batch), self.room() - 1)
        tokens = (
            (0 if self.d.decoder == drafting.BLOCK else 1 + extra)
            if decodes
            else self.chunk(job, computed)
        )
        if o.numbered_slots and not decodes:
            tokens = 0
        elif tokens == 0 and not decodes:
            return False
        blocks = self.blocks(computed + tokens) - hits
        idle = sum(name in self.idle for name in job.names[:hits])
        if (
            o.reserve_ratio is not None
            and self.owed() + self.promised(job) - hits > self.obtainable() - idle
        ):
            return False
        spare = int(o.watermark_ratio * o.kv_blocks) if self.running else 0
        if self.obtainable() - idle - blocks < spare:
            return False
        self.waiting.remove(job)
        for name in job.names[:hits]:
            self.hold(job, name)
        self.hits += hits * o.block_tokens
        if swapped:
            self.swap_s += self.blocks(computed) * o.swap_block_s
        self.running.append(job)
        self.line_up(job)
        self.take(job, blocks)
        job.computed = computed
        job.scheduled = self.clock if math.isnan(job.scheduled) else job.scheduled
        job.state = "decoding" if decodes else "prefilling"
        if not decodes and tokens:
            self.prefill(job, tokens)
        elif tokens:
            self.decode(job, extra)
        return True

    def compose(self):
        self.decoding, self.chunks, self.full, self.preempted, self.stuck = [], [], [], False, False
        self.waiting_for_block = not self.is_between()
        batch = self.batch_drafts(sum(job.state == "decoding" for job in self.running))
        if self.d.slots != drafting.ALIKE and self.d.decoder == drafting.CHAIN:
            self.share_slots(batch)
        if self.o.numbered_slots:
            self.send_for_postponed()
            self.admissions(batch)
        if not self.o.prefill_first:
            self.decodes(batch)
        self.prompts()
        if not self.stuck and not self.preempted and not self.o.numbered_slots:
            self.admissions(batch)
        if self.o.prefill_first and len(self.chunks) == len(self.full):
            self.decodes(batch)
        return batch

    # what it brings about
    def step(self, job, batch):
        d = self.d
        if d.decoder == drafting.PLAIN:
            return 1
        here = job.place
        if d.decoder == drafting.BLOCK:
            return self.block_step(job)
        full, left = int(d.emits[here]), int(d.left[here])
        if d.slots != drafting.ALIKE:
            self.unselected += self.made(job, batch) - job.drafts
        accepted = min(full, job.drafts + 1, left) - 1
        emitted = accepted + 1
        if d.decoder == drafting.PARALLEL:
            emitted = self.parallel_step(job, accepted, left, batch)
        if job.drafts:
            job.memory = float(np.float32(job.memory + d.weight * (accepted - job.memory)))
        job.place = here + emitted if here + emitted < len(d.emits) else 0
        return emitted

    def settle(self, batch):
        emitted_now, decoding = 0, len(self.decoding)
        within = [job for job in self.running if job.within and job.state == "decoding"]
        self.passes_to_go = max([int(self.d.passes[job.place]) for job in within], default=0)
        for job in list(self.running):
            quota, job.quota = job.quota, 0
            if not quota:
                continue
            if job.state == "decoding":
                emitted = min(self.step(job, batch), job.output - job.generated)
                job.computed += emitted
                emitted_now += emitted
            else:
                job.computed += quota
                if job.computed < job.known:
                    continue
                job.state, emitted = "decoding", self.lag
                self.forget_draft(job)
            if emitted and not job.generated:
                job.first = self.clock
            job.generated += emitted
            if job.generated == job.output:
                job.last = self.clock
                self.let_go(job)
                self.running.remove(job)
                self.end(job, "finished")
        if decoding:
            weight = 0.2 if self.step_s > 0 else 1.0
            self.step_s += weight * (self.since - self.step_s)
            self.tokens += weight * (emitted_now / decoding - self.tokens)
            self.since = 0.0

    def run(self):
        o, self.iterations = self.o, 0
        while True:
            if o.horizon_s and self.clock >= o.horizon_s:
                for job in (
                    *self.running,
                    *sorted(self.waiting, key=lambda each: each.key),
                    *self.jobs[self.sent :],
                ):
                    self.end(job, "failed")
                return self
            if self.unseen >= o.receive_iterations or not self.running:
                self.take_in(self.began if o.overlapped_scheduling else self.clock)
                self.unseen = 0
            if not self.running and not self.waiting:
                self.take_in(self.clock)
            if not self.running and not self.waiting:
                if self.upcoming() == math.inf:
                    return self
                self.clock = max(self.clock, min(self.upcoming(), o.horizon_s or math.inf))
                self.since = 0.0
                continue
            batch = self.compose()
            if self.rows():
                seconds = self.seconds(batch) + self.swap_s
                self.swap_s = 0.0
                self.began = self.clock
                self.clock += seconds
                self.since += seconds
                self.iterations += 1
                self.unseen += o.receive_iterations if len(self.chunks) > len(self.full) else 1
                self.settle(batch)
