"""What does a step verify whose draft was made while the one before was verified, for several
outcomes of it?

The loop at batch 1, on one device and therefore in turn: before a draft is verified, drafts are made
behind every length of it that may be accepted, one behind each of the drafter's likeliest tokens
there. Which of them is used depends on the outcome alone, so that steps, drafts and text are those
of two devices that work at once. Leaves out the time that this would save.

Reference: Kumar, Dao, May 2026, "Speculative Speculative Decoding" (arXiv:2603.03251).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hardware_profiles.errors import InputError
from real_runs.decoding.drafting import NodeReader, watcher_of
from real_runs.decoding.dynamic_tree import DynamicPolicy, Growth
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import DraftedTokens, SpeculativeRun, decode, matching
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama


@dataclass(frozen=True, kw_only=True, slots=True)
class OutcomeRun:
    """One text decoded with drafts for outcomes.

    Attributes:
        run: the text and its steps.
        ready: of every step, whether its draft had been made for the outcome of the step before.
    """

    run: SpeculativeRun
    ready: tuple[bool, ...]


class _Outcomes:
    """Drafts by the tokens that a verification may emit."""

    def __init__(self, reader: NodeReader, draft_tokens: int, fan_out: int, *, waits: bool) -> None:
        self._reader, self._length, self._fan_out = reader, draft_tokens, fan_out
        self._waits = waits
        self._policy = DynamicPolicy(width=fan_out + 1)
        self._drafts: dict[tuple[int, ...], list[int]] = {}
        self._known = 0
        self.ready: list[bool] = []

    def draft(self, prefix: Sequence[int], cache: KVCache) -> DraftedTokens:
        """The chain to verify behind a prefix; drafts for its outcomes are made meanwhile."""
        growth = Growth(self._reader, prefix, cache, self._policy)
        drafted = self._drafts.get(tuple(prefix[self._known :]))
        self.ready.append(drafted is not None)
        if drafted is None:
            drafted = self._chains(growth, [0])[0] if self._waits else []
        self._known = len(prefix)
        self._foresee(growth, drafted)
        return DraftedTokens(tokens=[prefix[-1], *drafted])

    def _foresee(self, growth: Growth, drafted: Sequence[int]) -> None:
        """Draft behind the likeliest tokens at every length of a draft that may be accepted."""
        node, guesses = 0, list[int]()
        for length in range(len(drafted) + 1):
            following = drafted[length] if length < len(drafted) else None
            others = [n for n in growth.below(node) if growth.tokens[n] != following]
            guesses += others[: self._fan_out]
            if following is not None:
                node = next(n for n in growth.below(node) if growth.tokens[n] == following)
                if not growth.below(node):
                    growth.read([node])
        chains = self._chains(growth, guesses)
        self._drafts = {
            growth.path(guess): chain for guess, chain in zip(guesses, chains, strict=True)
        }

    def _chains(self, growth: Growth, starts: Sequence[int]) -> list[list[int]]:
        """The chain of likeliest tokens behind each of several candidates, level by level."""
        chains, level = [list[int]() for _ in starts], list(starts)
        for _ in range(self._length):
            if unread := [node for node in level if not growth.below(node)]:
                growth.read(unread)
            level = [growth.below(node)[0] for node in level]
            for chain, node in zip(chains, level, strict=True):
                chain.append(growth.tokens[node])
        return chains


def speculate_outcomes(
    model: Llama,
    prompt: Sequence[int],
    reader: NodeReader,
    sampler: Sampler,
    *,
    draft_tokens: int,
    fan_out: int,
    waits: bool,
    max_new_tokens: int,
    timed: bool = False,
) -> OutcomeRun:
    """Decode one request with chains that are drafted for outcomes.

    Args:
        model: the target.
        prompt: its ids, at least one.
        reader: the drafter; shown the target's states if it is a `Watcher`.
        sampler: greedy or seeded sampling.
        draft_tokens: K >= 1.
        fan_out: tokens that are drafted behind at every accepted length, >= 1.
        waits: a step whose outcome was not foreseen waits for a draft; otherwise it has none, as has
            the first.
        max_new_tokens: length limit, >= 1.
        timed: measure the phases of every step; what two devices would do at once is counted as
            drafting.

    Raises:
        InputError: a number out of range, a prompt that does not fit.
    """
    for name, value in (("draft_tokens", draft_tokens), ("fan_out", fan_out)):
        if value < 1:
            raise InputError("must be >= 1", key=name, value=value)
    outcomes = _Outcomes(reader, draft_tokens, fan_out, waits=waits)
    run = decode(
        model,
        prompt,
        outcomes.draft,
        matching(sampler),
        slots=draft_tokens * ((draft_tokens + 1) * fan_out + 2),
        max_new_tokens=max_new_tokens,
        watcher=watcher_of(reader),
        timed=timed,
    )
    return OutcomeRun(run=run, ready=tuple(outcomes.ready))
