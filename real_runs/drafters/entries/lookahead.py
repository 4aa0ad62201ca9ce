"""Lookahead: a Jacobi window beside the text, and the n-grams that it leaves."""

from __future__ import annotations

from dataclasses import asdict

from real_runs.drafters.drafter import Drafter, RecordedDrafter, observed_lengths
from real_runs.drafters.lookahead import LookaheadSizes, lookahead_lengths
from real_runs.drafters.target import Target
from real_runs.models.llama import Llama


def lookahead_drafter(model: Llama, sizes: LookaheadSizes) -> RecordedDrafter:
    """A Jacobi window beside the text and the n-grams that it leaves, both empty of earlier
    requests.
    """
    return RecordedDrafter(
        title=(
            f"lookahead, n-grams of {sizes.ngram}, window {sizes.window}, {sizes.guesses} guesses"
        ),
        parameters={
            **asdict(sizes),
            "riding_tokens": sizes.riding_tokens,
            "pool": "empty before every request",
        },
        notes=(
            "The window depends on the steps before: replay is exact for these sizes, walked from"
            " the first step on; other positions were never a step's start and hold 1. A step with"
            " a guess counts as a draft of N - 1 tokens, the most that can be accepted of it. The"
            " text was known, so that passes computed the window alone."
        ),
        observe=observed_lengths(
            lambda prompt, output: lookahead_lengths(model, prompt, output, sizes)
        ),
        policy_draft_tokens=sizes.ngram - 1,
    )


def _observe(target: Target) -> RecordedDrafter:
    window, ngram, guesses = target.options.lookahead
    return lookahead_drafter(
        target.model, LookaheadSizes(window=window, ngram=ngram, guesses=guesses)
    )


DRAFTER = Drafter(method="lookahead", records="lengths", observe=_observe)
