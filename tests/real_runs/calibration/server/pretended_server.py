"""A server on a clock of its own: every time follows from known constants, and other work may hold
some of them up."""

from contextlib import nullcontext

from real_runs.servers.client import StreamedAnswer

STEP_S, REQUEST_S, TOKEN_S, CACHED_S, PAIR_S, PROMPT_S = 9e-3, 0.8e-3, 7e-3, 1e-6, 2e-6, 1.5e-3
ACCEPTED_S, HEAD_RATIO = 0.6e-3, 0.21


def step_s(requests, tokens, context):
    return STEP_S + requests * (
        REQUEST_S + tokens * TOKEN_S + context * (CACHED_S + tokens * PAIR_S)
    )


def prompt_s(tokens, context):
    """Prompts see half of themselves on average, and only their last token passes the output
    head."""
    return step_s(1, tokens, context + (tokens - 1) / 2) - HEAD_RATIO * (tokens - 1) * TOKEN_S


class PretendedServer:
    """A `Client` whose slots remember their prompts.

    Args:
        held_up: called for every time; returns how much longer it took, 1.0 for not at all.
        drafts: tokens per step.
        accepts: all of them are kept; else none.
        kept: prompts by name, as saved by an earlier start.
        keeps: as of `Client`.
        error: of every answer.
    """

    def __init__(
        self, *, held_up=lambda: 1.0, drafts=0, accepts=False, kept=None, keeps=True, error=None
    ):
        self.sentence, self.keeps = tuple(range(100, 125)), keeps
        self._held_up, self._drafts, self._error = held_up, drafts, error
        self._accepts = accepts
        self._slots, self._kept, self._now = {}, {} if kept is None else kept, 100.0

    def save(self, slot, name):
        self._kept[name] = self._slots[slot]

    def restore(self, slot, name):
        self._slots[slot] = self._kept[name]

    def ask(self, requests):
        sent, firsts, cached = self._now, [], []
        for user, request in enumerate(requests):
            before = self._slots.get(request.options.get("id_slot", user), ())
            same = 0
            while (
                same < min(len(before), len(request.prompt) - 1)
                and before[same] == request.prompt[same]
            ):
                same += 1
            cached.append(same)
            self._slots[request.options.get("id_slot", user)] = request.prompt
            self._now += (PROMPT_S + prompt_s(len(request.prompt) - same, same)) * self._held_up()
            firsts.append(self._now)
        each = 1 + self._drafts * self._accepts
        steps = (min(request.max_tokens for request in requests) - 1) // each
        if any(request.options.get("stop") for request in requests):
            steps = min(steps, 9)
        times, made = [], 0
        for _ in range(steps):
            middle = len(requests[0].prompt) + (made if self._accepts else 3 if self.keeps else 12)
            whole = (
                step_s(len(requests), 1 + self._drafts, middle)
                + len(requests) * (each - 1) * ACCEPTED_S
            )
            self._now, made = self._now + whole * self._held_up(), made + each
            times += [self._now] * each
        return [
            StreamedAnswer(
                due_s=sent,
                sent_s=sent if len(requests) == 1 else firsts[0] - 1.0,
                first_token_s=first,
                last_token_s=(times or [first])[-1],
                token_times_s=(first, *times),
                output_tokens=1 + len(times),
                prompt_tokens=len(request.prompt),
                cached_tokens=same,
                error=self._error,
                timings={"draft_n": self._drafts * steps, "draft_n_accepted": (each - 1) * steps},
            )
            for request, first, same in zip(requests, firsts, cached, strict=True)
        ]


def launches(**about):
    """A launch of such servers, which share what was kept."""
    kept = {}
    return lambda drafts, accepts: nullcontext(
        PretendedServer(drafts=drafts, accepts=accepts, kept=kept, **about)
    )
