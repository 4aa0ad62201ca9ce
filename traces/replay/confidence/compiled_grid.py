"""The compiled loop of replay for many thresholds: canvases of one prompt are decoded from all
masked to full.

Distances between a canvas and the recorded states are kept up to date commit by commit, so that a
pass costs one look along the states. The rules are those of `rules`, one position at a time. Leaves
out checks and meaning: `grid` hands in what it has verified.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.machine_code import cached_njit
from traces.replay.confidence.compiled import ALONE

Ints = NDArray[np.int64]
Ids = NDArray[np.int32]

THRESHOLD, FACTOR, CAPPED, NEIGHBOURS, ENTROPY, IN_ORDER, ENTROPY_BOUND = range(7)
_SUBSET, _SUPERSET = 1, 2  # as in `compiled`
_FAR = np.int32(1 << 20)
_ALONE = np.int32(ALONE)


@cached_njit(__file__, nogil=True)
def walk_prompt(
    rule: int,
    at: NDArray[np.float64],
    block: int,
    mode: int,
    final: Ids,
    shown: Ids,
    absent: Ids,
    top_ids: Ids,
    cell: Ids,
    doubts: NDArray[np.float32],
    entropies: NDArray[np.float32],
    tokens: Ids,
    steps: Ints,
    begun: Ints,
) -> bool:
    """Decode a prompt once for every row of thresholds; False where no state has a cell that is
    asked for.

    Args:
        rule: one of those above.
        at: float64[T, 3], its numbers, as `grid` orders them.
        block: tokens of a block.
        mode: `NEAREST`, `SUBSET` or `SUPERSET` of `compiled`.
        final: int32[L, R], id of each position in each of R states; -1 where it is masked.
        shown: int32[R], positions that each state holds.
        absent: int32[L, R], 0 where a state has a cell of the position, more than any distance
            elsewhere.
        top_ids: int32[c], likeliest tokens of all cells.
        cell: int32[L, R], places of cells.
        doubts: float32[c].
        entropies: float32[c], or of no length where the rule reads none.
        tokens: int32[T, L], written.
        steps: int64[T], written: passes.
        begun: int64[T], written: blocks.
    """
    length, rows = final.shape
    distance, more, less = (
        np.empty(rows, np.int32),
        np.empty(rows, np.int32),
        np.empty(rows, np.int32),
    )
    score, places = np.empty(rows, np.int32), np.empty(block, np.int64)
    doubt, entropy = np.empty(block, np.float32), np.zeros(block, np.float32)
    masked, chosen, picked = (
        np.empty(length, np.bool_),
        np.empty(block, np.bool_),
        np.empty(block, np.int32),
    )
    for t in range(at.shape[0]):
        masked[:] = True
        distance[:], more[:], less[:] = _ALONE * shown, shown, 0
        for start in range(0, length, block):
            begun[t] += 1
            left = block
            while left > 0:
                steps[t] += 1
                count = 0
                for i in range(start, start + block):
                    if masked[i]:
                        places[count] = i
                        count += 1
                _score(distance, more if mode == _SUBSET else less, mode, score)
                if not _look(score, absent, cell, places[:count], picked):
                    return False
                for k in range(count):
                    doubt[k] = doubts[picked[k]]
                    if entropies.size:
                        entropy[k] = entropies[picked[k]]
                _commit(rule, at[t], places[:count], doubt[:count], entropy[:count], chosen[:count])
                for k in range(count):
                    if chosen[k]:
                        i, token = places[k], top_ids[picked[k]]
                        tokens[t, i], masked[i] = token, False
                        left -= 1
                        _hold(final[i], token, distance, more, less)
    return True


@cached_njit(__file__, nogil=True)
def _score(distance: Ids, wrong: Ids, mode: int, score: Ids) -> None:
    if mode in (_SUBSET, _SUPERSET):
        for r in range(len(distance)):
            score[r] = distance[r] + (_FAR if wrong[r] > 0 else np.int32(0))
    else:
        score[:] = distance


@cached_njit(__file__, nogil=True)
def _hold(final: Ids, token: int, distance: Ids, more: Ids, less: Ids) -> None:
    """The canvas holds one more token: states agree with it, differ, or are masked there."""
    for r in range(len(final)):
        masked = np.int32(final[r] < 0)
        differs = np.int32(final[r] >= 0 and final[r] != token)
        distance[r] += _ALONE * (2 * masked - np.int32(1)) + differs
        less[r] += masked
        more[r] += masked - np.int32(1)


@cached_njit(__file__, nogil=True)
def _look(score: Ids, absent: Ids, cell: Ids, places: Ints, picked: Ids) -> bool:
    """The nearest state's cell of every place, the first of those that are equally near."""
    nearest, lowest = 0, score[0]
    for r in range(len(score)):
        lowest = min(lowest, score[r])
    while score[nearest] != lowest:
        nearest += 1
    for k in range(len(places)):
        i, best = places[k], nearest
        if absent[i, nearest]:
            least = np.int32(8 * _FAR)
            column = absent[i]
            for r in range(len(score)):
                least = min(least, score[r] + column[r])
            if least >= 4 * _FAR:
                return False
            best = 0
            while score[best] + column[best] != least:
                best += 1
        picked[k] = cell[i, best]
    return True


@cached_njit(__file__, nogil=True)
def _commit(
    rule: int, at: Any, places: Ints, doubt: Any, entropy: Any, chosen: NDArray[np.bool_]
) -> None:
    """Mark what a pass commits of the open places; the surest one where the rule lets nothing
    pass.
    """
    n, some = len(places), False
    if rule in (FACTOR, ENTROPY_BOUND):
        some = _ranked(rule, at[0], doubt if rule == FACTOR else entropy, chosen)
    elif rule == CAPPED:
        some = _first(doubt, min(np.sum(doubt <= at[0]), int(at[1])), chosen)
    else:
        for k in range(n):
            if rule == THRESHOLD:
                chosen[k] = doubt[k] <= at[0]
            elif rule == ENTROPY:
                chosen[k] = entropy[k] <= at[0]
            elif rule == IN_ORDER:
                chosen[k] = entropy[k] + at[1] * (places[k] - places[0]) < at[0]
            else:
                chosen[k] = doubt[k] <= at[0] or (
                    doubt[k] <= at[1] and _near(places, doubt, k, at[0], at[2])
                )
            some = some or chosen[k]
    if not some:
        chosen[np.argmin(doubt)] = True


@cached_njit(__file__, nogil=True)
def _near(places: Ints, doubt: Any, k: int, sure: float, width: float) -> bool:
    """Whether a sure position stands within so many tokens."""
    near: bool = False
    for other in range(len(places)):
        near = near or bool(doubt[other] <= sure and abs(places[other] - places[k]) <= width)
    return near


@cached_njit(__file__, nogil=True)
def _ranked(rule: int, limit: float, values: Any, chosen: NDArray[np.bool_]) -> bool:
    """The positions of least value, as many as a factor or a bound of their sum lets pass."""
    rising, count, total = np.sort(values), 0, 0.0
    for k in range(len(rising)):
        if rule == FACTOR:
            if (k + 2) * np.float64(rising[k]) < limit:
                count = k + 1
        else:
            if total <= limit:
                count = k + 1
            total += np.float64(rising[k])
    some: bool = _first(values, count, chosen)
    return some


@cached_njit(__file__, nogil=True)
def _first(values: Any, count: int, chosen: NDArray[np.bool_]) -> bool:
    """Mark the `count` least values, the left ones of those that are equal; whether there is
    any.
    """
    chosen[:] = False
    if count == 1:
        chosen[np.argmin(values)] = True
    elif count > 1:
        order = np.argsort(values, kind="mergesort")
        for k in range(count):
            chosen[order[k]] = True
    return count > 0
