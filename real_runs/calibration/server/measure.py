"""How long did each step and each prompt take, round after round, until the budget is spent?

Rounds go through all shapes, because what else runs on a machine comes and goes; every finished
block is on disk, so that a calibration goes on after Ctrl-C or a kill. Leaves out what follows from
the times (`rows`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from itertools import pairwise
from statistics import median
from typing import Any

from hardware_profiles.errors import InputError
from real_runs.calibration.server.client import Client, Launch
from real_runs.calibration.server.shapes import (
    ACCEPTED_STEPS,
    DECODED,
    FRESH,
    STOP,
    RoundPlan,
    TimedSample,
    prompt_lengths,
    repeated,
)
from real_runs.recording.log import RecordingLog
from real_runs.servers.client import Completion, StreamedAnswer

PROMPTS = 0  # in the place of a context: the block of prompts
_LEAST_STEPS = 3
_FAVOUR = 50.0  # added to the logits of the sentence's tokens
_STOPPED = 6  # tokens of an answer up to the word that ends it, about
_FULL_RATIO = 0.95  # of the draft tokens that steps should have had
_SAME_STEP_RATIO = 0.3  # of a step: tokens of several requests that arrive so close belong to one


def measure(
    plan: RoundPlan,
    launch: Launch,
    log: RecordingLog,
    *,
    budget_s: float,
    tell: Callable[[str], None] = lambda text: None,
    clock: Callable[[], float] = time.monotonic,
) -> list[TimedSample]:
    """Ask for all shapes, in rounds.

    Args:
        plan: what to ask for.
        launch: starts (or finds) the server that drafts so many tokens a step.
        log: finished blocks; those that are there are not repeated.
        budget_s: wall time; the block under way is finished, and the first one is always measured.
        tell: called with what is under way.
        clock: seconds.

    Raises:
        InputError: the server does not come up, or does not answer.
    """
    started, done = clock(), {_place(entry) for entry in log.finished}
    for turn in range(plan.rounds):
        for drafts, accepts in plan.visits:
            todo = [
                c for c in _blocks(plan, drafts, accepts) if (turn, drafts, accepts, c) not in done
            ]
            if not todo:
                continue
            left = budget_s - (clock() - started)
            if left <= 0 and (turn or drafts):
                return _samples(log)
            what = f"{drafts} draft tokens{', all accepted' if accepts else ''}"
            tell(f"round {turn + 1}, {what}, {max(left, 0.0):.0f} s left")
            with launch(drafts, accepts) as client:
                for context, samples in _visit(client, plan, drafts, accepts, todo):
                    place = {
                        "round": turn,
                        "drafts": drafts,
                        "accepts": accepts,
                        "context": context,
                    }
                    log.append(place | {"samples": [asdict(entry) for entry in samples]})
    return _samples(log)


def _blocks(plan: RoundPlan, drafts: int, accepts: bool) -> tuple[int, ...]:
    if accepts:
        return plan.contexts[:1]
    return plan.contexts if drafts else (PROMPTS, *plan.contexts)


def _visit(
    client: Client, plan: RoundPlan, drafts: int, accepts: bool, todo: list[int]
) -> Iterator[tuple[int, list[TimedSample]]]:
    """The blocks of one start of a server, one after the other."""
    aligned = plan.aligned(len(client.sentence))
    contexts = dict(zip(plan.contexts, aligned.contexts, strict=False))
    if PROMPTS in todo:
        yield PROMPTS, _growing(client, aligned) if client.keeps else _fresh(client, aligned)
    for context in todo:
        if accepts:
            yield context, _accepting(client, contexts[context], drafts)
        elif context != PROMPTS and context in contexts:
            yield context, _decoding(client, contexts[context], plan.requests, drafts)


def _growing(client: Client, plan: RoundPlan) -> list[TimedSample]:
    """Prompts of one slot that grow piece by piece, kept at every context, and fresh ones in other
    slots.
    """
    samples: list[TimedSample] = []
    for length in prompt_lengths(plan.contexts):
        samples += _prompt(client, repeated(client.sentence, length), slot=0)
        if length in plan.contexts:
            client.save(0, _name(length))
    for slot, length in enumerate(FRESH, start=1):
        if slot < max(plan.requests) and length <= max(plan.contexts):
            samples += _prompt(client, repeated(client.sentence, length, shift=7 * slot), slot=slot)
    return samples


def _fresh(client: Client, plan: RoundPlan) -> list[TimedSample]:
    """Prompts that the server cannot have cached: each begins with tokens of its own."""
    samples: list[TimedSample] = []
    for length in sorted({*FRESH, *plan.contexts}):
        if length > max(plan.contexts):
            continue
        own = list(client.sentence)
        random.shuffle(own)
        samples += _prompt(client, repeated(own, length), slot=None)
    return samples


def _prompt(client: Client, prompt: tuple[int, ...], slot: int | None) -> list[TimedSample]:
    options = {} if slot is None else {"id_slot": slot}
    answer = client.ask([Completion(prompt=prompt, max_tokens=1, options=options)])[0]
    return _first_token(_whole(answer))


def _first_token(answer: StreamedAnswer) -> list[TimedSample]:
    """The time to the first token, with what was computed for it."""
    cached = answer.cached_tokens or 0
    computed = answer.prompt_tokens - cached
    if answer.first_token_s is None or computed < 1:
        return []
    part = "intake" if computed == 1 else "prompt"
    seconds = answer.first_token_s - answer.sent_s
    return [
        TimedSample(part=part, requests=1, query_tokens=computed, context=cached, seconds=seconds)
    ]


def _decoding(
    client: Client, context: int, several: tuple[int, ...], drafts: int
) -> list[TimedSample]:
    """Steps of one, two and more requests over the same number of cached tokens."""
    if client.keeps:
        for slot in range(max(several)):
            client.restore(slot, _name(context))
    samples: list[TimedSample] = []
    for requests in several:
        questions = [_decode(client, context, user, drafts) for user in range(requests)]
        answers = [_whole(reply) for reply in client.ask(questions)]
        if requests == 1 and not drafts:
            samples += [reply for reply in _first_token(answers[0]) if reply.part == "intake"]
        step = decoded(answers, drafts if client.keeps else None, context)
        samples += [] if step is None else [step]
    return samples


def _accepting(client: Client, context: int, drafts: int) -> list[TimedSample]:
    """Steps of one request whose drafts are all accepted: from the last token of a burst to that of
    the next.
    """
    client.restore(0, _name(context))
    tokens = 1 + ACCEPTED_STEPS * (1 + drafts)
    question = replace(_decode(client, context, 0, drafts), max_tokens=tokens)
    answer = _whole(client.ask([replace(question, options={**question.options, "stop": []})])[0])
    accepted = float((answer.timings or {}).get("draft_n_accepted", 0.0))
    if len(answer.token_times_s) != tokens or accepted != ACCEPTED_STEPS * drafts:
        return []
    seconds = median(b - a for a, b in pairwise(answer.token_times_s[:: 1 + drafts]))
    middle = context + (tokens - 1 - drafts) // 2
    return [
        TimedSample(
            part="accepted", requests=1, query_tokens=1 + drafts, context=middle, seconds=seconds
        )
    ]


def _decode(client: Client, context: int, user: int, drafts: int) -> Completion:
    if not client.keeps:
        return Completion(prompt=repeated(client.sentence, context, user), max_tokens=DECODED)
    # the answer keeps to the sentence, so that there always is something to copy
    options = {
        "id_slot": user,
        "stop": [STOP],
        "logit_bias": [[token, _FAVOUR] for token in set(client.sentence)],
    }
    return Completion(
        prompt=repeated(client.sentence, context), max_tokens=DECODED + drafts, options=options
    )


def decoded(answers: list[StreamedAnswer], drafts: int | None, context: int) -> TimedSample | None:
    """The step of requests that decode together; None where they did not for long enough, or drafts
    were missing.

    Steps count while all requests decode: from the last one's first token to the first one's last.

    Args:
        answers: whole ones.
        drafts: draft tokens that every step was to have; None: what the server says it drafted.
        context: cached tokens when they were sent.
    """
    arrivals = [sorted(set(answer.token_times_s)) for answer in answers]
    if any(len(times) < 2 for times in arrivals):
        return None
    usual = median(b - a for times in arrivals for a, b in pairwise(times))
    begin, end = max(times[0] for times in arrivals), min(times[-1] for times in arrivals)
    slack = _SAME_STEP_RATIO * usual
    inside = [[t for t in times if begin - slack <= t <= end + slack] for times in arrivals]
    steps = [b - a for times in inside for a, b in pairwise(times)]
    per_step = _drafted(answers)
    if len(steps) < _LEAST_STEPS * len(answers):
        return None
    if drafts is not None and per_step < _FULL_RATIO * drafts:
        return None
    tokens = 1 + (drafts if drafts is not None else round(per_step))
    middle = context + (_STOPPED if drafts is not None else DECODED) // 2
    return TimedSample(
        part="causal",
        requests=len(answers),
        query_tokens=tokens,
        context=middle,
        seconds=median(steps),
    )


def _drafted(answers: list[StreamedAnswer]) -> float:
    """Draft tokens per step of the requests, as llama.cpp states them; 0 where nothing is
    stated.
    """
    drafted = steps = 0.0
    for answer in answers:
        timings: Mapping[str, Any] = answer.timings or {}
        drafted += float(timings.get("draft_n", 0.0))
        steps += max(answer.output_tokens - 1 - float(timings.get("draft_n_accepted", 0.0)), 0.0)
    return drafted / steps if steps else 0.0


def _whole(answer: StreamedAnswer) -> StreamedAnswer:
    if answer.error is not None:
        raise InputError(f"a request was not answered: {answer.error}", key="server")
    return answer


def _name(context: int) -> str:
    return f"context-{context}.bin"


def _place(entry: Mapping[str, Any]) -> tuple[int, int, bool, int]:
    return entry["round"], entry["drafts"], entry["accepts"], entry["context"]


def _samples(log: RecordingLog) -> list[TimedSample]:
    return [TimedSample(**sample) for entry in log.finished for sample in entry["samples"]]
