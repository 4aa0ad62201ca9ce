"""The cache of the plain engine: every block is owned by a request, or named and shared."""


class Cache:
    """Who holds which block, and how many a request may come to hold."""

    def blocks(self, tokens):
        return -(-tokens // self.o.block_tokens)

    def free(self):
        own = sum(job.own for job in self.running)
        return self.o.kv_blocks - own - len(self.shared)

    def obtainable(self):
        return self.free() + len(self.idle)

    def take(self, job, blocks):
        while self.free() < blocks:
            name, _ = self.idle.popitem(last=False)
            del self.shared[name]
        job.own += blocks

    def hold(self, job, name):
        self.idle.pop(name, None)
        self.shared[name] = self.shared.get(name, 0) + 1
        job.held.append(name)

    def let_go(self, job):
        job.own = 0
        if self.o.numbered_slots:
            self.free_slots[job.slot] = self.ended
        for name in reversed(job.held):
            self.shared[name] -= 1
            if self.shared[name] == 0:
                self.idle[name] = None
        job.held = []

    def line_up(self, job):
        """Who joins takes a slot and is served in its place."""
        if self.o.numbered_slots:
            free = sorted(self.free_slots, key=self.free_slots.get)
            job.slot = self.sent_for.pop() if self.sent_for else free[0]
            del self.free_slots[job.slot]
        self.running.sort(key=lambda each: each.slot if self.o.numbered_slots else each.key)

    def send_for_postponed(self):
        """Slots that were left in the latest iteration, for those who found none before; the last
        one comes first."""
        old = [job for job in self.waiting if job.arrival <= self.began] if self.iterations else []
        self.sent_for = sorted(self.free_slots, key=self.free_slots.get)[: len(old)]

    def most_blocks(self, job):
        if job.output == 1 and self.lag:
            return self.blocks(job.prompt)
        ahead = job.output - self.lag + self.look
        if self.d.canvas and not self.texts_end:
            ahead = min(ahead, -(-job.output // self.d.canvas) * self.d.canvas)
        return self.blocks(self.sequences * (job.prompt + ahead))

    def promised(self, job):
        unreserved = int((1.0 - self.o.reserve_ratio) * (job.output - job.generated))
        most = self.blocks(
            self.sequences * (job.prompt + job.output - self.lag + self.look - unreserved)
        )
        return min(most, self.most_blocks(job))

    def owed(self):
        return sum(max(self.promised(job) - job.own - len(job.held), 0) for job in self.running)
