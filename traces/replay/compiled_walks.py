"""The compiled loops of replay: one pass over recorded positions, step by step.

Kernels only, over flat arrays. Leaves out checks and meaning: `traces.replay.walk` hands in what it
has verified.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.machine_code import cached_njit
from traces.kinds.arrays import IntArray

Counts = NDArray[np.int64]
Lengths = NDArray[np.int16]


@cached_njit(__file__, nogil=True)
def walk_chain(
    emitted: Lengths, offsets: Counts, first: int, draft_tokens: int
) -> tuple[Counts, Counts]:
    """Steps, and steps in which a draft token matched, per request; K >= 1 and every step proposes
    K.
    """
    requests = offsets.size - 1
    steps = np.zeros(requests, dtype=np.int64)
    hits = np.zeros(requests, dtype=np.int64)
    most = draft_tokens + 1
    for r in range(requests):
        i = offsets[r] + first
        end = offsets[r + 1]
        count = 0
        hit = 0
        while i < end:
            here = emitted[i]
            count += 1
            hit += here > 1
            i += min(here, most)
        steps[r] = count
        hits[r] = hit
    return steps, hits


@cached_njit(__file__, nogil=True)
def walk_limited_chain(
    emitted: Lengths, drafted: Lengths, offsets: Counts, first: int, draft_tokens: int
) -> tuple[Counts, Counts, Counts]:
    """Steps, steps with a proposal and draft tokens per request; a step proposes min(K,
    drafted).
    """
    requests = offsets.size - 1
    steps = np.zeros(requests, dtype=np.int64)
    proposed = np.zeros(requests, dtype=np.int64)
    total = np.zeros(requests, dtype=np.int64)
    for r in range(requests):
        i = offsets[r] + first
        end = offsets[r + 1]
        count = 0
        while i < end:
            draft = min(drafted[i], draft_tokens)
            count += 1
            proposed[r] += draft > 0
            total[r] += draft
            i += min(emitted[i], draft + 1)
        steps[r] = count
    return steps, proposed, total


@cached_njit(__file__, nogil=True)
def chain_starts(
    emitted: Lengths,
    drafted: Lengths,
    offsets: Counts,
    first: int,
    draft_tokens: int,
    starts: Counts,
) -> int:
    """Write the positions at which the steps of a chain start; an empty `drafted` sets no limit."""
    count = 0
    for r in range(offsets.size - 1):
        i = offsets[r] + first
        while i < offsets[r + 1]:
            draft = min(drafted[i], draft_tokens) if drafted.size else draft_tokens
            starts[count] = i
            count += 1
            i += min(emitted[i], draft + 1)
    return count


@cached_njit(__file__, nogil=True)
def walk_tree(
    rank: IntArray,
    stride: int,
    drafted: Lengths,
    offsets: Counts,
    first: int,
    table: NDArray[np.int32],
    below: Counts,
    starts: Counts,
) -> tuple[Counts, Counts, Counts, Counts]:
    """Steps, steps in which a draft token matched, steps with a proposal and draft tokens per
    request.

    `below[d]` counts the draft tokens on levels 1..d. The last two are 0 where `drafted` is empty
    (no limit). The positions at which steps start go into `starts`, unless that is empty.
    """
    requests = offsets.size - 1
    steps = np.zeros(requests, dtype=np.int64)
    hits = np.zeros(requests, dtype=np.int64)
    proposed = np.zeros(requests, dtype=np.int64)
    total = np.zeros(requests, dtype=np.int64)
    levels = below.size - 1
    limited = drafted.size > 0
    listed = starts.size > 0
    before = 0
    for r in range(requests):
        i = offsets[r] + first
        end = offsets[r + 1]
        count = 0
        hit = 0
        while i < end:
            if listed:
                starts[before + count] = i
            most = min(levels, end - i)
            if limited:
                cut = min(levels, drafted[i])
                proposed[r] += cut > 0
                total[r] += below[cut]
                most = min(most, cut)
            at = i * stride
            place = 1
            accepted = 0
            while accepted < most:
                place = table[place + rank[at + accepted]]
                if place == 0:
                    break
                accepted += 1
            count += 1
            hit += accepted > 0
            i += accepted + 1
        steps[r] = count
        hits[r] = hit
        before += count
    return steps, hits, proposed, total
