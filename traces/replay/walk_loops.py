"""The loops of replay: which steps are taken over recorded positions, and what they count.

From every position follows where the next step starts. From the positions at which texts start, the
1st, 2nd, 4th, 8th next positions and so on reach all steps, so that a text of a million tokens
takes twenty passes of numpy and no compiler. Leaves out checks and meaning: `traces.replay.walk`
hands in what it has verified.
"""

import numpy as np
from numpy.typing import NDArray

from traces.kinds.arrays import IntArray

Counts = NDArray[np.int64]
Lengths = NDArray[np.int16]


def walk_chain(
    emitted: Lengths, offsets: Counts, first: int, draft_tokens: int
) -> tuple[Counts, Counts]:
    """Steps, and steps in which a draft token matched, per request; K >= 1 and every step proposes
    K.

    Args:
        emitted: int16[n], tokens that a step emits where it starts, bonus included.
        offsets: int64[r + 1], where every request begins; the last is n.
        first: position at which the first step of a request starts.
        draft_tokens: K.

    Returns:
        Two int64[r].
    """
    starts = _starts(np.minimum(emitted, np.int64(draft_tokens + 1)), offsets, first)
    return _counts(starts, offsets), _sums(emitted[starts] > 1, starts, offsets)


def walk_limited_chain(
    emitted: Lengths, drafted: Lengths, offsets: Counts, first: int, draft_tokens: int
) -> tuple[Counts, Counts, Counts]:
    """Steps, steps with a proposal and draft tokens per request; a step proposes min(K,
    drafted).

    Args:
        emitted: int16[n], tokens that a step emits where it starts, bonus included.
        drafted: int16[n], draft tokens that the drafter has there.
        offsets: int64[r + 1], where every request begins; the last is n.
        first: position at which the first step of a request starts.
        draft_tokens: K, >= 1.

    Returns:
        Three int64[r].
    """
    draft = np.minimum(drafted, np.int64(draft_tokens))
    starts = _starts(np.minimum(emitted, draft + 1), offsets, first)
    taken = draft[starts]
    return (
        _counts(starts, offsets),
        _sums(taken > 0, starts, offsets),
        _sums(taken, starts, offsets),
    )


def chain_starts(
    emitted: Lengths, drafted: Lengths, offsets: Counts, first: int, draft_tokens: int
) -> Counts:
    """The positions at which the steps of a chain start; an empty `drafted` sets no limit.

    Args:
        emitted: int16[n], tokens that a step emits where it starts, bonus included.
        drafted: int16[n], draft tokens that the drafter has there.
        offsets: int64[r + 1], where every request begins; the last is n.
        first: position at which the first step of a request starts.
        draft_tokens: K, >= 1.

    Returns:
        int64[steps], rising.
    """
    most = np.int64(draft_tokens)
    draft = np.minimum(drafted, most) if drafted.size else most
    return _starts(np.minimum(emitted, draft + 1), offsets, first)


def walk_tree(
    rank: IntArray,
    stride: int,
    drafted: Lengths,
    offsets: Counts,
    first: int,
    table: NDArray[np.int32],
    below: Counts,
) -> tuple[Counts, Counts, Counts, Counts, Counts]:
    """Steps, steps in which a draft token matched, steps with a proposal and draft tokens per
    request; and the positions at which steps start.

    `below[d]` counts the draft tokens on levels 1..d. Proposals and draft tokens are 0 where
    `drafted` is empty (no limit).

    Args:
        rank: int[n * stride], rank of the true token at every draft level.
        stride: draft levels recorded.
        drafted: int16[n], levels that the drafter has there.
        offsets: int64[r + 1], where every request begins; the last is n.
        first: position at which the first step of a request starts.
        table: of `traces.replay.walk.child_offsets`.
        below: int64[D + 1], of the tree.

    Returns:
        Four int64[r], and int64[steps].
    """
    positions = np.arange(offsets[-1])
    levels = below.size - 1
    most = np.minimum(levels, _ends(offsets) - positions)
    cut = np.minimum(levels, drafted)
    if drafted.size:
        most = np.minimum(most, cut)
    accepted = _descend(rank, positions * stride, table, most)
    starts = _starts(accepted + 1, offsets, first)
    steps, hits = _counts(starts, offsets), _sums(accepted[starts] > 0, starts, offsets)
    if not drafted.size:
        return steps, hits, np.zeros_like(steps), np.zeros_like(steps), starts
    taken = cut[starts]
    proposed, total = _sums(taken > 0, starts, offsets), _sums(below[taken], starts, offsets)
    return steps, hits, proposed, total, starts


def _descend(rank: IntArray, at: Counts, table: NDArray[np.int32], most: Counts) -> Counts:
    """Levels that every step accepts: from the root on, while a child carries the true token's
    rank.
    """
    accepted = np.zeros_like(at)
    live = np.flatnonzero(most > 0)
    node = np.ones(live.size, dtype=np.int32)
    level = 0
    while live.size:
        node = table[node + rank[at[live] + level]]
        level += 1
        accepted[live[node > 0]] = level
        deeper = (node > 0) & (most[live] > level)
        live, node = live[deeper], node[deeper]
    return accepted


def _starts(lengths: IntArray | Counts, offsets: Counts, first: int) -> Counts:
    """Where steps start, increasing, if a step at a position were as long as `lengths` says."""
    end = int(offsets[-1])
    following = np.arange(end + 1)
    following[:-1] += lengths
    following[:-1][following[:-1] >= _ends(offsets)] = end  # past a text's last position
    begin = offsets[:-1] + first
    reached = begin[begin < offsets[1:]]
    is_start = np.zeros(end, dtype=np.bool_)
    while reached.size:
        is_start[reached] = True
        reached = np.flatnonzero(is_start)
        further = following[reached]
        further = further[further < end]
        if not further.size:
            break
        reached = further
        following = following[following]
    return np.flatnonzero(is_start)


def _ends(offsets: Counts) -> Counts:
    """Where the text of every position ends."""
    return np.repeat(offsets[1:], np.diff(offsets))


def _counts(starts: Counts, offsets: Counts) -> Counts:
    """Steps of every text."""
    return np.diff(np.searchsorted(starts, offsets))


def _sums(values: NDArray[np.generic], starts: Counts, offsets: Counts) -> Counts:
    """Sums over the steps of every text."""
    total = np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
    sums: Counts = np.diff(total[np.searchsorted(starts, offsets)])
    return sums
