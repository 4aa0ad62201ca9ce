"""How does a slot get the cache of a prompt without computing it again?

llama.cpp's server writes a slot's cache to a file and reads it back in milliseconds, where the
prompt took seconds. Files hold the target's cache alone: behind one, a draft model proposes
nothing, so prompts for it are computed. Leaves out which prompts (`recordings`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from hardware_profiles.errors import InputError
from real_runs.servers.asking import FailedRunError, slot_options, whole_answers
from real_runs.servers.client import Completion
from real_runs.servers.exchange import exchange
from real_runs.servers.identify import Server

_MOST_BYTES = 1 << 20


def cache_folder(caches: Path, slots: int) -> Path:
    """Where servers of so many slots keep prompts: files say how many there were, and fit no other
    number.
    """
    folder = caches / f"{slots}-slots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def cache_file(folder: Path, prompt: Sequence[int]) -> Path:
    """The file that holds a prompt's cache."""
    return folder / f"{hashlib.sha256(repr(tuple(prompt)).encode()).hexdigest()[:24]}.bin"


def compute(server: Server, slot: int, prompt: tuple[int, ...], folder: Path) -> float:
    """Compute a prompt, nothing of it being cached, and keep what the slot holds then.

    Returns:
        Seconds from sending it to its first token.

    Raises:
        FailedRunError: the server did not answer whole, or refuses to keep it.
    """
    options = slot_options(server, slot) | {"cache_prompt": False}
    answer = whole_answers(server, [Completion(prompt=prompt, max_tokens=1, options=options)])[0]
    _act(server, slot, "save", "n_saved", prompt, folder)
    return answer.token_times_s[0] - answer.sent_s


def restore(server: Server, slot: int, prompt: tuple[int, ...], folder: Path) -> None:
    """Give a slot the cache of a prompt, which is computed where no file holds it.

    Raises:
        FailedRunError: the server refuses, or the file holds something else.
    """
    if cache_file(folder, prompt).exists():
        _act(server, slot, "restore", "n_restored", prompt, folder)
    else:
        compute(server, slot, prompt, folder)


def _act(
    server: Server, slot: int, action: str, counted: str, prompt: Sequence[int], folder: Path
) -> None:
    path = f"/slots/{slot}?action={action}"
    try:
        exchanged = exchange(
            server.address,
            path,
            {"filename": cache_file(folder, prompt).name},
            most_bytes=_MOST_BYTES,
        )
        reply = asyncio.run(exchanged)
        answer = json.loads(reply.body)
    except (InputError, ValueError, RecursionError) as error:
        raise FailedRunError(
            f"cannot {action} a slot ({error})", key=f"{server.address}{path}"
        ) from None
    if reply.error or not isinstance(answer, dict) or answer.get(counted) != len(prompt):
        rule = f"must {action} a cache of {len(prompt)} tokens"
        raise FailedRunError(rule, key=f"{server.address}{path}", value=str(answer)[:200])
