"""When a request is seen, and how long it waits for company: a part of the plain engine."""

import math


class Arrivals:
    """Requests before they run."""

    def receive(self, job):
        """The front end takes one request after another."""
        spent = self.o.intake_s + self.o.intake_token_s * job.prompt
        self.received = job.arrival = max(self.received, job.sent) + spent

    def upcoming(self):
        if self.sent < min(len(self.jobs), self.users + self.ended):
            return self.jobs[self.sent].arrival
        return math.inf

    def take_in(self, until):
        while self.upcoming() <= until:
            job = self.jobs[self.sent]
            self.sent += 1
            whole = not self.o.chunked_prefill and job.prompt > self.o.token_budget
            if whole or self.most_blocks(job) > self.o.kv_blocks:
                self.end(job, "rejected")
            else:
                job.state = "waiting"
                self.waiting.append(job)

    def waits(self):
        """Prompts wait for company, a few iterations of those who decode."""
        o = self.o
        if not (
            o.wait_iterations
            and self.waiting
            and self.decoding
            and len(self.running) < o.max_requests
        ):
            return False
        few = self.rows() + sum(job.known for job in self.waiting) < o.wait_ratio * o.token_budget
        self.waited = self.waited + 1 if few and self.waited < o.wait_iterations else 0
        return self.waited > 0
