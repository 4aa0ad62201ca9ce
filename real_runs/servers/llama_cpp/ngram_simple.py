"""What does llama.cpp's drafter `ngram-simple` propose, and how much of it stands?

The last `size_n` tokens are looked up in the text so far; up to `size_m` tokens that followed their
most recent earlier occurrence are the draft. Fewer than `size_n` of them are no draft at all: with
`size_m` below `size_n` nothing is ever drafted. Leaves out its siblings `ngram-map-k`,
`ngram-map-k4v` and `ngram-mod`, whose tables depend on what was drafted before.

Reference: llama.cpp, `common/ngram-map.cpp` (`common_ngram_simple_draft`) and
`server_slot::get_n_draft_max`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardware_profiles.errors import InputError
from real_runs.drafters.prompt_lookup import LookupLengths


def ngram_simple_lengths(
    prompt: Sequence[int],
    output: Sequence[int],
    *,
    size_n: int,
    size_m: int,
    most_tokens: int | None = None,
    context: int | None = None,
) -> LookupLengths:
    """What the drafter proposes at every position of a finished text, and what a step that starts
    there emits.

    Args:
        prompt: its p token ids, with those that the engine adds.
        output: the n generated ids. The prompt's own pass emits the first, so no step starts there.
        size_n: tokens that are looked up, at least 1.
        size_m: longest draft, at least 1.
        most_tokens: tokens that were asked for, which the last drafts are cut to; None: no limit.
        context: tokens that the slot holds, >= 1; None: no limit.

    Returns:
        int16[n] each; `emitted` is the agreeing run plus one, cut at the end of the text. They hold
        for this `size_m`
        alone: where few tokens follow the match, or the text is short, another one drafts at other
            positions.

    Raises:
        InputError: a size below 1.
    """
    for key, size in (("size_n", size_n), ("size_m", size_m)):
        if size < 1:
            raise InputError("must be at least 1", key=key, value=size)
    text = [*prompt, *output]
    drafted = np.zeros(len(output), dtype=np.int16)
    emitted = np.ones(len(output), dtype=np.int16)
    latest: dict[tuple[int, ...], int] = {}
    entered = 1  # an occurrence at the very beginning is not found
    for position in range(1, len(output)):
        length = len(prompt) + position
        while entered + size_n < length - 1:
            latest[tuple(text[entered : entered + size_n])] = entered
            entered += 1
        occurrence = latest.get(tuple(text[length - size_n : length]))
        if occurrence is None or length <= size_n + size_m + 2:
            continue
        # the token that was sampled last is not part of what is copied
        draft = text[occurrence + size_n : min(occurrence + size_n + size_m, length - 1)]
        if len(draft) < size_n:
            continue
        # one token that is emitted after the draft must fit, too
        limits = [
            limit - used - 1
            for limit, used in ((most_tokens, position), (context, length))
            if limit is not None
        ]
        draft = draft[: max(min(limits, default=size_m), 0)]
        drafted[position] = len(draft)
        emitted[position] = min(_agreeing(draft, text, length) + 1, len(output) - position)
    return LookupLengths(drafted=drafted, emitted=emitted)


def _agreeing(draft: Sequence[int], text: Sequence[int], start: int) -> int:
    run = 0
    while run < len(draft) and start + run < len(text) and draft[run] == text[start + run]:
        run += 1
    return run
