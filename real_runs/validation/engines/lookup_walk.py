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
    known, longest = list(prompt), len(prompt) + len(output)
    columns: dict[str, list[int]] = {"n": [], "context": [], "drafted": []}
    emitted_after_first, first = 0, True
    while len(known) < longest:
        drafts = _first_match(known, draft_tokens, ngram, longest)
        right = output[len(known) - len(prompt) :]
        hits = 0
        while hits < min(len(drafts), len(right)) and drafts[hits] == right[hits]:
            hits += 1
        emitted = min(hits + 1, len(right))
        if not first:
            columns["n"].append(1 + len(drafts))
            columns["context"].append(len(known) - 1)
            columns["drafted"].append(len(drafts))
            emitted_after_first += emitted
        first = False
        known += right[:emitted]
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
    known: Sequence[int], draft_tokens: int, ngram: int, longest: int
) -> Sequence[int]:
    if longest == len(known) + 1:
        return []
    for size in range(min(ngram, len(known) - 1), 0, -1):
        tail = list(known[-size:])
        for start in range(len(known) - size):
            if list(known[start : start + size]) == tail:
                return known[start + size : min(start + size + draft_tokens, len(known), longest)]
    return []
