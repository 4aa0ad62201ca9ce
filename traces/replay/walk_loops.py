"""The loops of replay: one pass over recorded positions, step by step.

Texts of ordinary length are walked side by side, a step of all of them at a time, which loads no
compiler; longer ones by compiled loops (`compiled_walks`), as are all once those are loaded. Counts
are the same. Leaves out checks and meaning: `traces.replay.walk` hands in what it has verified.
"""

import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from traces.kinds.arrays import IntArray

Counts = NDArray[np.int64]
Lengths = NDArray[np.int16]

_COMPILED = "traces.replay.compiled_walks"
_LONGEST_TOKENS = 16_384
"""Of a text; beyond that the compiler is loaded in less time than its steps take one after
another."""


def walk_chain(
    emitted: Lengths, offsets: Counts, first: int, draft_tokens: int
) -> tuple[Counts, Counts]:
    """Steps, and steps in which a draft token matched, per request; K >= 1 and every step proposes
    K.
    """
    if compiled := _compiled(offsets):
        found: tuple[Counts, Counts] = compiled.walk_chain(emitted, offsets, first, draft_tokens)
        return found
    steps, hits = _zeros(2, offsets)
    for live, at, place in _side_by_side(offsets, first):
        here = emitted[place]
        steps[live] += 1
        hits[live] += here > 1
        at[live] += np.minimum(here, draft_tokens + 1)
    return steps, hits


def walk_limited_chain(
    emitted: Lengths, drafted: Lengths, offsets: Counts, first: int, draft_tokens: int
) -> tuple[Counts, Counts, Counts]:
    """Steps, steps with a proposal and draft tokens per request; a step proposes min(K,
    drafted).
    """
    if compiled := _compiled(offsets):
        found: tuple[Counts, Counts, Counts] = compiled.walk_limited_chain(
            emitted, drafted, offsets, first, draft_tokens
        )
        return found
    steps, proposed, total = _zeros(3, offsets)
    for live, at, place in _side_by_side(offsets, first):
        draft = np.minimum(drafted[place], draft_tokens)
        steps[live] += 1
        proposed[live] += draft > 0
        total[live] += draft
        at[live] += np.minimum(emitted[place], draft + 1)
    return steps, proposed, total


def chain_starts(
    emitted: Lengths,
    drafted: Lengths,
    offsets: Counts,
    first: int,
    draft_tokens: int,
    starts: Counts,
) -> int:
    """Write the positions at which the steps of a chain start; an empty `drafted` sets no limit."""
    if compiled := _compiled(offsets):
        return int(compiled.chain_starts(emitted, drafted, offsets, first, draft_tokens, starts))
    places = []
    for live, at, place in _side_by_side(offsets, first):
        places.append(place)
        draft = np.minimum(drafted[place], draft_tokens) if drafted.size else draft_tokens
        at[live] += np.minimum(emitted[place], draft + 1)
    return _write(places, starts)


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
    if compiled := _compiled(offsets):
        found: tuple[Counts, Counts, Counts, Counts] = compiled.walk_tree(
            rank, stride, drafted, offsets, first, table, below, starts
        )
        return found
    steps, hits, proposed, total = _zeros(4, offsets)
    levels, ends, places = below.size - 1, offsets[1:], []
    for live, at, place in _side_by_side(offsets, first):
        places.append(place)
        most = np.minimum(levels, ends[live] - place)
        if drafted.size:
            cut = np.minimum(levels, drafted[place])
            proposed[live] += cut > 0
            total[live] += below[cut]
            most = np.minimum(most, cut)
        accepted = _descend(rank, place * stride, table, most)
        steps[live] += 1
        hits[live] += accepted > 0
        at[live] += accepted + 1
    if starts.size:
        _write(places, starts)
    return steps, hits, proposed, total


def _descend(rank: IntArray, at: Counts, table: NDArray[np.int32], most: Counts) -> Counts:
    """Levels that every step accepts: from the root on, while a child carries the true token's
    rank.
    """
    accepted = np.zeros_like(at)
    node, open_ = np.ones_like(at), np.flatnonzero(most > 0)
    while open_.size:
        node[open_] = table[node[open_] + rank[at[open_] + accepted[open_]]]
        open_ = open_[node[open_] > 0]
        accepted[open_] += 1
        open_ = open_[accepted[open_] < most[open_]]
    return accepted


def _side_by_side(offsets: Counts, first: int) -> Iterator[tuple[Counts, Counts, Counts]]:
    """Texts that have not ended, where all texts stand, to be moved on by the caller, and where
    those stand.
    """
    at, ends = offsets[:-1] + first, offsets[1:]
    live = np.flatnonzero(at < ends)
    while live.size:
        yield live, at, at[live]
        live = live[at[live] < ends[live]]


def _zeros(count: int, offsets: Counts) -> tuple[Counts, ...]:
    return tuple(np.zeros(offsets.size - 1, dtype=np.int64) for _ in range(count))


def _write(places: list[Counts], starts: Counts) -> int:
    """Write positions of steps in the order of the text; how many they are."""
    found = np.sort(np.concatenate(places)) if places else np.empty(0, dtype=np.int64)
    starts[: found.size] = found
    return found.size


def _compiled(offsets: Counts) -> ModuleType | None:
    """The compiled loops, where they are loaded or worth loading."""
    if _COMPILED in sys.modules or np.diff(offsets).max(initial=0) > _LONGEST_TOKENS:
        from traces.replay import compiled_walks

        return compiled_walks
    return None
