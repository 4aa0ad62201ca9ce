"""When does a generation end?

At an end-of-sequence token, at its length limit, or when it has begun to repeat itself: small models under
greedy decoding fall into loops, and a loop is the easiest text there is to draft. Leaves out stop strings.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

ENDINGS = ("eos", "length", "loop")
LOOP_REPEATS = 3
LOOP_TOKENS = 24
LONGEST_SPAN = 64


class StopRule:
    """Decides after every token whether it was the last.

    A loop is a span of up to `LONGEST_SPAN` tokens that stands `LOOP_REPEATS` times in a row and fills
    `LOOP_TOKENS` tokens or more: a ruler of dashes or three equal bullet marks are not loops.

    Args:
        eos_ids: tokens that end the text; they belong to it.
        max_new_tokens: length limit, >= 1.
    """

    def __init__(self, eos_ids: Collection[int], max_new_tokens: int) -> None:
        self._eos_ids = frozenset(eos_ids)
        self._limit = max_new_tokens
        self._tokens: list[int] = []
        self._matched = np.zeros(LONGEST_SPAN, dtype=np.int64)  # per span: tokens in a row equal to the one a span back
        spans = np.arange(1, LONGEST_SPAN + 1)
        self._needed = np.maximum(LOOP_REPEATS * spans, LOOP_TOKENS) - spans

    def after(self, token: int) -> str | None:
        """Take one more token; one of `ENDINGS` if it ends the generation, else None."""
        past = np.asarray(self._tokens[-LONGEST_SPAN:][::-1], dtype=np.int64)
        equal = np.zeros(LONGEST_SPAN, dtype=bool)
        equal[: past.size] = past == token
        self._matched = np.where(equal, self._matched + 1, 0)
        self._tokens.append(token)
        if token in self._eos_ids:
            return "eos"
        if (self._matched >= self._needed).any():
            return "loop"
        return "length" if len(self._tokens) >= self._limit else None


def looped_tokens(tokens: Sequence[int]) -> int:
    """Tokens at the end of a text that only repeat the span before them; 0 unless it ends in a loop."""
    text = np.asarray(tokens, dtype=np.int64)
    most = 0
    for span in range(1, min(LONGEST_SPAN, text.size - 1) + 1):
        differing = np.flatnonzero(text[span:] != text[:-span])
        matched = text.size - span if differing.size == 0 else text.size - span - 1 - int(differing[-1])
        if matched >= max(LOOP_REPEATS * span, LOOP_TOKENS) - span:
            most = max(most, matched)
    return most
