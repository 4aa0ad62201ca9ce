"""What does a server of llama.cpp answer to prompts, token by token, when it decodes greedily?

Prompts go through the model's own chat template, one at a time, so that no other request changes
how sums are rounded. Every answer is on disk before the next is asked for. Leaves out what a
drafter makes of them (`recording`).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from hardware_profiles.errors import InputError
from real_runs.prompt_set import Prompt, PromptSet
from real_runs.recording.log import RecordingLog
from real_runs.servers.address import Address
from real_runs.servers.exchange import Patience, exchange
from real_runs.servers.identify import Server, identify

RECORDER_VERSION = "rooftree-record-server 1"
LONGEST_ANSWER = 32_000
_MOST_IDS = 1 << 20
_LONGEST_TEXT = 300
_PATIENCE = Patience(silence_s=1800.0)  # an answer comes in one piece, at its end

Tell = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerAnswer:
    """One answer.

    Attributes:
        request: the prompt's id.
        kind: its kind.
        prompt: token ids, with those of the template.
        output: generated ids, an end-of-text token included where one came.
        ended: "length" or "stop".
        drafted: tokens that the server's own drafter proposed; 0 where it has none.
        accepted: those that stood.
    """

    request: str
    kind: str
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    ended: str
    drafted: int
    accepted: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Answers:
    """Answers to a set of prompts, in its order, and what they depended on.

    Attributes:
        setup: model, file, format, context, prompts and limits.
        requests: the answers, by request.
    """

    setup: Mapping[str, Any]
    requests: tuple[ServerAnswer, ...]


def record_answers(
    address: Address,
    prompts: PromptSet,
    *,
    out: Path,
    max_new_tokens: int = 160,
    ignore_eos: bool = False,
    tell: Tell = lambda done, total: None,
) -> Answers:
    """Ask for an answer to every prompt; goes on after those that a part file in `out` holds.

    Args:
        address: a server of llama.cpp.
        prompts: what is asked.
        out: folder of the part file, which stays there.
        max_new_tokens: longest answer, 1..32000.
        ignore_eos: answers are all of that length, whatever the model says.
        tell: called with the answers there are and those wanted.

    Raises:
        InputError: another engine, a prompt that does not fit, an answer that is not what was asked
            for, or a part file of another setup.
    """
    if not 1 <= max_new_tokens <= LONGEST_ANSWER:
        raise InputError(
            f"must lie in 1..{LONGEST_ANSWER}", key="max_new_tokens", value=max_new_tokens
        )
    server = identify(address)
    setup = _setup(server, prompts) | {"max_new_tokens": max_new_tokens, "ignore_eos": ignore_eos}
    with RecordingLog(out / f"{setup['name']}--answers.part.jsonl", setup, resume=True) as log:
        answered = {entry["request"] for entry in log.finished}
        for done, prompt in enumerate(prompts.prompts, start=1):
            if prompt.id not in answered:
                log.append(_answered(address, prompt, setup))
            tell(done, len(prompts.prompts))
        entries = {entry["request"]: entry for entry in log.finished}
    return Answers(
        setup=setup, requests=tuple(_read(entries[prompt.id], prompt) for prompt in prompts.prompts)
    )


def whole_completion(
    address: Address, prompt: Sequence[int], *, max_tokens: int, options: Mapping[str, Any]
) -> tuple[tuple[int, ...], dict[str, Any]]:
    """Every token of a greedy answer, in one piece: a stream leaves out those that end inside a
    character.

    Args:
        address: a server of llama.cpp.
        prompt: token ids.
        max_tokens: longest answer.
        options: further keys of the request.

    Returns:
        The token ids, and all that the server said.

    Raises:
        InputError: not reachable, or it answers something else.
    """
    body = {
        "prompt": list(prompt),
        "n_predict": max_tokens,
        "temperature": 0,
        "return_tokens": True,
    }
    completion = ask(address, "/completion", body | dict(options))
    output = _ids(completion, "tokens", address)
    if not 1 <= len(output) <= max_tokens:
        raise InputError(
            f"must answer with 1 to {max_tokens} tokens", key=str(address), value=len(output)
        )
    return tuple(output), completion


def next_token(address: Address, ids: Sequence[int]) -> int:
    """The token that a server's model finds likeliest after others.

    Raises:
        InputError: it answers something else.
    """
    return whole_completion(
        address, ids, max_tokens=1, options={"ignore_eos": False, "cache_prompt": True}
    )[0][0]


def ask(address: Address, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The JSON object that a server answers.

    Raises:
        InputError: not reachable, or it answers something else.
    """
    reply = asyncio.run(exchange(address, path, body, patience=_PATIENCE))
    text = reply.body[: 1 << 16].decode("utf-8", "replace")[:_LONGEST_TEXT]
    if reply.error is not None or reply.status != 200:
        raise InputError(reply.error or f"HTTP {reply.status}: {text}", key=f"{address}{path}")
    try:
        content = json.loads(reply.body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InputError("must answer a JSON object", key=f"{address}{path}", value=text)
    return content


def _setup(server: Server, prompts: PromptSet) -> dict[str, Any]:
    if server.kind != "llama.cpp":
        raise InputError(
            "must be a server of llama.cpp", key=str(server.address), value=server.kind
        )
    properties = ask(server.address, "/props")
    file = PurePath(str(properties.get("model_path", ""))[:_LONGEST_TEXT].replace("\\", "/")).name
    name = (
        "".join(c if c.isalnum() or c in "._" else "-" for c in PurePath(file).stem.lower()).strip(
            "-."
        )
        or "model"
    )
    return {
        "recorder": RECORDER_VERSION,
        "name": name,
        "model_file": file,
        "context": server.context,
        "dtype": str(properties.get("model_ftype", ""))[:_LONGEST_TEXT],
        "build": str(properties.get("build_info", ""))[:_LONGEST_TEXT],
        "dataset": prompts.title,
        "dataset_sha256": prompts.sha256,
    }


def _answered(address: Address, prompt: Prompt, setup: Mapping[str, Any]) -> dict[str, Any]:
    formed = ask(
        address, "/apply-template", {"messages": [{"role": "user", "content": prompt.text}]}
    ).get("prompt")
    tokenized = ask(
        address, "/tokenize", {"content": formed, "add_special": True, "parse_special": True}
    )
    ids = _ids(tokenized, "tokens", address)
    most, context = setup["max_new_tokens"], setup["context"]
    if context is not None and len(ids) + most > context:
        rule = (
            f"prompt and answer take {len(ids) + most} tokens: start the server with --ctx-size"
            f" {len(ids) + most}"
        )
        raise InputError(rule, key=prompt.id, value=context)
    options = {"ignore_eos": setup["ignore_eos"]}
    output, completion = whole_completion(address, ids, max_tokens=most, options=options)
    timings = completion.get("timings")
    counts = timings if isinstance(timings, dict) else {}
    return {
        "request": prompt.id,
        "prompt": ids,
        "output": list(output),
        "ended": "length" if completion.get("stop_type") == "limit" else "stop",
        "drafted": _count(counts.get("draft_n")),
        "accepted": _count(counts.get("draft_n_accepted")),
    }


def _read(entry: Mapping[str, Any], prompt: Prompt) -> ServerAnswer:
    return ServerAnswer(
        request=prompt.id,
        kind=prompt.kind,
        prompt=tuple(entry["prompt"]),
        output=tuple(entry["output"]),
        ended=entry["ended"],
        drafted=entry["drafted"],
        accepted=entry["accepted"],
    )


def _ids(reply: Mapping[str, Any], key: str, address: Address) -> list[int]:
    ids = reply.get(key)
    if (
        not isinstance(ids, list)
        or len(ids) > _MOST_IDS
        or not all(type(i) is int and i >= 0 for i in ids)
    ):
        raise InputError(
            "must answer a list of token ids",
            key=f"{address} {key}",
            value=str(ids)[:_LONGEST_TEXT],
        )
    return ids


def _count(value: object) -> int:
    return value if type(value) is int and 0 <= value < 1 << 31 else 0
