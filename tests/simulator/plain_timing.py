"""How long an iteration of the plain engine takes: its passes one by one, over requests as objects."""

from simulator import drafting
from simulator.overlap import step_s


class Timing:
    """The part of a plain engine that asks timers."""

    def seconds(self, batch):
        b, context = len(self.decoding), sum(job.computed for job in self.decoding)
        drafting_jobs = [job for job in self.decoding if job.drafts]
        most = max([job.drafts for job in self.decoding], default=0)
        drafts = len(drafting_jobs)
        if self.d.decoder == drafting.AHEAD and batch:
            drafts, most = b, batch
        drafts *= max(self.d.branches, 1)
        draft = 0.0
        if self.draft_timer:
            share = context * drafts / b if b else 0.0
            draft = self.draft_timer(drafts, most, share, sum(new for new, _ in self.chunks))
        policy = self.speculation.policy if self.speculation else None
        return step_s(policy, draft, self.passes(policy, b, context, most))

    def passes(self, policy, b, context, most):
        longest = max([job.computed for job in self.decoding], default=0)
        if policy and policy.parts > 1 and most > 1:
            return self.in_parts(policy, most, longest)
        if b and self.speculation and self.speculation.ragged != "split":
            ways = [self.decoding]
            if self.speculation.ragged == "regroup":
                ways.append(sorted(self.decoding, key=lambda job: job.computed))
            return [min(self.padded(way) for way in ways)]
        queries = sum(job.quota for job in self.decoding) / b if b else 0.0
        return [self.timer(b, queries, float(context), self.chunks, float(longest))]

    def in_parts(self, policy, most, longest):
        count, found = min(policy.parts, most), []
        for at in range(count):
            first, end = at * most // count, (at + 1) * most // count
            inside = []
            for job in self.decoding:
                kept = min(int(self.d.emits[job.place]), job.drafts + 1, int(self.d.left[job.place])) - 1
                if at == 0 or (job.drafts > first and (kept >= first or not policy.prunes)):
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
                self.timer(
                    len(inside),
                    queries,
                    float(sum(held for _, held in inside)),
                    [] if at else self.chunks,
                    float(longest),
                )
            )
        return found

    def padded(self, way):
        size, total = self.speculation.group_requests or len(way), 0.0
        for first in range(0, len(way), size):
            group = way[first : first + size]
            longest = max(job.computed for job in group)
            total += self.timer(
                len(group),
                float(max(job.quota for job in group)),
                float(longest * len(group)),
                [] if first else self.chunks,
                float(longest),
            )
        return total
