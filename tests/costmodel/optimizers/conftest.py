"""Recordings made by chance, with and without memory along the text, for every test in this
folder."""

import numpy as np
import pytest

from traces.kinds.acceptance import AcceptanceTrace


def _trace_of(rank, lengths, width, **fields):
    """A level-2 recording from ranks [n] or [n, depth], with the emitted lengths that follow from
    them."""
    rank = np.asarray(rank, dtype=np.int16)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    emitted = np.ones(len(rank), dtype=np.int16)
    for end, start in zip(offsets[1:], offsets[:-1], strict=True):
        for i in range(start, end):
            ahead = rank[i:end] if rank.ndim == 1 else rank[i, : end - i]
            misses = np.flatnonzero(ahead)
            emitted[i] += misses[0] if misses.size else ahead.size
    return AcceptanceTrace(
        offsets=offsets,
        emitted=emitted,
        rank=rank,
        rank_width=width,
        depth_invariant=rank.ndim == 1,
        **fields,
    )


def _correlated_trace(seed, requests=24, tokens=220, width=8):
    """Ranks that depend on the ranks before them.

    Hard text until a second candidate proves right: the word was begun another way, and what
    follows goes on as expected for a run of heavy-tailed length. The first candidate is likely
    overall, unlikely at first.
    """
    generator = np.random.default_rng(seed)
    candidates = [0, 1, 2, 3, -1]
    hard, opened = [0.15, 0.40, 0.12, 0.05, 0.28], [0.95, 0.02, 0.01, 0.00, 0.02]
    ranks = np.empty(requests * tokens, dtype=np.int16)
    for i in range(ranks.size):
        if i % tokens == 0:
            going = 0
        ranks[i] = generator.choice(candidates, p=opened if going else hard)
        going = max(0, going - 1)
        if ranks[i] == 1:
            going = 1 + int(4 * (generator.pareto(1.5) + 1))
    kinds = tuple(("chat", "code", "chat")[r % 3] for r in range(requests))
    return _trace_of(ranks, [tokens] * requests, width, prompt_kinds=kinds)


@pytest.fixture(scope="session")
def trace_of():
    """Build a level-2 recording: (ranks, lengths, width, **fields)."""
    return _trace_of


@pytest.fixture(scope="session")
def correlated_trace():
    """Build a recording with memory: (seed, requests=24, tokens=220, width=8)."""
    return _correlated_trace
