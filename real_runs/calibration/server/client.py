"""How is a calibration's request sent: to a server that runs, or to one that is started for it?

Streamed answers give the times; llama.cpp's slots are saved and restored, so that a long prompt is
computed once and not at every start. Leaves out what is asked for (`shapes`).
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hardware_profiles.errors import InputError
from real_runs.calibration.server.shapes import SENTENCE
from real_runs.servers.address import Address
from real_runs.servers.client import Completion, StreamedAnswer
from real_runs.servers.exchange import exchange
from real_runs.servers.identify import Server, identify
from real_runs.servers.llama_cpp.launch import launched
from real_runs.servers.session import run_requests

_SENTENCE_SEED = 17
_SENTENCE_TOKENS = 25
_MOST_BYTES = 1 << 20


class Client(Protocol):
    """What a calibration needs of a server."""

    @property
    def sentence(self) -> tuple[int, ...]:
        """Token ids that prompts repeat."""
        ...

    @property
    def keeps(self) -> bool:
        """Whether slots can be saved and restored."""
        ...

    def ask(self, requests: Sequence[Completion]) -> list[StreamedAnswer]:
        """The answers to requests that are sent at the same time."""
        ...

    def save(self, slot: int, name: str) -> None:
        """Keep what a slot has cached, under a name."""
        ...

    def restore(self, slot: int, name: str) -> None:
        """Give a slot back what was kept under a name."""
        ...


Launch = Callable[
    [int, bool], AbstractContextManager[Client]
]  # draft tokens per step, and whether they are accepted


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveClient:
    """A server that answers, see `Client`.

    Attributes:
        server: which.
        sentence: token ids.
        keeps: it was started with a folder for its slots.
    """

    server: Server
    sentence: tuple[int, ...]
    keeps: bool

    def ask(self, requests: Sequence[Completion]) -> list[StreamedAnswer]:
        """See `Client`."""
        return run_requests(self.server, requests, users=len(requests))

    def save(self, slot: int, name: str) -> None:
        """See `Client`."""
        posted(self.server.address, f"/slots/{slot}?action=save", {"filename": name})

    def restore(self, slot: int, name: str) -> None:
        """See `Client`."""
        posted(self.server.address, f"/slots/{slot}?action=restore", {"filename": name})


def posted(address: Address, path: str, body: object) -> dict[str, Any]:
    """The JSON object that a server answers to one.

    Raises:
        InputError: it refuses, or answers something else.
    """
    reply = asyncio.run(exchange(address, path, body, most_bytes=_MOST_BYTES))
    try:
        value = json.loads(reply.body) if reply.error is None else None
    except (ValueError, RecursionError):
        value = None
    if reply.status != 200 or not isinstance(value, dict):
        shown = reply.error or reply.body[:200].decode("utf-8", "replace")
        raise InputError(f"answers {reply.status}", key=f"{address}{path}", value=shown)
    return value


def connected(
    url: str, *, vocabulary: int, model: str | None = None, keeps: bool = False
) -> LiveClient:
    """A client of a server that runs.

    Args:
        url: where.
        vocabulary: token ids of its model.
        model: one of several that it serves.
        keeps: it was started with a folder for its slots.

    Raises:
        InputError: nothing answers there, or something else than a server of language models.
    """
    server = identify(Address.parse(url, "server"), model=model)
    if server.kind == "llama.cpp":
        answered = posted(server.address, "/tokenize", {"content": SENTENCE}).get("tokens")
        ids = (
            [token for token in answered if type(token) is int]
            if isinstance(answered, list)
            else []
        )
    else:  # any ids will do where nothing is looked up in the prompt
        ids = random.Random(_SENTENCE_SEED).sample(
            range(vocabulary // 10, vocabulary // 2), _SENTENCE_TOKENS
        )
    if len(ids) < 8:
        raise InputError(
            "must give the token ids of a sentence",
            key=f"{server.address}/tokenize",
            value=len(ids),
        )
    return LiveClient(server=server, sentence=tuple(ids), keeps=keeps)


@contextmanager
def launched_llama_cpp(
    model: Path,
    drafts: int,
    accepts: bool,
    *,
    slots: int,
    context: int,
    folder: Path,
    threads: int,
    vocabulary: int,
) -> Iterator[LiveClient]:
    """llama.cpp's server of one draft length, for as long as the block lasts.

    Args:
        model: GGUF file.
        drafts: tokens per step that the n-gram drafter copies; 0: no speculation.
        accepts: synthetic acceptance takes all of them, else none.
        slots: requests at a time.
        context: tokens of each.
        folder: for its log and its slots.
        threads: of its computation.
        vocabulary: token ids of the model.

    Raises:
        InputError: no server is installed, or it does not come up.
    """
    kept = folder / "slots"
    kept.mkdir(parents=True, exist_ok=True)
    arguments = [
        "--model",
        str(model),
        "--ctx-size",
        str(slots * context),
        "--parallel",
        str(slots),
        "--slots",
    ]
    arguments += ["--slot-save-path", str(kept)]
    if drafts:
        sizes = {"draft-n-max": drafts, "ngram-simple-size-n": 1, "ngram-simple-size-m": drafts}
        arguments += [
            "--spec-type",
            "ngram-simple",
            "--spec-synth-rates",
            ",".join([str(int(accepts))] * drafts),
        ]
        arguments += [
            word for flag, value in sizes.items() for word in (f"--spec-{flag}", str(value))
        ]
    with launched(arguments, folder=folder, threads=threads) as running:
        yield connected(running.url, vocabulary=vocabulary, keeps=True)
