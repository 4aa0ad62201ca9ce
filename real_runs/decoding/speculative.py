"""What does draft-and-verify decoding emit, step by step?

A real loop for chains at batch 1: a proposer drafts up to K tokens, one pass of the target checks them all,
the longest agreeing run is kept and the target's own next token follows it. The prefill emits the first
token, so the first step starts at output position 1. Leaves out sampled drafts: candidates are
deterministic, and a draft is kept where it is the token that the target samples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from real_runs.decoding.generate import check_room
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.stopping import StopRule
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama

Proposer = Callable[[Sequence[int], KVCache, int], list[int]]
"""Known ids (prompt and output), the target's cache of all but the last of them, K -> up to K drafted ids."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeculativeRun:
    """One text decoded by draft and verify.

    Attributes:
        tokens: output ids, the end-of-sequence token included.
        ended: "eos", "length" or "loop".
        drafted: tokens proposed in every step.
        emitted: tokens emitted in every step (accepted + 1, cut where the text ends).
    """

    tokens: tuple[int, ...]
    ended: str
    drafted: tuple[int, ...]
    emitted: tuple[int, ...]


def speculate(
    model: Llama,
    prompt: Sequence[int],
    propose: Proposer,
    sampler: Sampler,
    *,
    draft_tokens: int,
    max_new_tokens: int,
) -> SpeculativeRun:
    """Decode one request by draft and verify.

    Args:
        model: the target.
        prompt: its ids, at least one.
        propose: the drafter.
        sampler: greedy or seeded sampling.
        draft_tokens: K, the most tokens drafted in a step; 0 decodes plainly.
        max_new_tokens: length limit, >= 1.
    """
    check_room(model, prompt, max_new_tokens)
    cache, stop = (
        model.new_cache(len(prompt) + max_new_tokens + draft_tokens),
        StopRule(model.config.eos_ids, max_new_tokens),
    )
    result = model.forward(prompt, cache, logits="last")
    cache.commit(len(prompt))
    assert result.logits is not None
    known = [*prompt, *sampler.tokens(result.logits[0], 0)]
    ended = stop.after(known[-1])
    drafted: list[int] = []
    emitted: list[int] = []
    while ended is None:
        drafts = propose(known, cache, draft_tokens)
        result = model.forward([known[-1], *drafts], cache)
        assert result.logits is not None
        answers = sampler.tokens(result.logits[0], len(known) - len(prompt))
        accepted = agreeing_run(drafts, answers)
        cache.commit(accepted + 1)
        drafted.append(len(drafts))
        emitted.append(0)
        for token in answers[: accepted + 1]:
            known.append(token)
            emitted[-1] += 1
            ended = stop.after(token)
            if ended is not None:
                break
    return SpeculativeRun(
        tokens=tuple(known[len(prompt) :]), ended=ended, drafted=tuple(drafted), emitted=tuple(emitted)
    )


def agreeing_run(drafts: Sequence[int], answers: Sequence[int]) -> int:
    """How many drafts in a row are what the target answered."""
    run = 0
    while run < len(drafts) and drafts[run] == answers[run]:
        run += 1
    return run
