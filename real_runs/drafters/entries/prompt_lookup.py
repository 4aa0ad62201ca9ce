"""Prompt lookup: what followed the last tokens where they stood before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from real_runs.drafters.drafter import (
    Drafter,
    LoopDrafter,
    RecordedDrafter,
    Validated,
    batch_of_indexes,
    observed_lengths,
)
from real_runs.drafters.prompt_lookup import PromptLookup, lookup_lengths
from real_runs.drafters.target import Target


def prompt_lookup_drafter(sizes: Sequence[int], most: int) -> RecordedDrafter:
    """Prompt lookup with n-gram sizes and a longest proposal."""
    return RecordedDrafter(
        title=f"prompt lookup, n-grams of {'/'.join(map(str, sizes))} tokens",
        parameters={
            "ngram_sizes": list(sizes),
            "most_draft_tokens": most,
            "match": "most recent earlier",
        },
        notes=f"Exact for chains of up to {most} draft tokens.",
        observe=observed_lengths(partial(lookup_lengths, sizes=sizes, most=most)),
    )


def _propose(target: Target) -> LoopDrafter:
    index = partial(PromptLookup, target.options.ngram_sizes)
    return LoopDrafter(chain=index, batch=batch_of_indexes(index))


DRAFTER = Drafter(
    method="n-gram",
    records="lengths",
    observe=lambda target: prompt_lookup_drafter(
        target.options.ngram_sizes, target.options.most_draft_tokens
    ),
    propose=_propose,
    validated=Validated(),
)
