"""What would prompt lookup propose?

The longest n-gram of the last known tokens is looked up in the text so far; what followed its most
recent earlier occurrence is the draft. Leaves out suffix trees and corpora beyond the request
itself.

Reference: Saxena, Prompt Lookup Decoding, 2023 (there the first match wins, here the most recent).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError

NGRAM_SIZES = (3, 2, 1)
MOST_DRAFT_TOKENS = 20


class TextIndex(Protocol):
    """What proposes from the text so far."""

    def extend(self, tokens: Sequence[int]) -> None:
        """Append known tokens."""

    def propose(self, most: int) -> list[int]:
        """Up to `most` tokens."""


class PromptLookup:
    """An index of the n-grams of one growing text.

    Args:
        sizes: n-gram sizes, longest first.

    Raises:
        InputError: no size, a size below 1, or sizes that do not descend.
    """

    def __init__(self, sizes: Sequence[int] = NGRAM_SIZES) -> None:
        if not sizes or min(sizes) < 1 or list(sizes) != sorted(set(sizes), reverse=True):
            raise InputError("must descend and be >= 1", key="ngram_sizes", value=tuple(sizes))
        self._sizes = tuple(sizes)
        self._tokens: list[int] = []
        # where the text went on after an n-gram; the n-gram at the very end is not in it yet
        self._continues: dict[tuple[int, ...], int] = {}

    def extend(self, tokens: Sequence[int]) -> None:
        """Append known tokens."""
        for token in tokens:
            end = len(self._tokens)
            for size in self._sizes:
                if size <= end:
                    self._continues[tuple(self._tokens[end - size :])] = end
            self._tokens.append(token)

    @property
    def length(self) -> int:
        """Known tokens."""
        return len(self._tokens)

    def propose(self, most: int, drafts: Sequence[int] = ()) -> list[int]:
        """Up to `most` tokens; none where no n-gram occurred before.

        Args:
            most: tokens.
            drafts: tokens behind the known text that are not known yet: they are looked up with,
                and not among.
        """
        longest = self._sizes[0]
        end = (*self._tokens[-longest:], *drafts)[-longest:]
        for size in self._sizes:
            if size <= len(end):
                place = self._continues.get(tuple(end[-size:]))
                if place is not None:
                    return self._tokens[place : place + most]
        return []

    def __call__(self, prefix: Sequence[int], cache: object, most: int) -> list[int]:
        """Propose up to `most` tokens after `prefix`, which must extend the prefix of the call
        before: the form `speculate` calls.
        """
        self.extend(prefix[len(self._tokens) :])
        return self.propose(most)


@dataclass(frozen=True, kw_only=True, slots=True)
class LookupLengths:
    """What steps do that start at the n output positions.

    Attributes:
        drafted: tokens proposed, int16[n].
        emitted: tokens emitted, int16[n], cut at the end of the text.
    """

    drafted: NDArray[np.int16]
    emitted: NDArray[np.int16]


def lookup_lengths(
    prompt: Sequence[int],
    output: Sequence[int],
    *,
    sizes: Sequence[int] = NGRAM_SIZES,
    most: int = MOST_DRAFT_TOKENS,
) -> LookupLengths:
    """What prompt lookup would have done at every position of a finished text.

    Args:
        prompt: its ids.
        output: the n generated ids.
        sizes: n-gram sizes, longest first.
        most: longest proposal; any K up to it replays exactly.

    Returns:
        `emitted` is the agreeing run plus one, cut at the end of the text.
    """
    return index_lengths(PromptLookup(sizes), prompt, output, most=most)


def index_lengths(
    index: TextIndex, prompt: Sequence[int], output: Sequence[int], *, most: int
) -> LookupLengths:
    """What an index of the text so far would have proposed at every position of a finished one.

    Args:
        index: of nothing yet.
        prompt: its ids.
        output: the n generated ids.
        most: longest proposal.

    Returns:
        `emitted` is the agreeing run plus one, cut at the end of the text.
    """
    index.extend(prompt)
    drafted = np.zeros(len(output), dtype=np.int16)
    emitted = np.ones(len(output), dtype=np.int16)
    for position, token in enumerate(output):
        drafts, left = index.propose(most), output[position:]
        agreeing = [draft == right for draft, right in zip(drafts, left, strict=False)]
        run = agreeing.index(False) if False in agreeing else len(agreeing)
        drafted[position] = len(drafts)
        emitted[position] = min(run + 1, len(left))
        index.extend([token])
    return LookupLengths(drafted=drafted, emitted=emitted)
