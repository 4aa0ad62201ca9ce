"""Suffix automaton: what followed the longest end of the text that stood before."""

from __future__ import annotations

from functools import partial

from real_runs.drafters.drafter import (
    Drafter,
    LoopDrafter,
    RecordedDrafter,
    Validated,
    batch_of_indexes,
    observed_lengths,
)
from real_runs.drafters.suffix_automaton import SuffixAutomaton, suffix_lengths
from real_runs.drafters.target import Target


def suffix_automaton_drafter(least_match: int, most: int) -> RecordedDrafter:
    """Suffix automaton with a least match length and a longest proposal."""
    return RecordedDrafter(
        title=f"suffix automaton over the request, matches of {least_match} tokens or more",
        parameters={
            "least_match": least_match,
            "most_draft_tokens": most,
            "match": "longest suffix, most recent earlier",
        },
        notes=(
            f"Exact for chains of up to {most} draft tokens. An n-gram lookup whose n has no upper"
            " limit."
        ),
        observe=observed_lengths(partial(suffix_lengths, least_match=least_match, most=most)),
    )


def _propose(target: Target) -> LoopDrafter:
    index = partial(SuffixAutomaton, least_match=target.options.least_match)
    return LoopDrafter(chain=index, batch=batch_of_indexes(index))


DRAFTER = Drafter(
    method="n-gram",
    records="lengths",
    observe=lambda target: suffix_automaton_drafter(
        target.options.least_match, target.options.most_draft_tokens
    ),
    propose=_propose,
    validated=Validated(),
)
