"""Which passes does llama.cpp make of one step, whose slots have drafts of different lengths?

A cache with a stream of its own for every slot is what the server has when slots are asked for by
number. Its batches are split into passes of consecutive slots that have equally many tokens: slots
with 1, 9, 1 and 1 tokens take a pass of four slots with one token and another of one slot with
eight. Leaves out what a pass takes (`predict`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One pass of a step.

    Attributes:
        slots: consecutive ones.
        query_tokens: of each of them.
        before: tokens of each that earlier passes of the step took.
    """

    slots: tuple[int, ...]
    query_tokens: int
    before: int


def split_equally(query_tokens: Sequence[int]) -> list[Part]:
    """The passes of a step.

    Args:
        query_tokens: of every slot, in the order of slots; 0 for one that has nothing to compute.

    Returns:
        Passes in their order; every token is in one of them.

    Reference: llama.cpp, `llama_batch_allocr::split_equal` with `sequential`: only consecutive
    sequences join a pass.

    Example:
        >>> [(part.slots, part.query_tokens) for part in split_equally([1, 9, 1, 1])]
        [((0, 1, 2, 3), 1), ((1,), 8)]
    """
    left, parts = list(query_tokens), list[Part]()
    while any(left):
        first = next(slot for slot, tokens in enumerate(left) if tokens)
        last = first
        while last + 1 < len(left) and left[last + 1]:
            last += 1
        slots = tuple(range(first, last + 1))
        taken = min(left[slot] for slot in slots)
        # slots of one pass may have had different numbers of tokens before it: the longest counts
        before = max(query_tokens[slot] - left[slot] for slot in slots)
        parts.append(Part(slots=slots, query_tokens=taken, before=before))
        for slot in slots:
            left[slot] -= taken
    return parts
