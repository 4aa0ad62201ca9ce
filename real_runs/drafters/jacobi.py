"""Which of the target's own guesses stay, when a window behind the text is corrected pass by pass?

Jacobi decoding: every pass computes what follows the last known token and each guess of the window;
guesses stay as far as they are what the target says, and its answers are the next guesses. What the
window holds depends on all steps before, so a run is known by the steps that it took. Leaves out
trained guesses (CLLM) and pools of n-grams (`lookahead`).

Where the paper leaves a choice: the window starts with tokens drawn from the prompt, and so do
columns that enter.

Reference: Santilli et al., arXiv 2305.10427 (Jacobi decoding; a window that moves with the text is
its hybrid form).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from hardware_profiles.errors import InputError
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import (
    DraftedTokens,
    SpeculativeRun,
    agreeing_run,
    decode,
    matching,
)
from real_runs.drafters.prompt_lookup import LookupLengths
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama

MOST_COLUMNS = 64


class JacobiWindow:
    """The guesses of one request.

    Args:
        prompt: its ids, which the first guesses are drawn from.
        columns: how many, 1 to 64.
        seed: of those draws.

    Attributes:
        guesses: tokens that stand behind the last known one.

    Raises:
        InputError: a number of columns out of range.
    """

    def __init__(self, prompt: Sequence[int], columns: int, *, seed: int = 0) -> None:
        if not 1 <= columns <= MOST_COLUMNS:
            raise InputError(f"must lie in 1..{MOST_COLUMNS}", key="jacobi.columns", value=columns)
        self._words = np.asarray(prompt, dtype=np.int64)
        self._generator = np.random.default_rng(seed)
        self.guesses = self._drawn(columns)

    def advance(self, answers: Sequence[int], emitted: int) -> None:
        """Take what the target says after every guess, and go on with the text.

        Args:
            answers: one token per guess.
            emitted: tokens of the step, >= 1.
        """
        left = list(answers)[emitted - 1 :]
        self.guesses = [*left, *self._drawn(len(self.guesses) - len(left))]

    def _drawn(self, count: int) -> list[int]:
        drawn: list[int] = self._generator.choice(self._words, size=count).tolist()
        return drawn


class JacobiDraft:
    """Drafts the steps of one request: the window's guesses, as a chain.

    Args:
        window: of the request.
    """

    def __init__(self, window: JacobiWindow) -> None:
        self._window = window
        self._answers: list[int] = []
        self._prefix_tokens = 0

    def draft(self, prefix: Sequence[int], cache: KVCache) -> DraftedTokens:
        """The tokens of the next pass."""
        if self._answers:
            self._window.advance(self._answers, len(prefix) - self._prefix_tokens)
        self._prefix_tokens = len(prefix)
        return DraftedTokens(tokens=[prefix[-1], *self._window.guesses])

    def learn(self, tokens: Sequence[int], logits: torch.Tensor) -> None:
        """Take what the target says after every guess; a prefill carries none."""
        if self._prefix_tokens:
            self._answers = logits[-len(self._window.guesses) :].argmax(dim=-1).tolist()


def speculate_jacobi(
    model: Llama,
    prompt: Sequence[int],
    sampler: Sampler,
    *,
    max_new_tokens: int,
    columns: int = 5,
    seed: int = 0,
) -> SpeculativeRun:
    """Decode one request by correcting a window of guesses.

    Args:
        model: the target.
        prompt: its ids, at least one.
        sampler: greedy or seeded sampling; the window is corrected greedily.
        max_new_tokens: length limit, >= 1.
        columns: guesses of a pass, 1 to 64.
        seed: of the first guesses.

    Raises:
        InputError: a prompt that does not fit, or a number of columns out of range.
    """
    drafter = JacobiDraft(JacobiWindow(prompt, columns, seed=seed))
    run = decode(
        model,
        prompt,
        drafter.draft,
        matching(sampler),
        slots=columns,
        max_new_tokens=max_new_tokens,
        learn=drafter.learn,
    )
    return replace(run, drafted=(columns,) * len(run.emitted))


def jacobi_lengths(
    model: Llama, prompt: Sequence[int], output: Sequence[int], columns: int, *, seed: int = 0
) -> LookupLengths:
    """The steps that a run takes through a finished text.

    Args:
        model: the target.
        prompt: its ids, at least one.
        output: the n generated ids.
        columns: guesses of a pass.
        seed: of the first guesses.

    Returns:
        Where a step starts, its guesses and what it emits; elsewhere, position 0 included, 0 and 1,
        which stand for nothing.
    """
    text, layers = [*prompt, *output], model.config.layers
    cache = model.new_cache(len(text) + columns)
    model.forward(text, cache, logits="none")
    cache.commit(len(text))
    window = JacobiWindow(prompt, columns, seed=seed)
    window_mask = torch.ones((columns, columns), dtype=torch.bool).tril()
    drafted, emitted = np.zeros(len(output), dtype=np.int16), np.ones(len(output), dtype=np.int16)
    position = 1
    while position < len(output):
        root, left = len(prompt) + position - 1, output[position:]
        drafted[position] = columns
        emitted[position] = min(1 + agreeing_run(window.guesses[: len(left)], left), len(left))
        text_mask = (torch.arange(len(text)) <= root).expand(columns, -1)
        result = model.forward(
            window.guesses,
            cache,
            start=len(text),
            positions=root + 1 + torch.arange(columns),
            mask=torch.cat([text_mask, window_mask], dim=1),
            logits="none",
            capture=(layers,),
        )
        window.advance(
            model.head(result.hidden[layers][0]).argmax(dim=-1).tolist(), int(emitted[position])
        )
        position += int(emitted[position])
    return LookupLengths(drafted=drafted, emitted=emitted)
