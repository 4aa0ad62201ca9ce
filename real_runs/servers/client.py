"""What does a server generate for one prompt, how many tokens is that, and when did each arrive?

Completions are streamed: llama.cpp's own `/completion`, which takes token ids, returns them and
states its timings, and OpenAI's `/v1/completions` of all others; where every event has to say how
far the answer is, SGLang's own `/generate`, which also tells verified steps. Counts are the server's (`usage`,
`timings`), never words of the text. Leaves out chat templates, and many requests at a time
(`real_runs.servers.session`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from real_runs.servers.events import Events, Mark, read_event
from real_runs.servers.exchange import BrokenAnswerError, Patience, Reply, exchange, printable
from real_runs.servers.identify import Server

_PARSED_AT_ONCE = 32  # events, before other streams are served
_LONGEST_SHOWN = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """One request.

    Attributes:
        prompt: text, or token ids, which are counted exactly.
        max_tokens: tokens to generate, >= 1.
        ignore_eos: generate all of them, whatever the model says.
        temperature: 0 is greedy.
        options: further keys of the request's JSON, passed on as they are: `{"cache_prompt":
            False}`, `{"seed": 1}`.
        marks: have every event say how far the answer is.
    """

    prompt: str | tuple[int, ...]
    max_tokens: int
    ignore_eos: bool = True
    temperature: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)
    marks: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamedAnswer:
    """What came back; times are seconds on `time.monotonic`'s clock, which processes of one machine
    share.

    Attributes:
        due_s: when the request was to be sent.
        sent_s: when it was handed to an established connection.
        first_token_s: when the first token arrived; None where none did.
        last_token_s: when the last one did.
        token_times_s: arrival of every token whose event says which it holds, else of every event
            with text: an event may hold several tokens, and llama.cpp sends none for a token that
            ends inside a character.
        output_tokens: generated, as the server counts.
        prompt_tokens: of the prompt, those from a cache included, as the server counts.
        cached_tokens: of the prompt's, taken from a cache; None where it does not say.
        text: generated; empty where SGLang's own events were asked for.
        token_ids: generated; None where the server does not return all of them, as llama.cpp does
            not in a stream where a token ends inside a character.
        timings: llama.cpp's own: prompt_ms, predicted_ms, draft_n, draft_n_accepted and more; None
            of others.
        marks: how far the answer was at each of its events, where those were asked to say so.
        speculation: what vLLM or SGLang counted of this request's drafts, under their names; None
            where they do not say.
        finish_reason: "length" or "stop"; empty where unknown.
        error: why the answer is not whole; None where it is.
    """

    due_s: float
    sent_s: float
    first_token_s: float | None = None
    last_token_s: float | None = None
    token_times_s: tuple[float, ...] = ()
    output_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    text: str = ""
    token_ids: tuple[int, ...] | None = None
    timings: Mapping[str, Any] | None = None
    marks: tuple[Mark, ...] = ()
    speculation: Mapping[str, Any] | None = None
    finish_reason: str = ""
    error: str | None = None


async def complete(
    server: Server,
    completion: Completion,
    *,
    due_s: float | None = None,
    patience: Patience | None = None,
    reading: asyncio.Lock | None = None,
) -> StreamedAnswer:
    """Send one completion and wait for its end.

    Args:
        server: from `identify`.
        completion: the request.
        due_s: when it was to be sent; None: now.
        patience: None is the usual.
        reading: held by the one stream that is parsed, where many may end at once; None: there is
            only this one.

    Returns:
        The answer; one that broke off has an `error` and what arrived until then.

    Raises:
        UnreachableError: no connection.
    """
    path, body = _request(server, completion)
    reply = await exchange(server.address, path, body, patience=patience)
    events = Events()
    error = reply.error
    try:
        async with reading or asyncio.Lock():
            await _read(reply, events)
    except BrokenAnswerError as broken:
        error = broken.message  # what a server says before it hangs up tells more than that it did
    if error is None and not events.ended:
        error = "the stream ended before the answer did"
    count = len(events.token_ids) or None if events.output_tokens is None else events.output_tokens
    if error is None and count is None:
        error = "the server does not say how many tokens it generated"
    times = events.token_times_s
    return StreamedAnswer(
        due_s=reply.sent_s if due_s is None else due_s,
        sent_s=reply.sent_s,
        first_token_s=times[0] if times else None,
        last_token_s=times[-1] if times else None,
        token_times_s=tuple(times),
        output_tokens=count or 0,
        prompt_tokens=events.prompt_tokens,
        cached_tokens=events.cached_tokens,
        text="".join(events.texts),
        token_ids=tuple(events.token_ids)
        if events.token_ids and len(events.token_ids) == (count or 0)
        else None,
        timings=events.timings,
        marks=tuple(events.marks),
        speculation=events.speculation,
        finish_reason=events.finish_reason,
        error=error,
    )


def _request(server: Server, completion: Completion) -> tuple[str, dict[str, Any]]:
    prompt = completion.prompt if isinstance(completion.prompt, str) else list(completion.prompt)
    body: dict[str, Any] = {"prompt": prompt, "temperature": completion.temperature, "stream": True}
    if completion.ignore_eos:
        body["ignore_eos"] = True
    if server.kind == "llama.cpp":
        body |= {"n_predict": completion.max_tokens, "return_tokens": True}
        if completion.marks:
            body["timings_per_token"] = True
        return "/completion", body | dict(completion.options)
    if server.kind == "sglang" and completion.marks:
        sampling = {
            "max_new_tokens": completion.max_tokens,
            "temperature": completion.temperature,
            "ignore_eos": completion.ignore_eos,
        }
        key = "text" if isinstance(prompt, str) else "input_ids"
        body = {key: prompt, "sampling_params": sampling, "stream": True}
        return "/generate", body | dict(completion.options)
    body |= {
        "model": server.model,
        "max_tokens": completion.max_tokens,
        "stream_options": {"include_usage": True},
    }
    if completion.marks:
        body["stream_options"]["continuous_usage_stats"] = True
    if server.kind == "vllm":
        body["return_token_ids"] = True
    return "/v1/completions", body | dict(completion.options)


async def _read(reply: Reply, events: Events) -> None:
    """Parse what arrived, a few events at a time, so that streams that are still under way are not
    held up.

    Raises:
        BrokenAnswerError: the server refused, or spoke something else.
    """
    if reply.status >= 300:
        raise BrokenAnswerError(f"HTTP {reply.status}: {_reason(reply.body)}")
    if reply.kind != "text/event-stream":
        if reply.pieces:
            read_event(events, reply.pieces[-1][0], reply.body)
            events.ended = True
        return
    for number, (at_s, line) in enumerate(reply.lines(), start=1):
        name, _, value = line.partition(b":")
        if name == b"data" and value.strip() == b"[DONE]":
            events.ended = True
        elif name in (b"data", b"error"):
            read_event(events, at_s, value)
        if number % _PARSED_AT_ONCE == 0:
            await asyncio.sleep(0)


def _reason(body: bytes) -> str:
    """What a refusal says, in one line."""
    text = body[: 1 << 16].decode("utf-8", errors="replace")
    try:
        reason = json.loads(text)
    except (ValueError, RecursionError):
        reason = None
    for key in ("error", "message", "detail"):
        reason = reason.get(key, reason) if isinstance(reason, dict) else reason
    return printable(text if reason is None else str(reason), _LONGEST_SHOWN) or "no reason given"
