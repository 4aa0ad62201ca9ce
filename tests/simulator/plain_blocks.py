"""Blocks of the plain engine: what a pass computes, when a block is finished, and who waits for
whom."""

import math

from simulator.loop.decoders import record


class Blocks:
    """The part of a plain engine that walks along blocks."""

    def whole(self, job):
        """Tokens of everything that a full pass computes."""
        return job.prompt + job.before_canvas + self.d.canvas

    def is_full(self, job):
        return self.d.canvas > 0 and int(self.d.proposes[job.place]) == record.FULL

    def block_rows(self, job):
        if self.is_full(job):
            return self.whole(job)
        rows = int(self.d.proposes[job.place])
        if rows == record.FROM_BLOCK:
            rows = self.d.canvas - (job.generated - job.before_canvas)
        return rows * self.d.copies

    def cached(self, job):
        """Tokens of every sequence of the request that its pass reads and does not compute."""
        return self.whole(job) - job.quota // self.d.copies if self.d.canvas else job.computed

    def needs(self, job, rows):
        """Tokens whose cache a request has to have room for."""
        return self.sequences * self.whole(job) if self.d.canvas else job.computed + rows

    def shares(self):
        return self.d.decoder == record.BLOCK and self.d.ragged == record.PAD

    def is_between(self):
        """Whether nobody who decodes is within a block that all share."""
        return not any(job.within for job in self.running if job.state == "decoding")

    def enter(self, job, place, generated):
        job.place = place
        if int(self.d.left[place]):
            return
        job.within = False
        full = generated - job.before_canvas >= self.d.canvas
        if self.d.canvas and (full or int(self.d.foreseen[place]) == record.BEGINS_CANVAS):
            job.before_canvas = generated

    def block_step(self, job):
        here, count = job.place, len(self.d.emits)
        if self.shares() and int(self.d.passes[here]) == 1 and self.passes_to_go > 1:
            return 0
        emitted = int(self.d.emits[here])
        self.enter(job, (here + 1) % count, job.generated + emitted)
        return emitted

    def restart(self, job):
        if (
            self.d.canvas and int(self.d.passes[job.place]) == 0
        ):  # finished: only storing it was missing
            place = job.place
            while int(self.d.left[place]):
                place = (place + 1) % len(self.d.emits)
            self.enter(job, place, job.generated)
        else:
            job.place -= int(self.d.left[job.place])

    def admit_block(self, job):
        """Let a request in whose first pass computes its prompt too."""
        rows = self.block_rows(job)
        if self.waiting_for_block or (self.rows() and self.rows() + rows > self.o.token_budget):
            return False
        blocks = self.blocks(self.needs(job, rows))
        if (
            self.o.reserve_ratio is not None
            and self.owed() + self.promised(job) > self.obtainable()
        ):
            return False
        if self.obtainable() - blocks < (
            int(self.o.watermark_ratio * self.o.kv_blocks) if self.running else 0
        ):
            return False
        if job.state == "swapped":
            self.swap_s += self.blocks(job.computed) * self.o.swap_block_s
        self.waiting.remove(job)
        self.running.append(job)
        self.line_up(job)
        self.take(job, blocks)
        job.scheduled = self.clock if math.isnan(job.scheduled) else job.scheduled
        job.computed, job.state = job.known, "decoding"
        self.decode(job, rows - 1)
        return True
