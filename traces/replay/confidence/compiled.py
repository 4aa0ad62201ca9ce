"""The compiled loop of replay: what does the nearest recorded state say about every wanted
position?

A kernel only, over flat arrays. Leaves out checks and meaning: `traces.replay.confidence.walk`
hands in what it has verified.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.machine_code import cached_njit

Bits = NDArray[np.uint64]
Ints = NDArray[np.int64]
Ids = NDArray[np.int32]

NEAREST, SUBSET, SUPERSET = 0, 1, 2
"""Any state; first those that hold nothing which the canvas does not; first those that hold all
that it does."""
_FAR = 1 << 20  # further than any two states
# how sure a model is follows from how much it sees more than from what; 3 to 64 do as well
ALONE = 4


@cached_njit(__file__, nogil=True, inline="always")
def _count(word: Any) -> Any:
    """Bits that are set."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + (
        (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@cached_njit(__file__, nogil=True)
def _before(bits: Any, place: Any) -> Any:
    """Bits that are set below a place."""
    total = _count(bits[place // 64] & ((np.uint64(1) << np.uint64(place % 64)) - np.uint64(1)))
    for word in range(place // 64):
        total += _count(bits[word])
    return total


@cached_njit(__file__, nogil=True)
def nearest_cells(
    active: Ints,
    held: Bits,
    tokens: Ids,
    needed: NDArray[np.bool_],
    row_offsets: Ints,
    run_of_row: Ints,
    usable: NDArray[np.bool_],
    final_ids: Ids,
    revealed: Bits,
    computed: Bits,
    first_cell: Ints,
    mode: int,
    answer: Ids,
) -> None:
    """Fill `answer[p, i]` with the cell of the state nearest to canvas p among those of its prompt
    that have one.

    Distance: positions that hold a token in one of both states alone, `ALONE` each, and those that
    hold different tokens, one each.

    Args:
        active: prompts to look at.
        held: uint64[P, words], positions of every canvas that hold a token.
        tokens: int32[P, L], what they hold.
        needed: bool[P, L], positions whose cells are looked up.
        row_offsets: of `Anchors`.
        run_of_row: of `Anchors`.
        usable: bool[runs], runs whose states may be taken.
        final_ids: of `Anchors`.
        revealed: of `Anchors`.
        computed: of `Anchors`.
        first_cell: of `Anchors`.
        mode: `NEAREST`, `SUBSET` or `SUPERSET`.
        answer: int32[P, L], written; -1 where no state has a cell.
    """
    words, length = held.shape[1], needed.shape[1]
    best = np.empty(length, dtype=np.int64)
    other = np.zeros(words, dtype=np.uint64)
    places = np.empty(length, dtype=np.int64)
    for p in active:
        count = 0
        for i in range(length):
            answer[p, i] = -1
            best[i] = 4 * _FAR
            if needed[p, i]:
                places[count] = i
                count += 1
        run = -1
        for row in range(row_offsets[p], row_offsets[p + 1]):
            if not usable[run_of_row[row]]:
                continue
            if run_of_row[row] != run:
                run = run_of_row[row]
                other[:] = np.uint64(0)
                for i in range(length):
                    if final_ids[run, i] != tokens[p, i]:
                        other[i // 64] |= np.uint64(1) << np.uint64(i % 64)
            distance, more, less = 0, 0, 0
            for w in range(words):
                mine, its = held[p, w], revealed[row, w]
                more += _count(its & ~mine)
                less += _count(mine & ~its)
                distance += _count(mine & its & other[w])
            distance += ALONE * (more + less)
            # states out of the mode's order come behind all that are in it
            if (mode == SUBSET and more > 0) or (mode == SUPERSET and less > 0):
                distance += _FAR
            for k in range(count):
                i = places[k]
                if distance < best[i] and computed[row, i // 64] >> np.uint64(i % 64) & np.uint64(
                    1
                ):
                    best[i] = distance
                    answer[p, i] = first_cell[row] + _before(computed[row], i)
