"""What does a draft model draft that is itself drafted for?

Two levels: an n-gram lookup proposes what the draft model may write next, one pass of the draft
model reads the proposal, and what agrees with its own greedy choice stays, as a target would keep
it. The draft is therefore the one that the model makes alone, token for token; what changes is how
many passes it takes. Leaves out drafts whose further tokens come from the lookup alone
(CS-Drafting's horizontal cascade) and trees.

Reference: Spector and Re, Staged Speculative Decoding, arXiv 2308.04623, sec. 3.2; Chen et al.,
Cascade Speculative Drafting, arXiv 2312.11462, sec. 3.1 (vertical cascades).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

from hardware_profiles.errors import InputError
from real_runs.decoding.speculative import agreeing_run
from real_runs.drafters.prompt_lookup import NGRAM_SIZES, PromptLookup
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama

DRAFT_TOKENS = 5
INNER_TOKENS = 3
_LONG = 32


@dataclass(slots=True)
class InnerCounts:
    """What the draft model did with what was proposed to it.

    Attributes:
        drafted_tokens: tokens that it drafted.
        draft_passes: passes that they took.
        judged_tokens: proposed tokens that it judged: all before them in their pass had stayed.
        accepted_tokens: those of them that stayed.
    """

    drafted_tokens: int = 0
    draft_passes: int = 0
    judged_tokens: int = 0
    accepted_tokens: int = 0


class Cascade:
    """Drafts greedily with a model for which an n-gram lookup drafts: the form `speculate` calls.

    The model's cache holds the true text alone; drafts are forgotten, and what was accepted is read
    again by the first pass of the next step. One object serves any number of requests, one at a
    time.

    Args:
        drafter: the draft model; the target less some layers, or a model of the target's
            vocabulary.
        inner_tokens: most tokens of a proposal to it; 0: it drafts alone.
        sizes: n-gram sizes of the lookup, longest first.

    Raises:
        InputError: fewer than no tokens.

    Attributes:
        counts: of all requests so far.
    """

    def __init__(
        self,
        drafter: Llama,
        *,
        inner_tokens: int = INNER_TOKENS,
        sizes: Sequence[int] = NGRAM_SIZES,
    ) -> None:
        if inner_tokens < 0:
            raise InputError("must be >= 0", key="inner_tokens", value=inner_tokens)
        self._drafter, self._inner, self._sizes = drafter, inner_tokens, tuple(sizes)
        self._request: object = None
        self._own = drafter.new_cache(1)
        self._lookup = PromptLookup(self._sizes)
        self.counts = InnerCounts()

    def __call__(self, prefix: Sequence[int], cache: KVCache, most: int) -> list[int]:
        """Propose `most` tokens after `prefix`."""
        if cache is not self._request:
            self._request, self._lookup = cache, PromptLookup(self._sizes)
            self._own = self._drafter.new_cache(cache.capacity + self._inner + most)
        self._lookup.extend(prefix[self._lookup.length :])
        drafts: list[int] = []
        while len(drafts) < most:
            unread = [drafts[-1]] if drafts else prefix[self._own.length :]
            if len(unread) > _LONG:  # a prompt: of its last token alone is the answer wanted
                self._drafter.forward(unread[:-1], self._own, logits="none")
                self._own.commit(len(unread) - 1)
                unread = unread[-1:]
            start = len(prefix) + len(drafts) - len(unread)
            wanted = min(self._inner, most - len(drafts) - 1)
            proposed = self._lookup.propose(wanted, drafts) if wanted else []
            logits = self._drafter.forward([*unread, *proposed], self._own, start=start).logits
            assert logits is not None
            answers = logits[0, len(unread) - 1 :].argmax(dim=-1).tolist()
            run = agreeing_run(proposed, answers)
            if not drafts:
                self._own.commit(len(unread))
            drafts += answers[: run + 1]
            self._count(run, len(proposed))
        return drafts

    def walk(
        self, prompt: Sequence[int], output: Sequence[int], *, draft_tokens: int
    ) -> tuple[list[int], InnerCounts]:
        """Draft for a finished text as a real loop would, step by step.

        Args:
            prompt: ids.
            output: the generated ids.
            draft_tokens: of every step.

        Returns:
            Tokens that each step emits, the first step at output position 1; and the counts of this
            text alone.
        """
        text, before = [*prompt, *output], replace(self.counts)
        request = self._drafter.new_cache(len(text) + draft_tokens)
        emitted: list[int] = []
        position = 1
        while position < len(output):
            drafts, left = (
                self(text[: len(prompt) + position], request, draft_tokens),
                output[position:],
            )
            emitted.append(min(agreeing_run(drafts[: len(left)], left) + 1, len(left)))
            position += emitted[-1]
        after, then = astuple(self.counts), astuple(before)
        return emitted, InnerCounts(*(now - past for now, past in zip(after, then, strict=True)))

    def _count(self, run: int, proposed: int) -> None:
        counts = self.counts
        counts.drafted_tokens += run + 1
        counts.draft_passes += 1
        counts.judged_tokens += min(run + 1, proposed)
        counts.accepted_tokens += run
