"""Which tokens does a prompt of a wanted length hold?

Passages of a text that the server itself took apart, each from a place of its own, so that lengths
are exact, words are natural and prompts share no prefix but the one they are meant to share. Leaves
out what the answers mean: a passage breaks off wherever its length says.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from real_runs.prompt_set import PromptSet
from real_runs.servers.event_loop import run
from real_runs.servers.exchange import Patience, fetch_object
from real_runs.servers.identify import Server
from simulator.loop.request import Workload

_FEWEST = 64
_PLAIN_IDS = (1000, 8000)  # ASSUMED to be tokens of every vocabulary, and no special ones


def token_ids(
    server: Server, prompts: PromptSet, *, patience: Patience | None = None
) -> NDArray[np.int64] | None:
    """The tokens of all prompts in a row, as the server's tokenizer makes them.

    Returns:
        None where the server has no `/tokenize`.

    Raises:
        InputError: it answers something else, or too few tokens.
    """
    text = "\n\n".join(prompt.text for prompt in prompts.prompts)
    body = {"content": text, "prompt": text, "model": server.model, "add_special_tokens": False}
    if server.kind == "llama.cpp":
        body = {"content": text}
    answer = run(fetch_object(server.address, "/tokenize", body, patience=patience))
    if answer is None:
        return None
    tokens = answer.get("tokens")
    if (
        not isinstance(tokens, list)
        or len(tokens) < _FEWEST
        or not all(type(i) is int and i >= 0 for i in tokens)
    ):
        wanted = f"must answer at least {_FEWEST} token ids"
        raise InputError(wanted, key=f"{server.address}/tokenize", value=str(tokens)[:80])
    return np.asarray(tokens, dtype=np.int64)


def passages(
    workload: Workload, tokens: NDArray[np.int64] | None, seed: int
) -> list[tuple[int, ...]]:
    """A prompt of exactly the wanted length for every request.

    Args:
        workload: lengths, and the blocks that prompts share where they share some.
        tokens: int64[t], of a text; None: plain ids drawn at random, which tell about speed and not
            about acceptance.
        seed: of the places where passages begin; a shared block has the same tokens in every
            request.
    """
    generator = np.random.default_rng(seed)
    blocks = workload.prefix_ids or ((),) * workload.requests
    size = workload.prefix_block_tokens
    prompts = []
    for length, shared in zip(workload.prompt_tokens.tolist(), blocks, strict=True):
        parts = [
            _passage(tokens, size, np.random.default_rng((seed, 1, block)))
            for block in _unsigned(shared)
        ]
        parts.append(_passage(tokens, max(length - size * len(parts), 0), generator))
        prompts.append(tuple(np.concatenate(parts)[:length].tolist()))
    return prompts


def _passage(
    tokens: NDArray[np.int64] | None, length: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    if tokens is None:
        return generator.integers(*_PLAIN_IDS, size=length)
    start = int(generator.integers(tokens.size))
    return np.asarray(tokens[(start + np.arange(length)) % tokens.size])


def _unsigned(blocks: Sequence[int]) -> list[int]:
    return [block % (1 << 64) for block in blocks]
