"""What does draft-and-verify decoding with a static tree emit, step by step?

A real loop at batch 1: a proposer gives every node of the tree its token, one pass of the target checks them
all, and the walk from the root goes to the child that is what the target answered, while there is one. The
prefill emits the first token. Leaves out which tree to draft (`costmodel.optimizers`), trees that differ from
step to step, and sampled drafts: candidates are deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Literal, Protocol

import torch

from hardware_profiles.errors import InputError
from real_runs.decoding.generate import check_room
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import SpeculativeRun
from real_runs.decoding.stopping import StopRule
from real_runs.decoding.tree import accepted_path, node_depths, tree_mask, tree_positions
from real_runs.drafters.early_exit import Bridge
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama
from traces.tree import Tree

TreeProposer = Callable[[Sequence[int], KVCache, Tree], list[int]]
"""Known ids, the target's cache of all but the last of them, a tree in level order -> token of every node."""

Learner = Callable[[Sequence[int], torch.Tensor], None]
"""Ids that the target has read and its logits after each of them [T, vocabulary]."""


class NodeReader(Protocol):
    """A drafter that reads a node and then has logits for its children."""

    def after_known(self, known: Sequence[int], cache: KVCache) -> torch.Tensor:
        """Logits [vocabulary] after the last known id; `cache` is the target's, of all ids but that one."""

    def after_nodes(
        self, tokens: Sequence[int], cache: KVCache, *, start: int, positions: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Logits [T, vocabulary] after T nodes of one level, which lie in the slots from `start` on."""


class EarlyExitReader:
    """Reads nodes with the target's first layers, in the scratch slots of the target's own cache."""

    def __init__(self, model: Llama, bridge: Bridge) -> None:
        self._model, self._bridge = model, bridge

    def after_known(self, known: Sequence[int], cache: KVCache) -> torch.Tensor:
        """Logits after the last known id."""
        return self._logits(known[-1:], cache, cache.length, None, None)[0]

    def after_nodes(
        self, tokens: Sequence[int], cache: KVCache, *, start: int, positions: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        """Logits after the nodes of one level."""
        return self._logits(tokens, cache, start, positions, mask)

    def _logits(
        self,
        tokens: Sequence[int],
        cache: KVCache,
        start: int,
        positions: torch.Tensor | None,
        mask: torch.Tensor | None,
    ) -> torch.Tensor:
        layer = self._bridge.exit_layer
        states = self._model.forward(
            tokens,
            cache,
            start=start,
            positions=positions,
            mask=mask,
            logits="none",
            capture=(layer,),
            stop_after=layer,
        ).hidden[layer]
        return self._model.head(self._bridge(states[0]))


def by_levels(reader: NodeReader) -> TreeProposer:
    """Draft a tree with one pass of the drafter per level: a node's candidates follow from its own token."""

    def propose(known: Sequence[int], cache: KVCache, tree: Tree) -> list[int]:
        root = len(known) - 1
        tokens = [known[-1]]
        positions, mask = tree_positions(tree.parents, root), tree_mask(tree.parents, root)
        widest = max(tree.ranks) + 1
        candidates = [best_first(reader.after_known(known, cache), widest)] if tree.draft_tokens else []
        for start, stop in pairwise(accumulate(tree.level_widths(), initial=1)):
            tokens += [candidates[tree.parents[node]][tree.ranks[node]] for node in range(start, stop)]
            if stop == tree.nodes:
                break
            logits = reader.after_nodes(
                tokens[start:],
                cache,
                start=root + start,
                positions=positions[start:stop],
                mask=mask[start:stop, : root + stop],
            )
            candidates += [best_first(row, widest) for row in logits]
        return tokens

    return propose


def best_first(logits: torch.Tensor, count: int) -> list[int]:
    """Ids of the `count` largest logits, largest first; equal logits by id, as recorded ranks count them."""
    least = logits.topk(count).values[-1]
    ids = (logits >= least).nonzero()[:, 0]
    order = logits[ids].argsort(descending=True, stable=True)
    return [int(token) for token in ids[order][:count]]


def speculate_tree(
    model: Llama,
    prompt: Sequence[int],
    propose: TreeProposer,
    sampler: Sampler,
    *,
    tree: Tree,
    max_new_tokens: int,
    learn: Learner | None = None,
) -> SpeculativeRun:
    """Decode one request by drafting and verifying the same tree in every step.

    Args:
        model: the target.
        prompt: its ids, at least one.
        propose: the drafter; `by_levels` makes one of a `NodeReader`.
        sampler: greedy or seeded sampling; the tokens of a level share the draw of their position.
        tree: the tree; the root alone decodes plainly.
        max_new_tokens: length limit, >= 1.
        learn: told what the target answered after every prompt token and every node, right or wrong.

    Raises:
        InputError: a prompt that does not fit, or ranks beyond the vocabulary.
    """
    check_room(model, prompt, max_new_tokens)
    if max(tree.ranks) >= model.config.vocabulary:
        raise InputError(f"must lie below {model.config.vocabulary}", key="ranks", value=max(tree.ranks))
    tree = Tree.from_paths(tree.paths())  # level after level, whatever order it came in
    depths = node_depths(tree.parents)
    cache = model.new_cache(len(prompt) + max_new_tokens + tree.draft_tokens)
    stop = StopRule(model.config.eos_ids, max_new_tokens)
    logits = _read(model, prompt, cache, None, "all" if learn else "last")
    cache.commit(len(prompt))
    if learn:
        learn(prompt, logits)
    known = [*prompt, *sampler.tokens(logits[-1:], 0)]
    ended = stop.after(known[-1])
    emitted: list[int] = []
    while ended is None:
        nodes = propose(known, cache, tree)
        logits = _read(model, nodes, cache, tree, "all")
        if learn:
            learn(nodes, logits)
        first = len(known) - len(prompt)
        answers = [sampler.tokens(logits[node][None], first + depth)[0] for node, depth in enumerate(depths)]
        path = accepted_path(tree.parents, nodes, answers)
        cache.compact(path)
        emitted.append(0)
        for node in path:
            known.append(answers[node])
            emitted[-1] += 1
            ended = stop.after(answers[node])
            if ended is not None:
                break
    return SpeculativeRun(
        tokens=tuple(known[len(prompt) :]),
        ended=ended,
        drafted=(tree.draft_tokens,) * len(emitted),
        emitted=tuple(emitted),
    )


def _read(
    model: Llama, tokens: Sequence[int], cache: KVCache, tree: Tree | None, rows: Literal["all", "last"]
) -> torch.Tensor:
    """The target's logits [T or 1, vocabulary] after a text, or after the nodes of a tree."""
    result = model.forward(
        tokens,
        cache,
        positions=tree_positions(tree.parents, cache.length) if tree else None,
        mask=tree_mask(tree.parents, cache.length) if tree else None,
        logits=rows,
    )
    assert result.logits is not None
    return result.logits[0]
