"""Which recording has the acceptance that somebody states?

Simulated requests walk along a recording; for acceptance that is known as numbers one is drawn, in
which every step's length, or the rank of the right candidate on every level, is independent of all
others. Leaves out how steps of one text resemble each other, which numbers do not tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from costmodel.laws.acceptance.stated import DepthRates
from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace, Provenance
from traces.kinds.arrays import leading_hits

REQUESTS = 256
TOKENS = 1024
LONGEST_DRAFT = 4095


def drawn_recording(
    rates: DepthRates,
    draft_tokens: int,
    *,
    generator: np.random.Generator,
    requests: int = REQUESTS,
    tokens: int = TOKENS,
) -> AcceptanceTrace:
    """A recording of level 1 whose chains emit, on average, what the rates say.

    Example:
        >>> from traces.replay.walk import replay_chain
        >>> rates = DepthRates(by_depth=(0.8, 0.5))
        >>> trace = drawn_recording(rates, 2, generator=np.random.default_rng(0))
        >>> round(replay_chain(trace, 2).tokens_per_step, 1)
        2.3

    Args:
        rates: unconditional rates by depth.
        draft_tokens: most draft tokens K that will be asked of it, 1 to 4,095.
        generator: of the draws.
        requests: texts, >= 1.
        tokens: of each text, >= 1.

    Raises:
        InputError: K out of range.
    """
    if not 1 <= draft_tokens <= LONGEST_DRAFT:
        raise InputError(f"must lie in 1..{LONGEST_DRAFT}", key="draft_tokens", value=draft_tokens)
    falling = np.array(rates.at(draft_tokens))
    draws = generator.random(requests * tokens)
    # depths whose rate exceeds the draw
    accepted = draft_tokens - np.searchsorted(falling[::-1], draws, side="right")
    proposed = generator.random(draws.size) < rates.proposal_ratio
    return AcceptanceTrace(
        provenance=Provenance(notes="drawn from stated acceptance, every step by itself"),
        offsets=np.arange(requests + 1, dtype=np.int64) * tokens,
        emitted=(1 + np.where(proposed, accepted, 0)).astype(np.int16),
        drafted=None
        if rates.proposal_ratio >= 1.0
        else np.where(proposed, draft_tokens, 0).astype(np.int16),
    )


def drawn_ranks(
    vectors: Sequence[Sequence[float]],
    *,
    generator: np.random.Generator,
    requests: int = REQUESTS,
    tokens: int = TOKENS,
) -> AcceptanceTrace:
    """A recording of level 2 in which candidates are right by level and rank as the vectors say.

    Example:
        >>> trace = drawn_ranks([(0.6, 0.2), (0.5, 0.1)], generator=np.random.default_rng(0))
        >>> trace.depth, np.mean(trace.rank == 0, axis=0).round(2).tolist()
        (2, [0.6, 0.5])

    Args:
        vectors: probability that the k-th candidate of a level is the right one, given that those
            above were; one vector per level, at least one, sums at most 1.
        generator: of the draws.
        requests: texts, >= 1.
        tokens: of each text, >= 1.

    Raises:
        InputError: no vector, or one that holds no probabilities.
    """
    if not vectors or not all(
        len(row) and min(row) >= 0.0 and sum(row) <= 1.0 + 1e-6 for row in vectors
    ):
        raise InputError(
            "must be one vector of probabilities per level, sums at most 1",
            key="vectors",
            value=vectors,
        )
    offsets = np.arange(requests + 1, dtype=np.int64) * tokens
    draws = generator.random((requests * tokens, len(vectors)))
    candidate_ranks = np.stack(
        [
            np.searchsorted(np.cumsum(row), draws[:, level], side="right")
            for level, row in enumerate(vectors)
        ],
        axis=1,
    )
    ranks: NDArray[np.int16] = np.where(
        candidate_ranks < [len(row) for row in vectors], candidate_ranks, -1
    ).astype(np.int16)
    return AcceptanceTrace(
        provenance=Provenance(notes="drawn from stated acceptance, every level by itself"),
        offsets=offsets,
        emitted=(1 + leading_hits(ranks, offsets)).astype(np.int16),
        rank=ranks,
        rank_width=max(len(row) for row in vectors),
    )


def drawn_tokens(
    vector: Sequence[float],
    *,
    generator: np.random.Generator,
    requests: int = REQUESTS,
    tokens: int = TOKENS,
) -> AcceptanceTrace:
    """A recording of level 2 whose drafter ranks every token as the vector says, whatever was
    drafted before it.

    Example:
        >>> trace = drawn_tokens((0.6, 0.2), generator=np.random.default_rng(0))
        >>> np.mean(trace.rank == 1).round(1), trace.depth_invariant
        (np.float64(0.2), True)

    Args:
        vector: probability that the k-th candidate is the right one, sum at most 1.
        generator: of the draws.
        requests: texts, >= 1.
        tokens: of each text, >= 1.

    Raises:
        InputError: a vector that holds no probabilities.
    """
    drawn = drawn_ranks([vector], generator=generator, requests=requests, tokens=tokens)
    assert drawn.rank is not None
    ranks = drawn.rank[:, 0]
    emitted = 1 + leading_hits(ranks, drawn.offsets)
    return replace(drawn, rank=ranks, depth_invariant=True, emitted=emitted.astype(np.int16))
