"""Does a server draft, and with what, as far as it says before anything is asked of it?

llama.cpp's `/slots`, the counters that vLLM has only with a drafter, and SGLang's `/server_info`.
Leaves out what its drafts bring (`real_runs.servers.stepped_load`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hardware_profiles.errors import InputError
from real_runs.servers.event_loop import run
from real_runs.servers.exchange import Patience, fetch_object, fetch_text, printable
from real_runs.servers.identify import Server

_SGLANG_METHODS = {
    "EAGLE3": "eagle-3",
    "NEXTN": "mtp",
    "STANDALONE": "speculative-decoding",
    "NGRAM": "n-gram",
}
_LONGEST_NAME = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class Speculation:
    """What a server says of its drafter.

    Attributes:
        drafter: its name there; empty where it does not say.
        method: slug of the method; empty where it is not told, or may be one of several.
        is_tree: whether drafts are trees; None where it does not say.
    """

    drafter: str = ""
    method: str = ""
    is_tree: bool | None = None


def speculation_of(server: Server, *, patience: Patience | None = None) -> Speculation:
    """Ask a server whether it drafts.

    Raises:
        InputError: it says that it does not, or it is lost.
    """
    drafts, speculation = True, Speculation()
    if server.kind == "llama.cpp":
        drafts = _any_slot_drafts(run(fetch_text(server.address, "/slots", patience=patience)))
    elif server.kind == "vllm":
        counters = run(fetch_text(server.address, "/metrics", patience=patience)) or ""
        drafts = "\nvllm:" not in counters or "\nvllm:spec_decode_" in counters
    elif server.kind == "sglang":
        info = _server_info(server, patience)
        drafts = "speculative_algorithm" not in info or bool(info["speculative_algorithm"])
        speculation = _of_sglang(info)
    if not drafts:
        raise InputError(
            "runs without speculative decoding, so there is nothing to record: start it with"
            f" {server.engine.drafts_option}",
            key=str(server.address),
        )
    return speculation


def _any_slot_drafts(text: str | None) -> bool:
    """Whether a slot of llama.cpp drafts; true where it does not say."""
    try:
        slots = json.loads(text or "")
    except (ValueError, RecursionError):
        return True
    says = [
        slot["speculative"]
        for slot in (slots if isinstance(slots, list) else [])
        if isinstance(slot, dict) and "speculative" in slot
    ]
    return any(says) or not says


def _server_info(server: Server, patience: Patience | None) -> Mapping[str, Any]:
    for path in ("/server_info", "/get_server_info"):  # the second is the older name
        info = run(fetch_object(server.address, path, patience=patience))
        if info is not None:
            return info
    return {}


def _of_sglang(info: Mapping[str, Any]) -> Speculation:
    algorithm = printable(str(info.get("speculative_algorithm") or ""), _LONGEST_NAME)
    wide = info.get("speculative_eagle_topk")
    return Speculation(
        drafter=algorithm,
        method=_SGLANG_METHODS.get(algorithm.upper(), ""),
        is_tree=wide > 1 if type(wide) is int else None,
    )
