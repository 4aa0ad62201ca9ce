"""What does draft-and-verify decoding with a static tree emit, step by step?

A real loop at batch 1: a proposer gives every node of the tree its token, one pass of the target
checks them all, and the walk from the root goes to the child that is what the target answered,
while there is one. The prefill emits the first token. Leaves out which tree to draft
(`costmodel.optimizers`), trees that differ from step to step (`dynamic_tree`), and sampled drafts
(`sampled`): candidates are deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch

from hardware_profiles.errors import InputError
from real_runs.decoding.drafting import NodeReader, TreeProposer, learner_of, watcher_of
from real_runs.decoding.generate import check_room
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import DraftedTokens, SpeculativeRun, decode, matching
from real_runs.decoding.tree import TreeLayout
from real_runs.models.bridge import Bridge
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama
from traces.kinds.tree import Tree


class EarlyExitReader:
    """Reads nodes with the target's first layers, in the scratch slots of the target's own
    cache.
    """

    def __init__(self, model: Llama, bridge: Bridge) -> None:
        self._model, self._bridge = model, bridge

    def after_prefix(self, prefix: Sequence[int], cache: KVCache) -> torch.Tensor:
        """Logits [vocabulary] after the last id of `prefix`."""
        return self._logits(prefix[-1:], cache, cache.length, None, None)[0]

    def after_nodes(
        self,
        tokens: Sequence[int],
        cache: KVCache,
        *,
        start: int,
        positions: torch.Tensor,
        mask: torch.Tensor,
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


class LevelProposer:
    """Drafts a tree with one pass of the drafter per level: a node's candidates follow from its own
    token.

    Positions and masks are built once per tree and cache.

    Attributes:
        reader: the drafter.
    """

    def __init__(self, reader: NodeReader) -> None:
        self.reader = reader
        self._layouts: dict[tuple[Tree, int], TreeLayout] = {}

    def __call__(self, prefix: Sequence[int], cache: KVCache, tree: Tree) -> list[int]:
        """Token of every node: the form `speculate_tree` calls."""
        tokens, root, widest = [prefix[-1]], len(prefix) - 1, max(tree.ranks) + 1
        if not tree.draft_tokens:
            return tokens
        layout = self._layout(tree, cache)
        positions, mask = layout.positions(root), layout.mask(root)
        candidates = best_first_rows(self.reader.after_prefix(prefix, cache)[None], widest)
        for start, stop in pairwise(accumulate(tree.level_widths(), initial=1)):
            tokens += [
                candidates[tree.parents[node]][tree.ranks[node]] for node in range(start, stop)
            ]
            if stop == tree.nodes:
                break
            logits = self.reader.after_nodes(
                tokens[start:],
                cache,
                start=root + start,
                positions=positions[start:stop],
                mask=mask[start:stop, : root + stop],
            )
            candidates += best_first_rows(logits, widest)
        return tokens

    def _layout(self, tree: Tree, cache: KVCache) -> TreeLayout:
        key = (tree, cache.capacity)
        if key not in self._layouts:
            self._layouts = {key: TreeLayout(tree.parents, cache.capacity, cache.keys.device)}
        return self._layouts[key]


def by_levels(reader: NodeReader) -> LevelProposer:
    """A proposer that drafts trees level by level with a reader."""
    return LevelProposer(reader)


def best_first(logits: torch.Tensor, count: int) -> list[int]:
    """Ids of the `count` largest logits, largest first; equal logits by id, as recorded ranks count
    them.
    """
    return best_first_rows(logits[None], count)[0]


def best_first_rows(logits: torch.Tensor, count: int) -> list[list[int]]:
    """`best_first` of every row of logits [T, vocabulary]."""
    values, ids = logits.topk(min(count + 1, logits.shape[-1]), dim=-1)
    tied = (values[:, 1:] == values[:, :-1]).any(dim=-1, keepdim=True)
    read = torch.cat([tied, ids], dim=-1).tolist()  # one wait for the device
    return [
        _among_ties(row, count) if is_tied else best[:count]
        for row, (is_tied, *best) in zip(logits, read, strict=True)
    ]


def _among_ties(logits: torch.Tensor, count: int) -> list[int]:
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
    timed: bool = False,
) -> SpeculativeRun:
    """Decode one request by drafting and verifying the same tree in every step.

    Args:
        model: the target.
        prompt: its ids, at least one.
        propose: the drafter; `by_levels` makes one of a `NodeReader`. If it or its reader is a
            `Watcher`, it is shown the target's states; its method `learn`, if it has one, is called
            with what the target answered after every prompt token and every node, right or wrong.
        sampler: greedy or seeded sampling; the tokens of a level share the draw of their position.
        tree: the tree; the root alone decodes plainly.
        max_new_tokens: length limit, >= 1.
        timed: measure the phases of every step.

    Raises:
        InputError: a prompt that does not fit, or ranks beyond the vocabulary.
    """
    check_room(model, prompt, max_new_tokens)
    tree = level_ordered(tree, model.config.vocabulary)
    layout = TreeLayout(tree.parents, len(prompt) + max_new_tokens, model.device)

    def draft(prefix: Sequence[int], cache: KVCache) -> DraftedTokens:
        return DraftedTokens(tokens=propose(prefix, cache, tree), layout=layout)

    return decode(
        model,
        prompt,
        draft,
        matching(sampler),
        slots=tree.draft_tokens,
        max_new_tokens=max_new_tokens,
        watcher=watcher_of(propose),
        learn=learner_of(propose),
        timed=timed,
    )


def level_ordered(tree: Tree, vocabulary: int) -> Tree:
    """The same tree, level after level, whatever order it came in.

    Raises:
        InputError: ranks beyond the vocabulary.
    """
    if max(tree.ranks) >= vocabulary:
        raise InputError(f"must lie below {vocabulary}", key="ranks", value=max(tree.ranks))
    return Tree.from_paths(tree.paths())
