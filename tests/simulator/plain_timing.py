"""How long an iteration of the plain engine takes: its passes one by one, and what is drafted
beside them."""

from costmodel.laws.batching import SERIAL
from simulator.loop.decoders import record as drafting
from simulator.timing.cost_timer import TabledTimer
from tests.simulator.plain_passes import equal_passes, simple_passes


class Timing:
    """The part of a plain engine that asks timers."""

    def timed(self, *held, first=True):
        """Seconds of a pass; tables say by themselves what a drafter takes that proposes nothing."""
        if not isinstance(self.timer, TabledTimer):
            return self.timer(*held)
        return self.timer(*held, speculates=self.speculates and first)

    def seconds(self, batch):
        rows = sum(job.quota for job in self.decoding)
        self.speculates = bool(self.decoding) and (batch > 0 or rows > len(self.decoding))
        b, context = len(self.decoding), sum(job.computed for job in self.decoding)
        drafting_jobs = [job for job in self.decoding if job.drafts]
        most = max([job.drafts for job in self.decoding], default=0)
        drafts, new = len(drafting_jobs), most
        if self.d.decoder == drafting.CHAIN and self.d.passes.size:
            new = max(
                [min(batch, int(self.d.passes[job.place])) for job in drafting_jobs], default=0
            )
        if self.d.slots != drafting.ALIKE:
            made = [self.made(job, batch) for job in self.decoding]
            drafts, new = sum(each > 0 for each in made), max(made, default=0)
        if self.d.decoder == drafting.PARALLEL and batch:
            drafts, most = sum(map(self.branches_behind, self.decoding)), batch
            new = max([self.meanwhile(job, batch) for job in self.decoding], default=0)
        share = context * drafts / b if b else 0.0
        late = [job for job in self.decoding if job.late and job.drafts]
        if self.d.fan_out and batch:
            drafts = sum((job.drafts + 1) * self.d.fan_out for job in self.decoding)
            new, share = batch + 1 if drafts else 0, context
        draft = late_s = 0.0
        if self.draft_timer:
            if late:
                held = sum(job.computed for job in late)
                late_s = self.draft_timer(len(late), batch, float(held), 0)
            draft = self.draft_timer(drafts, new, share, sum(tokens for tokens, _ in self.chunks))
        policy = self.speculation.batch if self.speculation else SERIAL
        return step_s(policy, draft, self.passes(policy, b, context, most), late_s)

    def passes(self, policy, b, context, most):
        longest = max([job.computed for job in self.decoding], default=0)
        if policy.parts > 1 and most > 1:
            return self.in_parts(policy, most, longest)
        if self.d.canvas:
            parts = [job for job in self.decoding if job not in self.full]
            count, rows = len(parts) * self.d.copies, sum(job.quota for job in parts)
            held = [self.cached(job) for job in parts]
            return [
                self.timed(
                    count,
                    rows / count if count else 0.0,
                    float(sum(held) * self.d.copies),
                    self.chunks,
                    float(max(held, default=0)),
                )
            ]
        if b and policy.ragged != "split":
            ways = [self.decoding]
            if policy.ragged == "regroup":
                ways.append(sorted(self.decoding, key=lambda job: job.computed))
            return [min(self.padded(way) for way in ways)]
        if self.o.pass_tokens:
            return [self.split()]
        queries = sum(job.quota for job in self.decoding) / b if b else 0.0
        return [self.timed(b, queries, float(context), self.chunks, float(longest))]

    def split(self):
        """Passes of an iteration, from a list of its tokens, each by its request."""
        prompts = [job for job in self.running if job.quota and job not in self.decoding]
        batch = [job for job in (*self.decoding, *prompts) for _ in range(job.quota)]
        if self.o.equal_passes:
            inside = equal_passes([job.slot for job in batch], self.o.pass_tokens)
            by_slot = {job.slot: job for job in batch}
            inside = [[by_slot[slot] for slot in each] for each in inside]
        else:
            inside = simple_passes(batch, self.o.pass_tokens)
        done, total = dict.fromkeys(batch, 0), 0.0
        for each in inside:
            decoding = [job for job in self.decoding if job in each]
            held = [job.computed + done[job] for job in decoding]
            if self.o.equal_passes:
                held = [max(held)] * len(held) if held else []
            rows = sum(each.count(job) for job in decoding)
            pieces = [(each.count(job), job.computed + done[job]) for job in prompts if job in each]
            total += self.timed(
                len(decoding),
                rows / len(decoding) if decoding else 0.0,
                float(sum(held)),
                pieces,
                float(max(held, default=0)),
            )
            for job in each:
                done[job] += 1
        return total

    def in_parts(self, policy, most, longest):
        count, found = min(policy.parts, most), []
        for at in range(count):
            first, end = at * most // count, (at + 1) * most // count
            inside = []
            for job in self.decoding:
                accepted = (
                    min(int(self.d.emits[job.place]), job.drafts + 1, int(self.d.left[job.place]))
                    - 1
                )
                if at == 0 or (job.drafts > first and (accepted >= first or not policy.prunes)):
                    inside.append(
                        (
                            min(job.drafts, end) - min(job.drafts, first) + (at == 0),
                            job.computed + (1 + first if at else 0),
                        )
                    )
            if not inside and at:
                found.append(0.0)
                continue
            queries = sum(rows for rows, _ in inside) / len(inside) if inside else 0.0
            found.append(
                self.timed(
                    len(inside),
                    queries,
                    float(sum(held for _, held in inside)),
                    [] if at else self.chunks,
                    float(longest),
                    first=at == 0,
                )
            )
        return found

    def padded(self, way):
        size, total = self.speculation.group_requests or len(way), 0.0
        for first in range(0, len(way), size):
            group = way[first : first + size]
            longest = max(job.computed for job in group)
            total += self.timed(
                len(group),
                float(max(job.quota for job in group)),
                float(longest * len(group)),
                [] if first else self.chunks,
                float(longest),
            )
        return total

    def branches_behind(self, job):
        """Branches of the draft that begins where a request's pending one ends."""
        return (
            int(self.d.branches_at[(job.place + job.drafts) % len(self.d.emits)])
            if self.d.branches > 1
            else 1
        )

    def meanwhile(self, job, batch):
        """Tokens of that draft."""
        return min(
            batch, 1 + int(self.d.proposes[(job.place + job.drafts + 1) % len(self.d.emits)])
        )

    def forget_draft(self, job):
        """A request has no draft that was made during a verification."""
        job.late, job.first_known = bool(self.d.waits), False
        job.stale = self.d.decoder == drafting.PARALLEL and not self.d.waits

    def outcome_step(self, job, accepted, left, batch):
        """What the drafts are worth that were made for the outcomes of this step."""
        whole = accepted == job.drafts
        known = int(self.d.foreseen[job.place + accepted]) & (1 if whole else 2) if left else 0
        right = bool(batch) and left > accepted + 1 and bool(known)
        self.forget_draft(job)
        if right:
            job.late = job.stale = False
        self.rolled_back += 0 if right else batch
        self.unselected += ((job.drafts + 1) * self.d.fan_out - 1) * batch
        return accepted + 1

    def parallel_step(self, job, accepted, left, batch):
        """What the draft that was made meanwhile is worth."""
        if self.d.fan_out:
            return self.outcome_step(job, accepted, left, batch)
        job.first_known = False
        if job.drafts and not self.d.branches and accepted == job.drafts:
            job.stale = False
            return accepted
        goes_on = accepted == job.drafts and left > accepted + 1 and bool(batch)
        if job.drafts and not self.d.branches:
            goes_on = False
        right = goes_on and bool(self.d.foreseen[job.place + accepted])
        job.stale, job.first_known = not right, right
        each = self.meanwhile(job, batch)
        self.rolled_back += 0 if right else each
        self.unselected += (self.branches_behind(job) - 1) * each
        return accepted + 1


def side_by_side_s(one_s, other_s, interference_ratio=0.0, *, after_s=0.0):
    """Seconds until two phases end that run at once, after what came before them."""
    return after_s + max(one_s, other_s) + interference_ratio * min(one_s, other_s)


def step_s(batch, draft_s, verify_s, late_s=0.0):
    """Seconds of a step: drafting goes on evenly, and each part of the verification waits for its
    tokens, and for drafts that come late."""
    x, parallel = batch.interference_ratio, batch.drafts_during_verify
    each = draft_s / len(verify_s)
    total = late_s if parallel else each
    for part_s in verify_s[:-1]:
        total = side_by_side_s(each, part_s, x, after_s=total)
    return (
        side_by_side_s(each, verify_s[-1], x, after_s=total) if parallel else total + verify_s[-1]
    )
