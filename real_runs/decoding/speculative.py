"""What does draft-and-verify decoding emit, step by step?

The real loop at batch 1, for chains and trees alike: something drafts, one pass of the target reads
the draft, a judge says which path through it is accepted and which tokens are emitted. The prefill
emits the first token, so the first step starts at output position 1. The chain loop here takes
deterministic drafts: one is accepted where it is the token that the target samples. Leaves out
drafts that are sampled (`sampled`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from real_runs.decoding.drafting import Learner, Proposer, Watcher, watcher_of
from real_runs.decoding.generate import check_room
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.stopping import StopRule
from real_runs.decoding.times import StepClock, StepTimes
from real_runs.decoding.tree import TreeLayout
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeculativeRun:
    """One text decoded by draft and verify.

    Attributes:
        tokens: output ids, the end-of-sequence token included.
        ended: "eos", "length" or "loop".
        drafted: tokens proposed in every step.
        emitted: tokens emitted in every step (accepted + 1, cut where the text ends).
        times: seconds of every step's phases; empty unless asked for.
    """

    tokens: tuple[int, ...]
    ended: str
    drafted: tuple[int, ...]
    emitted: tuple[int, ...]
    times: tuple[StepTimes, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class DraftedTokens:
    """What the target is asked to check in one step.

    Attributes:
        tokens: token of every node, root (the last known token) first.
        layout: the tree; None for a chain.
        rows: by node, the distribution float64 [vocabulary] that its children were drawn from;
            empty where drafts are deterministic.
    """

    tokens: Sequence[int]
    layout: TreeLayout | None = None
    rows: Mapping[int, NDArray[np.float64]] = field(default_factory=dict)

    def children(self, node: int) -> Sequence[int]:
        """The nodes below a node, in the order in which they are judged."""
        if self.layout is not None:
            return self.layout.children[node]
        return [node + 1] if node + 1 < len(self.tokens) else []


Judge = Callable[[DraftedTokens, torch.Tensor, int], tuple[list[int], list[int]]]
"""A draft, the target's logits [T, vocabulary] after its nodes, output position of the token after
the root -> the accepted path, root first, and the tokens emitted, as many as it has nodes."""


def matching(sampler: Sampler) -> Judge:
    """Accept a draft token where it is what the target answers; the answer after the last accepted
    one is the bonus.

    The target answers only where the walk comes by: nodes beside the path cost no draw.
    """

    def judge(
        draft: DraftedTokens, logits: torch.Tensor, first: int
    ) -> tuple[list[int], list[int]]:
        greedy = logits.argmax(dim=-1).tolist() if sampler.temperature == 0 else None
        path, tokens = [0], list[int]()
        while True:
            here = path[-1]
            answer = (
                greedy[here]
                if greedy
                else sampler.tokens(logits[here : here + 1], first + len(tokens))[0]
            )
            tokens.append(answer)
            right = next(
                (child for child in draft.children(here) if draft.tokens[child] == answer), None
            )
            if right is None:
                return path, tokens
            path.append(right)

    return judge


def decode(
    model: Llama,
    prompt: Sequence[int],
    draft: Callable[[Sequence[int], KVCache], DraftedTokens],
    judge: Judge,
    *,
    slots: int,
    max_new_tokens: int,
    watcher: Watcher | None = None,
    learn: Learner | None = None,
    timed: bool = False,
) -> SpeculativeRun:
    """Decode one request by draft and verify, whatever drafts and whatever judges.

    Args:
        model: the target.
        prompt: its ids, at least one.
        draft: prompt and output ids so far, the target's cache of all but the last of them -> what
            to check.
        judge: decides which of it is accepted.
        slots: most scratch slots of a step beside the root's.
        max_new_tokens: length limit, >= 1.
        watcher: shown the target's states.
        learn: called with the target's logits after every prompt token and every node, right or
            wrong.
        timed: measure the phases of every step.

    Raises:
        InputError: a prompt that does not fit.
    """
    check_room(model, prompt, max_new_tokens)
    cache = model.new_cache(len(prompt) + max_new_tokens + slots)
    capture = watcher.capture if watcher else ()
    stop = StopRule(model.config.eos_ids, max_new_tokens)
    result = model.forward(prompt, cache, logits="all" if learn else "last", capture=capture)
    cache.commit(len(prompt))
    assert result.logits is not None
    prefix = [*prompt, *judge(DraftedTokens(tokens=prompt[-1:]), result.logits[0, -1:], 0)[1]]
    _show(watcher, learn, prompt, result.logits[0], result.hidden, range(len(prompt)))
    ended = stop.after(prefix[-1])
    drafted: list[int] = []
    emitted: list[int] = []
    clock = StepClock(timed=timed, device=model.device)
    while ended is None:
        drafted_tree = draft(prefix, cache)
        clock.end("draft")
        tree, length = drafted_tree.layout, cache.length
        result = model.forward(
            drafted_tree.tokens,
            cache,
            positions=tree.positions(length) if tree else None,
            mask=tree.mask(length) if tree else None,
            capture=capture,
        )
        clock.end("verify")
        assert result.logits is not None
        path, tokens = judge(drafted_tree, result.logits[0], len(prefix) - len(prompt))
        cache.compact(path)
        drafted.append(len(drafted_tree.tokens) - 1)
        taken, ended = stop.take(tokens)
        prefix += taken
        emitted.append(len(taken))
        clock.end("rest")
        _show(watcher, learn, drafted_tree.tokens, result.logits[0], result.hidden, path)
        clock.end("draft")
        clock.end_step()
    return SpeculativeRun(
        tokens=tuple(prefix[len(prompt) :]),
        ended=ended,
        drafted=tuple(drafted),
        emitted=tuple(emitted),
        times=clock.steps,
    )


def speculate(
    model: Llama,
    prompt: Sequence[int],
    propose: Proposer,
    sampler: Sampler,
    *,
    draft_tokens: int,
    max_new_tokens: int,
    timed: bool = False,
) -> SpeculativeRun:
    """Decode one request by drafting and verifying chains.

    Args:
        model: the target.
        prompt: its ids, at least one.
        propose: the drafter; shown the target's states if it is a `Watcher`.
        sampler: greedy or seeded sampling.
        draft_tokens: K, the most tokens drafted in a step; 0 decodes plainly.
        max_new_tokens: length limit, >= 1.
        timed: measure the phases of every step.
    """

    def draft(prefix: Sequence[int], cache: KVCache) -> DraftedTokens:
        return DraftedTokens(tokens=[prefix[-1], *propose(prefix, cache, draft_tokens)])

    return decode(
        model,
        prompt,
        draft,
        matching(sampler),
        slots=draft_tokens,
        max_new_tokens=max_new_tokens,
        watcher=watcher_of(propose),
        timed=timed,
    )


def agreeing_run(drafts: Sequence[int], answers: Sequence[int]) -> int:
    """How many drafts in a row are what the target answered."""
    run = 0
    while run < len(drafts) and drafts[run] == answers[run]:
        run += 1
    return run


def _show(
    watcher: Watcher | None,
    learn: Learner | None,
    tokens: Sequence[int],
    logits: torch.Tensor,
    hidden: Mapping[int, torch.Tensor],
    accepted: Sequence[int],
) -> None:
    """Let a drafter see what the target read."""
    if watcher:
        watcher.watch(tokens, {layer: states[0] for layer, states in hidden.items()}, accepted)
    if learn:
        learn(tokens, logits)
