"""When does a generation end?

At an end-of-sequence token, at its length limit, or when it has begun to repeat itself: small
models under greedy decoding fall into loops, and a loop is the easiest text there is to draft.
Leaves out stop strings.
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

    A loop is a span of up to `LONGEST_SPAN` tokens that stands `LOOP_REPEATS` times in a row and
    fills `LOOP_TOKENS` tokens or more: a ruler of dashes or three equal bullet marks are not loops.

    Args:
        eos_ids: tokens that end the text; they belong to it.
        max_new_tokens: length limit, >= 1.
    """

    def __init__(self, eos_ids: Collection[int], max_new_tokens: int) -> None:
        self._eos_ids = frozenset(eos_ids)
        self._limit = max_new_tokens
        self._count = 0
        self._places: dict[
            int, list[int]
        ] = {}  # by token, where it stood among the last LONGEST_SPAN, latest last
        self._matched: dict[
            int, int
        ] = {}  # by span, tokens in a row equal to the one a span back; 0 left out

    def take(self, tokens: Sequence[int]) -> tuple[Sequence[int], str | None]:
        """The tokens up to the one that ends the generation, and what `after` says of the last of
        them.
        """
        for count, token in enumerate(tokens, start=1):
            ended = self.after(token)
            if ended is not None:
                return tokens[:count], ended
        return tokens, None

    def after(self, token: int) -> str | None:
        """Take one more token; one of `ENDINGS` if it ends the generation, else None."""
        here, self._count = self._count, self._count + 1
        places = [place for place in self._places.get(token, ()) if here - place <= LONGEST_SPAN]
        self._matched = {here - place: self._matched.get(here - place, 0) + 1 for place in places}
        self._places[token] = [*places, here]
        if token in self._eos_ids:
            return "eos"
        if any(matched >= _needed(span) for span, matched in self._matched.items()):
            return "loop"
        return "length" if self._count >= self._limit else None


def _needed(span: int) -> int:
    """Tokens in a row that equal the one a span back where a loop closes."""
    return max(LOOP_REPEATS * span, LOOP_TOKENS) - span


def looped_tokens(tokens: Sequence[int]) -> int:
    """Tokens at the end of a text that only repeat the span before them; 0 unless it ends in a
    loop.
    """
    text = np.asarray(tokens, dtype=np.int64)
    most = 0
    for span in range(1, min(LONGEST_SPAN, text.size - 1) + 1):
        differing = np.flatnonzero(text[span:] != text[:-span])
        matched = (
            text.size - span if differing.size == 0 else text.size - span - 1 - int(differing[-1])
        )
        if matched >= _needed(span):
            most = max(most, matched)
    return most
