"""Which n-grams does the target write about the text to come, before it gets there?

Beside the text a window of guesses is refined: every pass computes what follows each of its
columns, as in a Jacobi iteration, and the trajectory of a column is an n-gram. N-grams are kept by
their first token; those that begin with the last known token are verified in the same pass. What
the window holds depends on all steps before, so a run is known by the steps that it took. Leaves
out n-grams of the prompt, and windows that several devices share.

Where the paper leaves a choice: the window starts with tokens drawn from the prompt; its rows have
one length; its tokens keep their places in the text when a step emits several, and drawn tokens
fill the columns that enter.

Reference: Fu et al., Lookahead Decoding, arXiv 2402.02057, sec. 3 (window W, n-gram size N, G
verified n-grams); Santilli et al., arXiv 2305.10427 (Jacobi decoding).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import (
    DraftedTokens,
    SpeculativeRun,
    agreeing_run,
    decode,
    matching,
)
from real_runs.decoding.tree import TreeLayout, ancestors, node_depths
from real_runs.drafters.prompt_lookup import LookupLengths
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama


@dataclass(frozen=True, kw_only=True, slots=True)
class LookaheadSizes:
    """Sizes of a run; the published ones of small models are N = 5 and W = G = 7.

    Attributes:
        window: columns W that are refined.
        ngram: tokens N of an n-gram; N - 1 of them can be accepted, and so many rows has the
            window.
        guesses: n-grams G that are kept, and verified, per first token.

    Raises:
        InputError: no column, n-grams of one token, or no n-gram.
    """

    window: int = 7
    ngram: int = 5
    guesses: int = 7

    def __post_init__(self) -> None:
        for name, least in (("window", 1), ("ngram", 2), ("guesses", 1)):
            if not least <= getattr(self, name) <= 64:
                raise InputError(
                    f"must lie in {least}..64", key=f"lookahead.{name}", value=getattr(self, name)
                )

    @property
    def riding_tokens(self) -> int:
        """Tokens of the window, which every pass computes beside what it verifies."""
        return self.window * (self.ngram - 1)

    @property
    def parents(self) -> list[int]:
        """Parent of every token of the window, row after row; -1 is the last known token.

        The first row is a chain behind the text; a token of a further row sees its column and the
        first row up to it.
        """
        return [
            place - (1 if place < self.window else self.window)
            for place in range(self.riding_tokens)
        ]


class LookaheadPool:
    """The window and the n-grams of one request.

    Args:
        prompt: its ids, which the window's first tokens are drawn from.
        sizes: of both.
        seed: of those draws.

    Attributes:
        rows: the window, oldest row first, int64 [N - 1, W]; column j of row r stands r + j + 1
            places behind the last known token.
    """

    def __init__(self, prompt: Sequence[int], sizes: LookaheadSizes, *, seed: int = 0) -> None:
        self._sizes = sizes
        self._words = np.asarray(prompt, dtype=np.int64)
        self._generator = np.random.default_rng(seed)
        self._ngrams: dict[int, list[tuple[int, ...]]] = {}
        self.rows = self._drawn(sizes.window)

    def guesses(self, token: int) -> list[tuple[int, ...]]:
        """The N - 1 tokens of the n-grams that begin with a token, the newest first."""
        return self._ngrams.get(token, [])

    def advance(self, answers: Sequence[int], emitted: int) -> None:
        """Take the next row, and go on with the text.

        Args:
            answers: what the target says after every token of the last row, [W].
            emitted: tokens of the step, >= 1.
        """
        newest = np.asarray(answers, dtype=np.int64)
        for column in np.vstack([self.rows, newest]).T.tolist():
            self._note(column[0], tuple(column[1:]))
        rows = np.vstack([self.rows[1:], newest])
        entering = min(emitted - 1, self._sizes.window)
        self.rows = np.hstack([rows[:, entering:], self._drawn(entering)])

    def _note(self, token: int, following: tuple[int, ...]) -> None:
        others = [ngram for ngram in self._ngrams.get(token, ()) if ngram != following]
        self._ngrams[token] = [following, *others][: self._sizes.guesses]

    def _drawn(self, columns: int) -> NDArray[np.int64]:
        return self._generator.choice(self._words, size=(self._sizes.ngram - 1, columns))


def merged(root: int, ngrams: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Tokens and parents of the tree of some n-grams below a root, common beginnings once, parents
    first.
    """
    tokens, parents = [root], [-1]
    places: dict[tuple[int, ...], int] = {(): 0}
    for ngram in ngrams:
        for length in range(1, len(ngram) + 1):
            path = tuple(ngram[:length])
            if path not in places:
                places[path] = len(tokens)
                tokens.append(path[-1])
                parents.append(places[path[:-1]])
    return tokens, parents


class LookaheadDraft:
    """Drafts the steps of one request: n-grams to verify, and the window, which no walk enters.

    Args:
        model: the target.
        prompt: ids of the request.
        sizes: of the window and the n-grams.
        seed: of the first window.
    """

    def __init__(
        self, model: Llama, prompt: Sequence[int], sizes: LookaheadSizes, *, seed: int = 0
    ) -> None:
        self._device, self._sizes = model.device, sizes
        self._pool = LookaheadPool(prompt, sizes, seed=seed)
        self._answers: list[int] = []
        self._prefix_tokens = 0
        self.drafted: list[int] = []

    def draft(self, prefix: Sequence[int], cache: KVCache) -> DraftedTokens:
        """The tokens of the next pass."""
        if self._answers:
            self._pool.advance(self._answers, len(prefix) - self._prefix_tokens)
        self._prefix_tokens = len(prefix)
        guesses = self._pool.guesses(prefix[-1])
        tokens, parents = merged(prefix[-1], guesses)
        verified = len(tokens)
        parents = parents + [
            0 if parent < 0 else verified + parent for parent in self._sizes.parents
        ]
        layout = TreeLayout(parents, len(prefix) - 1, self._device)
        layout.children = [
            [child for child in below if child < verified] for below in layout.children
        ]
        self.drafted.append(self._sizes.ngram - 1 if guesses else 0)
        return DraftedTokens(tokens=[*tokens, *self._pool.rows.flatten().tolist()], layout=layout)

    def learn(self, tokens: Sequence[int], logits: torch.Tensor) -> None:
        """Take what the target says after the last row; a prefill carries no window."""
        if self.drafted:
            self._answers = logits[-self._sizes.window :].argmax(dim=-1).tolist()


def speculate_lookahead(
    model: Llama,
    prompt: Sequence[int],
    sampler: Sampler,
    *,
    max_new_tokens: int,
    sizes: LookaheadSizes | None = None,
    seed: int = 0,
) -> SpeculativeRun:
    """Decode one request by verifying n-grams of a window that the same passes refine.

    Args:
        model: the target.
        prompt: its ids, at least one.
        sampler: greedy or seeded sampling; the window is refined greedily.
        max_new_tokens: length limit, >= 1.
        sizes: of the window and the n-grams; None: N = 5, W = G = 7.
        seed: of the first window.

    Returns:
        The run; `drafted` counts the levels that could be accepted, not the window's tokens.

    Raises:
        InputError: a prompt that does not fit.
    """
    sizes = sizes or LookaheadSizes()
    drafter = LookaheadDraft(model, prompt, sizes, seed=seed)
    slots = (sizes.window + sizes.guesses) * (sizes.ngram - 1)
    run = decode(
        model,
        prompt,
        drafter.draft,
        matching(sampler),
        slots=slots,
        max_new_tokens=max_new_tokens,
        learn=drafter.learn,
    )
    return replace(run, drafted=tuple(drafter.drafted))


def lookahead_lengths(
    model: Llama,
    prompt: Sequence[int],
    output: Sequence[int],
    sizes: LookaheadSizes,
    *,
    seed: int = 0,
) -> LookupLengths:
    """The steps that a run takes through a finished text.

    The text answers what n-grams are worth, so that passes compute the window alone, behind the
    text's own cache.

    Args:
        model: the target.
        prompt: its ids, at least one.
        output: the n generated ids.
        sizes: of the window and the n-grams.
        seed: of the first window.

    Returns:
        Where a step starts, the levels that could be accepted and what it emits; elsewhere,
        position 0 included, 0 and 1, which stand for nothing.
    """
    text, layers = [*prompt, *output], model.config.layers
    cache = model.new_cache(len(text) + sizes.riding_tokens)
    model.forward(text, cache, logits="none")
    cache.commit(len(text))
    pool = LookaheadPool(prompt, sizes, seed=seed)
    depths = torch.tensor(node_depths([-1, *(parent + 1 for parent in sizes.parents)])[1:])
    own = torch.from_numpy(ancestors([-1, *(parent + 1 for parent in sizes.parents)])[1:, 1:])
    drafted, emitted = np.zeros(len(output), dtype=np.int16), np.ones(len(output), dtype=np.int16)
    position = 1
    while position < len(output):
        root, left = len(prompt) + position - 1, output[position:]
        guesses = pool.guesses(text[root])
        drafted[position] = sizes.ngram - 1 if guesses else 0
        emitted[position] = min(
            1 + max((agreeing_run(ngram[: len(left)], left) for ngram in guesses), default=0),
            len(left),
        )
        text_mask = (torch.arange(len(text)) <= root).expand(sizes.riding_tokens, -1)
        result = model.forward(
            pool.rows.flatten().tolist(),
            cache,
            start=len(text),
            positions=root + depths,
            mask=torch.cat([text_mask, own], dim=1),
            logits="none",
            capture=(layers,),
        )
        answers = model.head(result.hidden[layers][0, -sizes.window :]).argmax(dim=-1).tolist()
        pool.advance(answers, int(emitted[position]))
        position += int(emitted[position])
    return LookupLengths(drafted=drafted, emitted=emitted)
