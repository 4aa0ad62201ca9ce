"""What do several requests emit, step by step, when they are drafted and verified together?

Chains and static trees over prompts of different lengths, each request with its own sampler; the
same tokens and steps as `speculate` and `speculate_tree` one by one, rounding aside. All requests
take a step at a time: one pass verifies every draft, padded to the longest. A request that ends
leaves the batch. Leaves out requests that arrive later, trees that differ between requests, and
drafters that look at the target's states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

import torch

from hardware_profiles.errors import InputError
from real_runs.decoding.drafting import Proposer
from real_runs.decoding.generate import limits_of_batch
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import DraftedTokens, Judge, SpeculativeRun, matching
from real_runs.decoding.stopping import StopRule
from real_runs.decoding.times import StepClock, StepTimes
from real_runs.decoding.tree import TreeLayout, ancestors
from real_runs.decoding.tree_speculative import best_first_rows, level_ordered
from real_runs.models.bridge import Bridge
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama
from traces.kinds.tree import Tree

BatchProposer = Callable[[Sequence[int], Sequence[Sequence[int]], KVCache, Tree], list[list[int]]]
"""Numbers of the requests in the batch, prompt and output ids of each so far, the target's cache of
all but the last of them, a tree in level order -> per request the tokens of the tree's first nodes
below the root, as many as it likes."""


@dataclass(kw_only=True, slots=True, eq=False)
class _Row:
    request: int
    prompt_tokens: int
    prefix: list[int]
    judge: Judge
    stop: StopRule
    ended: str | None = None
    drafted: list[int] = field(default_factory=list)
    emitted: list[int] = field(default_factory=list)

    def take(self, tokens: Sequence[int]) -> int:
        """Append tokens up to the one that ends the text; how many."""
        taken, self.ended = self.stop.take(tokens)
        self.prefix += taken
        return len(taken)


def per_request(proposers: Sequence[Proposer]) -> BatchProposer:
    """Chains of proposers that need nothing but the text, one per request: a tree must be a
    chain.
    """

    def propose(
        requests: Sequence[int], prefixes: Sequence[Sequence[int]], cache: KVCache, tree: Tree
    ) -> list[list[int]]:
        if tree.depth != tree.nodes:
            raise InputError("must be a chain", key="tree", value=tree.parents)
        return [
            proposers[request](ids, cache, tree.draft_tokens)
            for request, ids in zip(requests, prefixes, strict=True)
        ]

    return propose


class BatchEarlyExit:
    """Drafts with the target's first layers: one short pass a level for all requests together.

    Args:
        model: the target.
        bridge: from the exit to the last layer.
    """

    def __init__(self, model: Llama, bridge: Bridge) -> None:
        self._model, self._bridge = model, bridge

    def __call__(
        self, requests: Sequence[int], prefixes: Sequence[Sequence[int]], cache: KVCache, tree: Tree
    ) -> list[list[int]]:
        """Token of every node but the root, per request."""
        return self.sure(prefixes, cache, tree)[0]

    def sure(
        self, prefixes: Sequence[Sequence[int]], cache: KVCache, tree: Tree
    ) -> tuple[list[list[int]], list[list[float]]]:
        """The same, and per request by level the probability of the likeliest token behind the
        level's first node, given what stands before it.
        """
        rows = [[ids[-1]] for ids in prefixes]
        likeliest: list[list[float]] = [[] for _ in rows]
        candidates: list[list[list[int]]] = [[] for _ in rows]
        visible, depths = (
            torch.from_numpy(ancestors(tree.parents)),
            torch.from_numpy(tree.node_levels()),
        )
        bounds = [(0, 1), *pairwise(accumulate(tree.level_widths(), initial=1))]
        for (start, stop), (_, below) in pairwise(bounds):
            logits = self._logits(
                [row[start:] for row in rows], cache, depths[start:stop], visible[start:stop, :stop]
            )
            for said, of_row in zip(likeliest, logits, strict=True):
                said.append(float(of_row[0].double().softmax(dim=-1).max()))
            for row, ranked, of_row in zip(rows, candidates, logits, strict=True):
                ranked.extend(best_first_rows(of_row, max(tree.ranks) + 1))
                row.extend(
                    ranked[tree.parents[node]][tree.ranks[node]] for node in range(stop, below)
                )
        return [row[1:] for row in rows], likeliest

    def _logits(
        self,
        tokens: Sequence[Sequence[int]],
        cache: KVCache,
        depths: torch.Tensor,
        visible: torch.Tensor,
    ) -> torch.Tensor:
        layer, first = self._bridge.exit_layer, visible.shape[1] - visible.shape[0]
        states = self._model.forward(
            tokens,
            cache,
            start=[length + first for length in cache.lengths],
            positions=torch.tensor(cache.lengths)[:, None] + depths,
            mask=batch_mask(visible, cache.lengths),
            logits="none",
            capture=(layer,),
            stop_after=layer,
        ).hidden[layer]
        return self._model.head(self._bridge(states))


def batch_mask(visible: torch.Tensor, lengths: Sequence[int]) -> torch.Tensor:
    """Which slots the nodes of a tree see in every row.

    Args:
        visible: which nodes they see, bool [T, nodes].
        lengths: committed slots of every row; node n lies n slots after them.

    Returns:
        bool [B, T, longest + nodes].
    """
    nodes = visible.shape[1]
    offset = (
        torch.arange(max(lengths) + nodes) - torch.tensor(lengths)[:, None]
    )  # [B, slots]: which node is there
    of_tree = (offset >= 0) & (offset < nodes)
    return (offset < 0)[:, None] | (
        of_tree[:, None] & visible[:, offset.clamp(0, nodes - 1)].transpose(0, 1)
    )


def speculate_batch(
    model: Llama,
    prompts: Sequence[Sequence[int]],
    propose: BatchProposer,
    samplers: Sequence[Sampler],
    *,
    tree: Tree,
    max_new_tokens: int | Sequence[int],
    timed: bool = False,
) -> list[SpeculativeRun]:
    """Decode several requests together by drafting and verifying one tree each in every step.

    Args:
        model: the target.
        prompts: ids of every request, at least one id each.
        propose: the drafter; one that stops short has the first nodes of the tree verified alone.
        samplers: one per request.
        tree: the tree, `chain_tree(K)` for chains.
        max_new_tokens: length limit of all requests or of each, >= 1.
        timed: measure the phases of every step; a request's are those of all that take part.

    Returns:
        One run per request, in their order.

    Raises:
        InputError: no prompts, a number of samplers or limits that differs from theirs, a prompt
            that does not fit, or ranks beyond the vocabulary.
    """
    limits = limits_of_batch(model, prompts, samplers, max_new_tokens)
    tree = level_ordered(tree, model.config.vocabulary)
    rows = [
        _Row(
            request=request,
            prompt_tokens=len(prompt),
            prefix=list(prompt),
            judge=matching(samplers[request]),
            stop=StopRule(model.config.eos_ids, limit),
        )
        for request, (prompt, limit) in enumerate(zip(prompts, limits, strict=True))
    ]
    cache = _prefilled(model, rows, most=max(limits) + tree.draft_tokens)
    layout, visible = TreeLayout(tree.parents, 0), torch.from_numpy(ancestors(tree.parents))
    runs: dict[int, SpeculativeRun] = {}
    clock = StepClock(timed=timed, device=model.device)
    while _leave(rows, cache, runs, clock.steps):
        drafts = propose([row.request for row in rows], [row.prefix for row in rows], cache, tree)
        clock.end("draft")
        nodes = 1 + max(map(len, drafts))
        result = model.forward(
            [
                [row.prefix[-1], *draft, *[0] * (nodes - 1 - len(draft))]
                for row, draft in zip(rows, drafts, strict=True)
            ],
            cache,
            positions=torch.tensor(cache.lengths)[:, None] + torch.tensor(layout.depths[:nodes]),
            mask=batch_mask(visible[:nodes, :nodes], cache.lengths),
        )
        clock.end("verify")
        assert result.logits is not None
        accepted = []
        for row, draft, logits in zip(rows, drafts, result.logits, strict=True):
            none_there = [-1] * (tree.draft_tokens - len(draft))  # no answer equals it
            verified = DraftedTokens(tokens=[row.prefix[-1], *draft, *none_there], layout=layout)
            path, tokens = row.judge(verified, logits, len(row.prefix) - row.prompt_tokens)
            accepted.append(path)
            row.drafted.append(len(draft))
            row.emitted.append(row.take(tokens))
        cache.compact(accepted)
        clock.end_step()
    return [runs[request] for request in range(len(prompts))]


def _prefilled(model: Llama, rows: Sequence[_Row], *, most: int) -> KVCache:
    """Read all prompts in one pass, padded on the right, and take every request's first token."""
    lengths = [row.prompt_tokens for row in rows]
    cache = model.new_cache(max(lengths) + most, batch=len(rows))
    padded = [[*row.prefix, *[0] * (max(lengths) - row.prompt_tokens)] for row in rows]
    result = model.forward(padded, cache, at=[length - 1 for length in lengths])
    cache.commit(lengths)
    assert result.logits is not None
    for row, logits in zip(rows, result.logits, strict=True):
        row.take(row.judge(DraftedTokens(tokens=row.prefix[-1:]), logits, 0)[1])
    return cache


def _leave(
    rows: list[_Row],
    cache: KVCache,
    runs: dict[int, SpeculativeRun],
    times: Sequence[StepTimes],
) -> bool:
    """Let requests that have ended leave the batch; whether any stay."""
    for place in reversed(
        range(len(rows))
    ):  # from the end, so that a row moved down has been looked at
        row = rows[place]
        if row.ended is not None:
            runs[row.request] = SpeculativeRun(
                tokens=tuple(row.prefix[row.prompt_tokens :]),
                ended=row.ended,
                drafted=tuple(row.drafted),
                emitted=tuple(row.emitted),
                times=tuple(times),
            )
            cache.release(place)
            rows[place] = rows[-1]
            rows.pop()
    return bool(rows)
