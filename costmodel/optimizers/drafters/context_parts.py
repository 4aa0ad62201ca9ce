"""What does a recording say of acceptance at every context that is asked about?

Acceptance may fall or rise as text grows. Each context takes the positions that lie nearest to it,
in the ratio of their cached tokens. Leaves out what engines make of it: none of them chooses draft
lengths by context (`costmodel.optimizers.context_schedules`).
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf, sqrt

from costmodel.optimizers.drafters.sources import Source
from hardware_profiles.errors import InputError


def context_bounds(contexts: Sequence[int]) -> list[tuple[float, float]]:
    """Cached tokens, from and below, that count for each context.

    Args:
        contexts: cached tokens, increasing.

    Example:
        >>> context_bounds([1000, 4000])
        [(0.0, 2000.0), (2000.0, inf)]
    """
    middles = [sqrt(max(low, 1) * high) for low, high in pairwise(contexts)]
    return list(pairwise([0.0, *middles, inf]))


def source_parts(
    source: Source, contexts: Sequence[int]
) -> list[tuple[tuple[int, ...] | None, Source]]:
    """A recorded drafter by context: (the context, its positions alone).

    Args:
        source: a drafter.
        contexts: cached tokens per request, increasing.

    Raises:
        InputError: no recorded positions, or none near a context.
    """
    if source.positions is None:
        rule = "needs recorded positions with the lengths of their prompts"
        raise InputError(rule, key="by_context", value=source.reference or source.method)
    if list(contexts) != sorted(set(contexts)):
        raise InputError(
            "must increase, to tell acceptance by context", key="context", value=contexts
        )
    recorded = source.positions
    return [
        ((context,), replace(source, trace=recorded.between_contexts(low, high)))
        for context, (low, high) in zip(contexts, context_bounds(contexts), strict=True)
    ]
