"""What does a server take to answer some prompts at the same time, and what did its drafts bring?

Requests are sent together and timed where their tokens arrive. Decoding counts from the moment at
which all of them decode, so that prompts are in no number of it. Leaves out starting servers
(`real_runs.validation.servers`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from hardware_profiles.errors import InputError
from real_runs.servers.client import Completion, StreamedAnswer
from real_runs.servers.identify import Server
from real_runs.servers.session import run_requests

Clock = Callable[[], float]
_PERIOD = 24  # tokens of a repeating prompt before it repeats: a lookup proposes one less at most
_FIRST_TOKEN = 1000  # beyond the ids that vocabularies keep for themselves


class FailedRunError(InputError):
    """A server that did not answer a run whole: it died, refused, or counted otherwise."""


def asked_together(
    server: Server,
    prompts: Sequence[str | tuple[int, ...]],
    *,
    max_tokens: int,
    cpu_s: Clock | None = None,
) -> dict[str, Any]:
    """Send prompts at the same time, one to every slot, and time them.

    Args:
        server: from `identify`, idle.
        prompts: texts or token ids.
        max_tokens: of every answer, at least 2.
        cpu_s: seconds of processor time that the server has taken; None where it cannot be known,
            and wall time counts.

    Returns:
        JSON values of `Run`, but for its place and its probe.

    Raises:
        FailedRunError: an answer that is not whole, or of another length, or no moment at which all
            requests decode.
    """
    began_cpu_s = cpu_s() if cpu_s else 0.0
    requests = [
        Completion(prompt=prompt, max_tokens=max_tokens, options=slot_options(server, slot))
        for slot, prompt in enumerate(prompts)
    ]
    answers = whole_answers(server, requests)
    used_cpu_s = cpu_s() - began_cpu_s if cpu_s else 0.0
    firsts, lasts = (
        [answer.token_times_s[0] for answer in answers],
        [answer.token_times_s[-1] for answer in answers],
    )
    began, ended = max(firsts), max(lasts)
    tokens = sum(_tokens_after(answer, began) for answer in answers)
    if ended <= began or tokens < 1:
        rule = (
            "ended an answer before another one began; ask for longer answers, or for fewer at a"
            " time"
        )
        raise FailedRunError(rule, key=str(server.address))
    decode_s = ended - began
    steps = [_steps(answer) for answer in answers]
    decoded_tokens = sum(answer.output_tokens - 1 for answer in answers)
    whole_s = max(ended - min(answer.sent_s for answer in answers), decode_s)
    return {
        "tokens": round(tokens),
        "steps": max(steps),
        "request_steps": round(sum(steps) * tokens / decoded_tokens),
        "drafted_tokens": sum(_timed(answer, "draft_n") for answer in answers),
        "counted": [
            [own, _timed(answer, "draft_n")] for own, answer in zip(steps, answers, strict=True)
        ],
        "decode_s": decode_s,
        "cpu_s": used_cpu_s * decode_s / whole_s if cpu_s else decode_s,
        "draft_s": 0.0,
        "verify_s": 0.0,
        "passes": [],
        "prompt_tokens": fmean(answer.prompt_tokens for answer in answers),
        "output_sha256": (
            hashlib.sha256(
                repr([answer.token_ids or answer.text for answer in answers]).encode()
            ).hexdigest()
        ),
        "ttft_s": fmean(
            first - answer.sent_s for first, answer in zip(firsts, answers, strict=True)
        ),
        "tpot_s": fmean(
            (last - first) / (answer.output_tokens - 1)
            for first, last, answer in zip(firsts, lasts, answers, strict=True)
        ),
    }


def repeating_prompt(slot: int, tokens: int) -> tuple[int, ...]:
    """Token ids [tokens] of a prompt that repeats, another one for every slot >= 0."""
    period = [_FIRST_TOKEN + slot * _PERIOD + place for place in range(_PERIOD)]
    return tuple((period * tokens)[:tokens])


def slot_options(server: Server, slot: int) -> dict[str, Any]:
    """Fields of a request that goes to one slot and takes what that has cached; none for servers
    without slots.
    """
    return {"id_slot": slot, "cache_prompt": True} if server.kind == "llama.cpp" else {}


def whole_answers(server: Server, requests: Sequence[Completion]) -> list[StreamedAnswer]:
    """Answers to requests that are sent at the same time.

    Raises:
        FailedRunError: one that is not whole, or not as long as was asked.
    """
    try:
        answers = run_requests(server, requests, users=len(requests))
    except InputError as error:
        raise FailedRunError(error.message, key=str(server.address)) from None
    for request, answer in zip(requests, answers, strict=True):
        if answer.error is not None or not answer.token_times_s:
            raise FailedRunError(answer.error or "no token arrived", key=str(server.address))
        if answer.output_tokens != request.max_tokens:
            rule = (
                f"answers with {answer.output_tokens} tokens where {request.max_tokens} were"
                " asked for"
            )
            raise FailedRunError(rule, key=str(server.address))
    return answers


def _tokens_after(answer: StreamedAnswer, moment_s: float) -> float:
    """Tokens that arrived after a moment; where events hold several tokens, in proportion to
    events.
    """
    times = answer.token_times_s
    return answer.output_tokens * sum(time_s > moment_s for time_s in times) / len(times)


def _steps(answer: StreamedAnswer) -> int:
    """Steps after the first token: tokens without those of accepted drafts, or events where none
    are counted.
    """
    if answer.timings is None:
        return len(set(answer.token_times_s)) - 1
    return answer.output_tokens - 1 - _timed(answer, "draft_n_accepted")


def _timed(answer: StreamedAnswer, key: str) -> int:
    """A count of the server's own timings; 0 where it states none."""
    value = (answer.timings or {}).get(key, 0)
    return value if type(value) is int and 0 <= value <= answer.output_tokens * 64 else 0
