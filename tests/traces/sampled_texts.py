"""What a recorder leaves of texts that follow a known law: ranks and probabilities of every
position."""

import numpy as np

from traces.kinds.acceptance import AcceptanceTrace, Provenance


def recorded_texts(texts, *, target, draft, temperature=1.0, last=0):
    """A level 3 recording of texts, every text after the token `last`.

    Args:
        texts: tokens of every text.
        target: the next token's law given the last one, [words, words].
        draft: the drafter's law.
        temperature: of the target.
        last: token before every text.
    """
    before = np.array([token for text in texts for token in (last, *text[:-1])])
    tokens = np.array([token for text in texts for token in text])
    ids = np.argsort(-draft[before], axis=1, kind="stable")
    rank = (ids == tokens[:, None]).argmax(axis=1)
    ends = np.cumsum([0, *(len(text) for text in texts)])
    left = np.repeat(ends[1:], np.diff(ends)) - np.arange(tokens.size)
    miss = np.append(np.flatnonzero(rank), tokens.size)
    run = miss[np.searchsorted(miss, np.arange(tokens.size))] - np.arange(tokens.size)
    return AcceptanceTrace(
        provenance=Provenance(sampling={"temperature": temperature}),
        offsets=ends,
        emitted=np.minimum(np.minimum(run, left) + 1, left),
        rank=rank,
        rank_width=len(target),
        depth_invariant=True,
        draft_ids=ids,
        draft_probs=np.take_along_axis(draft[before], ids, axis=1),
        target_probs=np.take_along_axis(target[before], ids, axis=1),
        emitted_target_prob=target[before, tokens],
        residual_mass=np.zeros(tokens.size),
    )
