"""What does one event of a streamed completion say: text, tokens, counts, its end, or an error?

llama.cpp's own events, SGLang's own, and those of OpenAI's interface, as vLLM, SGLang and
TensorRT-LLM send them. Every value is checked: a server's answer is input from outside. Leaves out the transport
(`real_runs.servers.exchange`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from real_runs.servers.exchange import BrokenAnswerError, printable

_LONGEST_SHOWN = 300
_MOST_TOKENS = 1 << 31


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """How far an answer was when one of its events was sent, as the event itself says.

    Attributes:
        tokens: generated so far.
        drafted: tokens proposed so far; None where events do not say.
        accepted: of those, accepted so far; None where events do not say.
    """

    tokens: int
    drafted: int | None = None
    accepted: int | None = None


@dataclass(kw_only=True, slots=True)
class Events:
    """What the events of one answer have said so far.

    Attributes:
        token_times_s: arrival of tokens, or of events with text where those do not say which tokens
            they hold.
        token_ids: generated, where events hold them.
        texts: pieces of the text.
        output_tokens: generated, as the server counts; None until it says.
        prompt_tokens: of the prompt.
        cached_tokens: of the prompt's, from a cache; None where it does not say.
        timings: llama.cpp's.
        marks: one for every event that says how far the answer is.
        speculation: what the engine counted of this request's drafts, under its own names; None
            until it says.
        finish_reason: why it ended; empty until it did.
        ended: the answer is whole.
    """

    token_times_s: list[float] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    output_tokens: int | None = None
    prompt_tokens: int = 0
    cached_tokens: int | None = None
    timings: Mapping[str, Any] | None = None
    marks: list[Mark] = field(default_factory=list)
    speculation: Mapping[str, Any] | None = None
    finish_reason: str = ""
    ended: bool = False


def read_event(events: Events, at_s: float, text: bytes) -> None:
    """Add one event.

    Args:
        events: what was said before; changed in place.
        at_s: when it arrived.
        text: its JSON.

    Raises:
        BrokenAnswerError: no JSON object, or an error of the server.
    """
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        event = None
    if not isinstance(event, dict):
        shown = printable(text[:_LONGEST_SHOWN].decode("utf-8", errors="replace"), _LONGEST_SHOWN)
        raise BrokenAnswerError(f"answered something else than JSON: {shown!r}")
    if (
        event.get("error")
        or event.get("object") == "error"
        or ("code" in event and "message" in event)
    ):
        error = event.get("error") or event
        reason = error.get("message", error) if isinstance(error, dict) else error
        raise BrokenAnswerError(f"the server says: {printable(str(reason), _LONGEST_SHOWN)}")
    if "choices" in event:
        _read_openai(events, at_s, event)
    elif "content" in event:
        _read_llama_cpp(events, at_s, event)
    elif isinstance(event.get("meta_info"), dict):
        _read_sglang(events, at_s, event["meta_info"])


def _read_openai(events: Events, at_s: float, event: Mapping[str, Any]) -> None:
    choices = event["choices"]
    choice = (
        choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
    )
    _add(events, at_s, choice.get("text"), choice.get("token_ids"))
    if isinstance(choice.get("finish_reason"), str):
        events.finish_reason = choice["finish_reason"]
        events.ended = True
    usage = event.get("usage")
    if isinstance(usage, dict):
        events.output_tokens = _count(usage.get("completion_tokens"))
        events.prompt_tokens = _count(usage.get("prompt_tokens")) or events.prompt_tokens
        if choice:
            _mark(events, events.output_tokens)
        details = usage.get("prompt_tokens_details")
        if isinstance(details, dict):
            events.cached_tokens = _count(details.get("cached_tokens"))
    metrics = event.get("metrics")
    if isinstance(metrics, dict) and isinstance(metrics.get("speculative_decoding"), dict):
        events.speculation = _counts(metrics["speculative_decoding"])


def _read_sglang(events: Events, at_s: float, info: Mapping[str, Any]) -> None:
    """An event of `/generate`, whose counts go up to it; its text does or does not, by the flags of
    the server, and is left out.
    """
    tokens, before = _count(info.get("completion_tokens")), events.output_tokens or 0
    if tokens is not None:
        events.token_times_s += [at_s] * max(tokens - before, 0)
        events.output_tokens = tokens
        _mark(events, tokens)
    events.prompt_tokens = _count(info.get("prompt_tokens")) or events.prompt_tokens
    events.cached_tokens = _count(info.get("cached_tokens"))
    reason = info.get("finish_reason")
    if isinstance(reason, dict):
        events.finish_reason = str(reason.get("type", ""))[:_LONGEST_SHOWN]
        events.speculation = _counts(
            {key: value for key, value in info.items() if str(key).startswith("spec_")}
        )
        events.ended = True


def _read_llama_cpp(events: Events, at_s: float, event: Mapping[str, Any]) -> None:
    if (
        not event.get("stop") or not events.token_times_s
    ):  # the last event repeats ids, and holds the rest of a text
        _add(events, at_s, event["content"], event.get("tokens"))
    timings = event.get("timings")
    if isinstance(timings, dict):  # of every event, where they were asked for
        drafted, accepted = (_count(timings.get(key, 0)) for key in ("draft_n", "draft_n_accepted"))
        _mark(events, _count(timings.get("predicted_n")), drafted, accepted)
    if not event.get("stop"):
        return
    if isinstance(timings, dict):
        events.timings = {
            str(key): value for key, value in timings.items() if isinstance(value, int | float)
        }
        events.cached_tokens = _count(timings.get("cache_n"))
    events.output_tokens = _count(event.get("tokens_predicted"))
    events.prompt_tokens = _count(event.get("tokens_evaluated")) or 0
    events.finish_reason = "length" if event.get("stop_type") == "limit" else "stop"
    events.ended = True


def _add(events: Events, at_s: float, text: object, token_ids: object) -> None:
    ids = [i for i in token_ids if type(i) is int] if isinstance(token_ids, list) else []
    events.token_ids += ids
    events.token_times_s += [at_s] * (len(ids) or bool(isinstance(text, str) and text))
    if isinstance(text, str) and text:
        events.texts.append(text)


def _mark(
    events: Events, tokens: int | None, drafted: int | None = None, accepted: int | None = None
) -> None:
    if tokens is not None:
        events.marks.append(Mark(tokens=tokens, drafted=drafted, accepted=accepted))


def _counts(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Whole numbers and lists of them; None where there are none."""
    counts = {
        str(key): entry
        for key, entry in value.items()
        if type(entry) is int
        or (isinstance(entry, list) and all(type(count) is int for count in entry))
    }
    return counts or None


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < _MOST_TOKENS else None
