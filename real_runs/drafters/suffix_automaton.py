"""What would suffix decoding propose from the request's own text?

The longest suffix of the known tokens that occurred before is found by a suffix automaton, which
grows with the text; what followed its most recent earlier occurrence is the draft. Leaves out a
corpus of other requests and drafts that branch.

Reference: Blumer et al., The smallest automaton recognizing the subwords of a text, 1985 (the
automaton); Hu et al., SAM Decoding, arXiv 2411.10666, sec. 3 (drafting from it; there the first
occurrence wins).
"""

from __future__ import annotations

from collections.abc import Sequence

from hardware_profiles.errors import InputError
from real_runs.drafters.prompt_lookup import LookupLengths, index_lengths

LEAST_MATCH = 2
MOST_DRAFT_TOKENS = 20
_UNSEEN = -1


class SuffixAutomaton:
    """The suffix automaton of one growing text, with the place where its end last stood before.

    Growing it costs O(1) per token, amortised. Where a match goes on, its most recent occurrence
    goes on too: that costs O(1). Where it breaks, the places of the states that changed since the
    last break are brought up to date; a state is visited once per break at most.

    Args:
        least_match: shortest suffix that is worth a proposal, in tokens.

    Raises:
        InputError: a least match below 1.

    Attributes:
        matched: length of the longest suffix that occurred before; 0 where none did.

    Example:
        >>> text = SuffixAutomaton(least_match=2)
        >>> text.extend([1, 2, 3, 4, 1, 2])
        >>> text.matched, text.propose(3)
        (2, [3, 4, 1])
    """

    def __init__(self, *, least_match: int = LEAST_MATCH) -> None:
        if least_match < 1:
            raise InputError("must be >= 1", key="least_match", value=least_match)
        self._least_match = least_match
        self._tokens: list[int] = []
        # a state stands for all strings that end at the same places; state 0 is the empty string
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]  # state of the longest suffix that ends at more places
        self._longest = [0]  # length of the longest string of a state
        self._recent = [_UNSEEN]  # where it last ended, without the prefixes in _stale
        self._whole: list[int] = []  # state of every prefix of the text
        self._stale = 0  # the places of prefixes from here on are not yet noted
        self._match_end = _UNSEEN
        self.matched = 0

    def extend(self, tokens: Sequence[int]) -> None:
        """Append known tokens."""
        for token in tokens:
            self._append(token)
            self._match(token)

    def propose(self, most: int) -> list[int]:
        """Up to `most` tokens; none where the longest match is too short."""
        if self.matched < self._least_match:
            return []
        return self._tokens[self._match_end + 1 : self._match_end + 1 + most]

    def __call__(self, prefix: Sequence[int], cache: object, most: int) -> list[int]:
        """Propose up to `most` tokens after `prefix`, which must extend the prefix of the call
        before: the form `speculate` calls.
        """
        self.extend(prefix[len(self._tokens) :])
        return self.propose(most)

    def _append(self, token: int) -> None:
        """Grow the automaton by one token."""
        before = self._whole[-1] if self._whole else 0
        whole = self._new_state(len(self._tokens) + 1, {}, _UNSEEN)
        while before != -1 and token not in self._next[before]:
            self._next[before][token] = whole
            before = self._link[before]
        self._link[whole] = 0 if before == -1 else self._suffix_state(before, token)
        self._tokens.append(token)
        self._whole.append(whole)

    def _suffix_state(self, before: int, token: int) -> int:
        """The state of `before`'s longest string and `token`, split off where the state holds
        longer ones.
        """
        state = self._next[before][token]
        length = self._longest[before] + 1
        if self._longest[state] == length:
            return state
        split = self._new_state(length, dict(self._next[state]), self._recent[state])
        self._link[split], self._link[state] = self._link[state], split
        while before != -1 and self._next[before].get(token) == state:
            self._next[before][token] = split
            before = self._link[before]
        return split

    def _new_state(self, longest: int, following: dict[int, int], recent: int) -> int:
        self._longest.append(longest)
        self._next.append(following)
        self._recent.append(recent)
        self._link.append(0)
        return len(self._link) - 1

    def _match(self, token: int) -> None:
        """Find the longest suffix that occurred before, and where it last ended."""
        state = self._link[self._whole[-1]]
        # every earlier occurrence of the longer match is an occurrence of the shorter one, one
        # token later
        if self.matched and self._tokens[self._match_end + 1] == token:
            self._match_end += 1
        else:
            self._note_places(len(self._tokens) - 1)
            self._match_end = self._recent[state]
        self.matched = self._longest[state]

    def _note_places(self, stop: int) -> None:
        """Note the ends of the prefixes that are stale, the last first: what one has noted is above
        the rest.
        """
        for end in range(stop - 1, self._stale - 1, -1):
            state = self._whole[end]
            while state > 0 and self._recent[state] < self._stale:
                self._recent[state] = end
                state = self._link[state]
        self._stale = stop


def suffix_lengths(
    prompt: Sequence[int],
    output: Sequence[int],
    *,
    least_match: int = LEAST_MATCH,
    most: int = MOST_DRAFT_TOKENS,
) -> LookupLengths:
    """What the suffix automaton would have drafted at every position of a finished text.

    Args:
        prompt: its ids.
        output: the n generated ids.
        least_match: shortest suffix that is worth a proposal.
        most: longest proposal; any K up to it replays exactly.

    Returns:
        `drafted` and `emitted`, int16[n]; `emitted` is the agreeing run plus one, cut at the end of
        the text.
    """
    text = SuffixAutomaton(least_match=least_match)
    return index_lengths(text, prompt, output, most=most)
