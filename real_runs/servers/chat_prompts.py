"""Which tokens does a user's turn have in the chat form of a server's own model?

llama.cpp forms a text by `/apply-template`; vLLM's `/tokenize`, and newer ones of SGLang, take
messages. Leaves out which prompts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hardware_profiles.errors import InputError
from real_runs.servers.event_loop import run
from real_runs.servers.exchange import Patience, fetch_object
from real_runs.servers.identify import Server

_MOST_IDS = 1 << 20


def chat_prompts(
    server: Server, texts: Sequence[str], *, patience: Patience | None = None
) -> list[tuple[int, ...]] | None:
    """Token ids of user turns, ready for the answer.

    Args:
        server: from `identify`.
        texts: of the users, at least one.
        patience: None is the usual.

    Returns:
        None where the server forms no chats.

    Raises:
        InputError: it is lost, or answers something else.
    """
    formed = []
    for text in texts:
        ids = _formed(server, text, patience)
        if ids is None:
            return None
        formed.append(ids)
    return formed


def _formed(server: Server, text: str, patience: Patience | None) -> tuple[int, ...] | None:
    messages = [{"role": "user", "content": text}]
    body: dict[str, Any] = {"model": server.model, "messages": messages}
    if server.kind == "llama.cpp":
        framed = _asked(server, "/apply-template", {"messages": messages}, patience)
        if framed is None or not isinstance(framed.get("prompt"), str):
            return None
        body = {"content": framed["prompt"], "add_special": True, "parse_special": True}
    answer = _asked(server, "/tokenize", body, patience)
    if answer is None:
        return None
    ids = answer.get("tokens")
    if (
        not isinstance(ids, list)
        or not 0 < len(ids) <= _MOST_IDS
        or not all(type(token) is int and token >= 0 for token in ids)
    ):
        raise InputError(
            "must answer token ids", key=f"{server.address}/tokenize", value=str(ids)[:200]
        )
    return tuple(ids)


def _asked(
    server: Server, path: str, body: Mapping[str, Any], patience: Patience | None
) -> Mapping[str, Any] | None:
    return run(fetch_object(server.address, path, dict(body), patience=patience))
