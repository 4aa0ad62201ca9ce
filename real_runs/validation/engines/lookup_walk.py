"""Which steps does Transformers' own prompt lookup take on a known text?

Its rule: the first match of the longest n-gram. Leaves out what steps take.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from real_runs.validation.walk import Walk


def lookup_walk(
    prompt: Sequence[int], output: Sequence[int], draft_tokens: int, ngram: int
) -> Walk:
    """The steps of Transformers' prompt lookup on a known text; the first pass, which reads the
    prompt, is left out.

    Args:
        prompt: its ids.
        output: what plain greedy decoding writes; all of it is decoded, no token ends it.
        draft_tokens: K.
        ngram: longest n-gram that is looked up.
    """
    prefix, longest = list(prompt), len(prompt) + len(output)
    columns: dict[str, list[int]] = {"n": [], "context": [], "drafted": []}
    emitted_after_first, first = 0, True
    while len(prefix) < longest:
        drafts = _first_match(prefix, draft_tokens, ngram, longest)
        right = output[len(prefix) - len(prompt) :]
        hits = 0
        while hits < min(len(drafts), len(right)) and drafts[hits] == right[hits]:
            hits += 1
        emitted = min(hits + 1, len(right))
        if not first:
            columns["n"].append(1 + len(drafts))
            columns["context"].append(len(prefix) - 1)
            columns["drafted"].append(len(drafts))
            emitted_after_first += emitted
        first = False
        prefix += right[:emitted]
    arrays = {name: np.array(values, dtype=np.int64) for name, values in columns.items()}
    ones = np.ones(len(arrays["n"]), dtype=np.int64)
    return Walk(
        requests=ones,
        query_tokens=arrays["n"],
        context=arrays["context"],
        drafted=arrays["drafted"],
        drafting=(arrays["drafted"] > 0).astype(np.int64),
        unread=ones,
        tokens=emitted_after_first,
    )


def _first_match(
    prefix: Sequence[int], draft_tokens: int, ngram: int, longest: int
) -> Sequence[int]:
    if longest == len(prefix) + 1:
        return []
    for size in range(min(ngram, len(prefix) - 1), 0, -1):
        tail = list(prefix[-size:])
        for start in range(len(prefix) - size):
            if list(prefix[start : start + size]) == tail:
                return prefix[start + size : min(start + size + draft_tokens, len(prefix), longest)]
    return []
