"""Which tree should be drafted here, given the drafter's own probabilities?

Trees that differ from step to step: a node's value is the product of the drafter's probabilities
along its path, and the nodes of highest value are verified. One routine drafts them over a
`NodeReader`; a policy says what is read in a pass of the drafter: one node after another in order
of value (`best-first`), a level at a time with every node that may still belong to the best
(`levels`; the same tree, in as many passes as it has levels, for more nodes read), a level at a
time with a fixed beam (`beam`, as EAGLE-2; another tree where the beam is narrower than the
budget), or all levels in one pass of a `BlockReader` (`block`, as DDTree: the tree of `levels` and
`best-first`, since what stands above a node does not matter there). Candidates are deterministic,
so that matching what the target samples is exact. Leaves out trees whose candidates are sampled
(`sampled`).

Reference: Xiong et al., DySpec, arXiv 2410.11744 (there children are sampled); Li et al., EAGLE-2,
arXiv 2406.16858; Wang et al., OPT-Tree, arXiv 2406.17276 (stopping by the gain of a level); Ringel
et al., DDTree, arXiv 2604.12989 (trees of a block drafter); Oh et al., Bastion, arXiv 2605.29727
(as many nodes as pay).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch

from hardware_profiles.errors import InputError
from real_runs.decoding.drafting import BlockReader, NodeReader, watcher_of
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import DraftedTokens, SpeculativeRun, decode, matching
from real_runs.decoding.tree import TreeLayout
from real_runs.decoding.tree_speculative import best_first_rows
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama
from traces.replay.dynamic import paying_nodes

Order = Literal["best-first", "levels", "beam", "block"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DynamicPolicy:
    """How a tree is drafted anew in every step.

    Attributes:
        order: what a pass of the drafter reads.
        draft_tokens: most nodes that are verified, root not counted, >= 1.
        depth: most draft levels, >= 1.
        width: candidates considered below a node, >= 1.
        beam: nodes read per level, for "beam", >= 1.
        least_value: nodes of a smaller value are not drafted, 0..1.
        least_gain: drafting stops after a level that raised the sum of the picked values by no more
            than this; what a pass of the drafter costs in passes of the target is a natural choice.
            0 never stops; "best-first" and "block" read no levels and must have 0.
        cost_ratio: seconds that a node beyond `free_nodes` adds to a step, over those of a step:
            only nodes that pay are verified (`traces.replay.dynamic.paying_nodes`). 0: all pay.
        free_nodes: nodes that cost nothing, >= 0.

    Raises:
        InputError: a value out of range.
    """

    order: Order = "levels"
    draft_tokens: int = 32
    depth: int = 8
    width: int = 8
    beam: int = 8
    least_value: float = 0.0
    least_gain: float = 0.0
    cost_ratio: float = 0.0
    free_nodes: int = 0

    def __post_init__(self) -> None:
        for name in ("draft_tokens", "depth", "width", "beam"):
            if getattr(self, name) < 1:
                raise InputError("must be >= 1", key=name, value=getattr(self, name))
        if self.order not in get_args(Order):
            raise InputError(
                f"must be one of {', '.join(get_args(Order))}", key="order", value=self.order
            )
        for name in ("least_value", "cost_ratio"):
            if not 0 <= getattr(self, name) <= 1:
                raise InputError("must lie in 0..1", key=name, value=getattr(self, name))
        if self.free_nodes < 0:
            raise InputError("must be >= 0", key="free_nodes", value=self.free_nodes)
        if not self.least_gain >= 0 or (self.least_gain and self.order in ("best-first", "block")):
            raise InputError(
                "must be >= 0, and 0 for best-first and block",
                key="least_gain",
                value=self.least_gain,
            )

    @property
    def slots(self) -> int:
        """Most scratch slots of a step beside the root's: nodes verified, or nodes read while
        drafting.
        """
        per_level = self.beam if self.order == "beam" else self.draft_tokens
        read = {"best-first": 1, "block": 0}.get(self.order, per_level * (self.depth - 1))
        return max(self.draft_tokens, read)


@dataclass(frozen=True, kw_only=True, slots=True)
class DynamicTree:
    """A tree drafted for one step, in order of value; node 0 is the root.

    Attributes:
        tokens: token of every node.
        parents: parent of every node, -1 for the root; parents come first.
        values: product of the drafter's probabilities along the path, 1 for the root.
        passes: passes of the drafter that it took.
        nodes_read: nodes that the drafter read, the root included.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    values: tuple[float, ...]
    passes: int
    nodes_read: int


class Growth:
    """Candidates found so far; each is a node of a tree that is larger than the one to be
    verified.

    Attributes:
        tokens: of every candidate, the root first.
        parents: of every candidate, -1 for the root.
        depths: levels below the root.
        logs: logarithm of the product of the drafter's probabilities along the path.
        passes: of the drafter so far.
    """

    def __init__(
        self, reader: NodeReader, prefix: Sequence[int], cache: KVCache, policy: DynamicPolicy
    ) -> None:
        self._reader, self._cache, self._policy = reader, cache, policy
        self._levels = self._read_levels(prefix)
        self._root = len(prefix) - 1
        self.tokens, self.parents, self.depths, self.logs = [prefix[-1]], [-1], [0], [0.0]
        self._paths = {0: [self._root]}  # by node read, the slots that it sees beside the prefix
        self.passes = 1
        self._add_children([0], self._levels[:1])

    @property
    def nodes_read(self) -> int:
        """Candidates that the drafter has read, the root included."""
        return len(self._paths)

    def read(self, nodes: Sequence[int]) -> None:
        """One pass of the drafter over candidates, none an ancestor of another."""
        start = self._root + self.nodes_read
        mask = np.zeros((len(nodes), start + len(nodes)), dtype=np.bool_)
        mask[:, : self._root] = True
        for row, node in enumerate(nodes):
            self._paths[node] = [*self._paths[self.parents[node]], start + row]
            mask[row, self._paths[node]] = True
        logits = self._reader.after_nodes(
            [self.tokens[node] for node in nodes],
            self._cache,
            start=start,
            positions=torch.tensor([self._root + self.depths[node] for node in nodes]),
            mask=torch.from_numpy(mask),
        )
        self.passes += 1
        self._add_children(nodes, logits)

    def look_below(self, node: int) -> None:
        """Find a candidate's children: of a block, the first pass knows its level."""
        if self._policy.order == "block":
            depth = self.depths[node]
            self._add_children([node], self._levels[depth : depth + 1])
        else:
            self.read([node])

    def below(self, node: int) -> list[int]:
        """The children that were found of a candidate, the likeliest first."""
        return [child for child, parent in enumerate(self.parents) if parent == node]

    def path(self, node: int) -> tuple[int, ...]:
        """Tokens from below the root to a candidate."""
        parent = self.parents[node]
        return () if parent < 0 else (*self.path(parent), self.tokens[node])

    def best(self, count: int) -> list[int]:
        """The candidates of highest value, highest first; of equal ones the first found, so parents
        first.
        """
        order = np.argsort(-np.asarray(self.logs[1:]), kind="stable")[:count] + 1
        return [int(node) for node in order]

    def _read_levels(self, prefix: Sequence[int]) -> torch.Tensor:
        """Logits [levels, vocabulary] of the first pass: of the first level, or of the whole
        block.
        """
        if self._policy.order != "block":
            return self._reader.after_prefix(prefix, self._cache)[None]
        if not isinstance(self._reader, BlockReader):
            rule = "needs a drafter whose levels are known after one pass"
            raise InputError(rule, key="order", value=self._policy.order)
        return self._reader.block(prefix, self._cache, self._policy.depth)

    def _add_children(self, nodes: Sequence[int], logits: torch.Tensor) -> None:
        if not len(logits):
            return
        ids = best_first_rows(logits, min(self._policy.width, logits.shape[-1]))
        chosen = logits.gather(1, torch.tensor(ids, device=logits.device))
        least = math.log(self._policy.least_value) if self._policy.least_value else -math.inf
        rows = (chosen - logits.logsumexp(dim=-1, keepdim=True)).tolist()
        for node, tokens, logs in zip(nodes, ids, rows, strict=True):
            for token, log in zip(tokens, logs, strict=True):
                value = self.logs[node] + min(log, 0.0)
                if value >= least:
                    self.tokens.append(token)
                    self.parents.append(node)
                    self.depths.append(self.depths[node] + 1)
                    self.logs.append(value)


def draft_tree(
    reader: NodeReader, prefix: Sequence[int], cache: KVCache, policy: DynamicPolicy
) -> DynamicTree:
    """Draft the tree of one step.

    Args:
        reader: the drafter.
        prefix: prompt and output ids.
        cache: the target's, of all ids of the prefix but the last.
        policy: what to read and what to keep.

    Raises:
        InputError: a drafter that has no levels before it reads nodes, for "block".
    """
    growth = Growth(reader, prefix, cache, policy)
    if policy.order in ("best-first", "block"):
        picked = _by_value(growth, policy)
    else:
        _by_levels(growth, policy)
        picked = growth.best(policy.draft_tokens)
    values = [math.exp(growth.logs[node]) for node in picked]
    picked = picked[: paying_nodes(values, policy.cost_ratio, policy.free_nodes)]
    nodes = [0, *picked]
    place = {node: index for index, node in enumerate(nodes)}
    return DynamicTree(
        tokens=tuple(growth.tokens[node] for node in nodes),
        parents=(-1, *(place[growth.parents[node]] for node in picked)),
        values=tuple(math.exp(growth.logs[node]) for node in nodes),
        passes=growth.passes,
        nodes_read=growth.nodes_read,
    )


def speculate_dynamic(
    model: Llama,
    prompt: Sequence[int],
    reader: NodeReader,
    sampler: Sampler,
    *,
    policy: DynamicPolicy,
    max_new_tokens: int,
    timed: bool = False,
) -> SpeculativeRun:
    """Decode one request by drafting and verifying another tree in every step.

    Args:
        model: the target.
        prompt: its ids, at least one.
        reader: the drafter; shown the target's states if it is a `Watcher`.
        sampler: greedy or seeded sampling; the tokens of a level share the draw of their position.
        policy: how trees are drafted.
        max_new_tokens: length limit, >= 1.
        timed: measure the phases of every step.

    Raises:
        InputError: a prompt that does not fit.
    """

    def draft(prefix: Sequence[int], cache: KVCache) -> DraftedTokens:
        tree = draft_tree(reader, prefix, cache, policy)
        return DraftedTokens(
            tokens=tree.tokens, layout=TreeLayout(tree.parents, len(prefix) - 1, model.device)
        )

    return decode(
        model,
        prompt,
        draft,
        matching(sampler),
        slots=policy.slots,
        max_new_tokens=max_new_tokens,
        watcher=watcher_of(reader),
        timed=timed,
    )


def _by_value(growth: Growth, policy: DynamicPolicy) -> list[int]:
    """Take the candidate of highest value, look below it, and so on: a pass of the drafter per
    node, unless it drafted a whole block at once.
    """
    heap = [(-log, node) for node, log in enumerate(growth.logs) if node]
    heapq.heapify(heap)
    picked: list[int] = []
    while heap and len(picked) < policy.draft_tokens:
        node = heapq.heappop(heap)[1]
        picked.append(node)
        if growth.depths[node] < policy.depth and len(picked) < policy.draft_tokens:
            first = len(growth.logs)
            growth.look_below(node)
            for child in range(first, len(growth.logs)):
                heapq.heappush(heap, (-growth.logs[child], child))
    return picked


def _by_levels(growth: Growth, policy: DynamicPolicy) -> None:
    """Read level after level, while there is something to read and the last level was worth its
    pass.
    """
    picked = growth.best(policy.draft_tokens)
    value = sum(math.exp(growth.logs[node]) for node in picked)
    for depth in range(1, policy.depth):
        if policy.order == "beam":
            level = [
                node for node in growth.best(len(growth.logs)) if growth.depths[node] == depth
            ][: policy.beam]
        else:
            level = [node for node in picked if growth.depths[node] == depth]
        if not level:
            return
        growth.read(level)
        picked, before = growth.best(policy.draft_tokens), value
        value = sum(math.exp(growth.logs[node]) for node in picked)
        if value - before <= policy.least_gain and policy.least_gain > 0:
            return
