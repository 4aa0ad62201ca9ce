"""Which tokens would a drafter predict after any continuation of a finished text?

Readers see the true text in one pass; nodes of many trees are then read together, each seeing the
true text up to its own root and its own ancestors. On top of that: the ranks of the true
continuation level by level, and the best-first tree from every output position. Leaves out running
drafters as decoders.

Reference: Xiong et al., DySpec, arXiv 2410.11744, sec. 4.2 (best-first trees); Wang et al.,
OPT-Tree, arXiv 2406.17276, sec. 3 (a node outside the best N needs no children).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from real_runs.drafters.early_exit import RANK_WIDTH
from real_runs.models.bridge import Bridge
from real_runs.models.llama import Llama
from traces.kinds.expansions import Expansions

_TREES_AT_ONCE = 32
_WAVE = 2  # nodes of a tree read at once: more are read for nothing, fewer make small passes
_ROWS_AT_ONCE = 128


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeBatch:
    """F nodes below a read text, to be read into the slots from `start` on.

    Attributes:
        tokens: ids [F].
        roots: slot of the last known token of every node's tree [F].
        parents: slot of every node's parent [F]: its root or a node read before.
        positions: position in the text [F].
        start: first slot to write.
        mask: bool [F, start + F], the slots that every node sees: the text up to its root,
            ancestors, itself.
    """

    tokens: torch.Tensor
    roots: torch.Tensor
    parents: torch.Tensor
    positions: torch.Tensor
    start: int
    mask: torch.Tensor


class TextReader(Protocol):
    """A drafter that reads a finished text and then nodes below any of its tokens."""

    def read_text(self, prompt: Sequence[int], output: Sequence[int], scratch: int) -> torch.Tensor:
        """Logits [n, vocabulary]; row i is what the drafter thinks of output token i given all
        before it.

        Args:
            prompt: its ids, at least one.
            output: the n generated ids.
            scratch: slots that `read_nodes` may use after those of the text.
        """

    def read_nodes(self, nodes: NodeBatch) -> torch.Tensor:
        """Logits [F, vocabulary] after the nodes."""


class LlamaReader:
    """Reads with a model, or with its first layers and a bridge: early exit, layer skip, draft
    model.

    Args:
        model: the drafter, or the target where a bridge leaves it early.
        bridge: map from its exit; None: the whole model drafts.
    """

    def __init__(self, model: Llama, bridge: Bridge | None = None) -> None:
        self._model, self._bridge = model, bridge
        self._cache = model.new_cache(1)

    def read_text(self, prompt: Sequence[int], output: Sequence[int], scratch: int) -> torch.Tensor:
        """Logits [n, vocabulary] before every output token."""
        text = torch.as_tensor([*prompt, *output[:-1]])
        self._cache = self._model.new_cache(len(text) + scratch)
        states = self._states(text, None)[len(prompt) - 1 :]
        self._cache.commit(len(text))
        rows = range(0, len(states), _ROWS_AT_ONCE)
        return torch.cat([self._logits(states[first : first + _ROWS_AT_ONCE]) for first in rows])

    def read_nodes(self, nodes: NodeBatch) -> torch.Tensor:
        """Logits [F, vocabulary] after the nodes."""
        return self._logits(self._states(nodes.tokens, nodes))

    def _states(self, tokens: torch.Tensor, nodes: NodeBatch | None) -> torch.Tensor:
        layer = self._bridge.exit_layer if self._bridge else self._model.config.layers
        return self._model.forward(
            tokens,
            self._cache,
            start=nodes.start if nodes else None,
            positions=nodes.positions if nodes else None,
            mask=nodes.mask if nodes else None,
            logits="none",
            capture=(layer,),
            stop_after=layer,
        ).hidden[layer][0]

    def _logits(self, states: torch.Tensor) -> torch.Tensor:
        return self._model.head(self._bridge(states) if self._bridge else states).cpu()


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpansionLimits:
    """How far trees grow.

    Attributes:
        nodes: of a tree, root excluded, 1..4096.
        depth: levels, 1..64.
        width: candidates of a node, 1..127.

    Raises:
        InputError: out of range.
    """

    nodes: int = 32
    depth: int = 8
    width: int = 8

    def __post_init__(self) -> None:
        for name, most in (("nodes", 4096), ("depth", 64), ("width", 127)):
            if not 1 <= getattr(self, name) <= most:
                raise InputError(f"must lie in 1..{most}", key=name, value=getattr(self, name))


def true_ranks(
    logits: torch.Tensor, tokens: Sequence[int], *, width: int = RANK_WIDTH
) -> NDArray[np.int8]:
    """Rank of a token in every row of logits, -1 outside the first `width`; equal logits rank by
    id.
    """
    ids = torch.as_tensor(list(tokens), device=logits.device)[:, None]
    own = logits.gather(1, ids)
    likelier = (logits > own).sum(dim=1)
    ties = ((logits == own).sum(dim=1) > 1).nonzero()[:, 0]
    likelier[ties] += (
        (logits[ties] == own[ties]) & (torch.arange(logits.shape[1]) < ids[ties])
    ).sum(dim=1)
    return np.where(likelier.numpy() < width, likelier.numpy(), -1).astype(np.int8)


def best_candidates(
    logits: torch.Tensor, width: int
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The `width` likeliest ids of every row, best first, equal ones by id, and their probabilities
    [rows, width].
    """
    best = logits.topk(width, dim=-1)
    # in order of ids first, which the stable sort by value keeps among equals
    ids, by_id = best.indices.sort(dim=-1)
    values, by_value = best.values.gather(1, by_id).sort(dim=-1, descending=True, stable=True)
    probabilities = (values - logits.logsumexp(dim=-1, keepdim=True)).exp()
    return ids.gather(1, by_value).int().numpy(), probabilities.float().numpy()


def path_ranks(
    reader: TextReader, prompt: Sequence[int], output: Sequence[int], *, depth: int
) -> tuple[NDArray[np.int8], torch.Tensor]:
    """Ranks of the true tokens when a step starts at each position and drafts along the true text.

    Args:
        reader: the drafter; it reads the text again.
        prompt: its ids.
        output: the n generated ids.
        depth: levels.

    Returns:
        int8[n, depth]; [i, d] is the rank of output token i + d in a step that starts at i, -1
        outside the first `RANK_WIDTH` and beyond the text. And the drafter's logits [n, vocabulary]
        before every output token.
    """
    n, rows = len(output), len(prompt) + len(output) - 1
    ranks = np.full((n, depth), -1, dtype=np.int8)
    logits = reader.read_text(prompt, output, n * depth)
    ranks[:, 0] = true_ranks(logits, output)
    truth = torch.as_tensor(list(output))
    starts = torch.arange(n)
    roots = len(prompt) - 1 + starts
    slots = roots[:, None]  # per position: the root, then its nodes so far
    start = rows
    for level in range(1, depth):
        alive = starts[: max(0, n - level)]
        if not len(alive):
            break
        count = len(alive)
        own = start + torch.arange(count)
        slots = torch.cat([slots[:count], own[:, None]], dim=1)
        mask = torch.zeros(count, start + count, dtype=torch.bool)
        mask[:, :rows] = torch.arange(rows) <= roots[:count, None]
        mask.scatter_(1, slots, True)
        nodes = NodeBatch(
            tokens=truth[alive + level - 1],
            roots=roots[:count],
            parents=slots[:, -2],
            positions=roots[:count] + level,
            start=start,
            mask=mask,
        )
        ranks[:count, level] = true_ranks(reader.read_nodes(nodes), output[level:])
        start += count
    return ranks, logits


@dataclass(slots=True)
class _Growing:
    """One tree that grows; node 0 is the root.

    Attributes:
        root: slot of the root in the text.
        truth: ids after the root.
        tokens: of every node.
        parents: of every node.
        ranks: of every node among its siblings.
        own: probability of every node below its parent.
        path: log probability of every node below the root.
        levels: of every node; the root's is 0.
        slots: of a node that was read, those of its path, root first.
        true: whether a node spells `truth`.
    """

    root: int
    truth: Sequence[int]
    tokens: list[int] = field(default_factory=lambda: [-1])
    parents: list[int] = field(default_factory=lambda: [-1])
    ranks: list[int] = field(default_factory=lambda: [0])
    own: list[float] = field(default_factory=lambda: [1.0])
    path: list[float] = field(default_factory=lambda: [0.0])
    levels: list[int] = field(default_factory=lambda: [0])
    slots: dict[int, list[int]] = field(default_factory=dict)
    true: list[bool] = field(default_factory=lambda: [True])

    def add_children(
        self, parent: int, ids: NDArray[np.int32], probabilities: NDArray[np.float32]
    ) -> None:
        level = self.levels[parent] + 1
        wanted = self.truth[level - 1] if level <= len(self.truth) else -1
        for rank, (token, probability) in enumerate(
            zip(ids.tolist(), probabilities.tolist(), strict=True)
        ):
            self.tokens.append(token)
            self.parents.append(parent)
            self.ranks.append(rank)
            self.own.append(probability)
            self.path.append(self.path[parent] + float(np.log(max(probability, 1e-30))))
            self.levels.append(level)
            self.true.append(self.true[parent] and token == wanted)

    def best(self, count: int) -> list[int]:
        """The likeliest nodes, root excluded; of equals the one found first, so that parents come
        before children.
        """
        return sorted(range(1, len(self.path)), key=lambda node: (-self.path[node], node))[:count]

    def frontier(self, limits: ExpansionLimits) -> list[int]:
        """Nodes to read next: the likeliest few that are not read, of those that are in the tree as
        it stands.
        """
        best = self.best(limits.nodes)
        return [
            node for node in best if node not in self.slots and self.levels[node] < limits.depth
        ][:_WAVE]


def expansions(
    reader: TextReader, prompt: Sequence[int], output: Sequence[int], limits: ExpansionLimits
) -> tuple[Expansions, torch.Tensor]:
    """The best-first tree of the drafter from every output position.

    Exact but for rounding: a node is read unless `limits.nodes` others are likelier, and no child
    is likelier than its parent, so what is kept are the likeliest nodes of all within the limits;
    the likeliest m of them are what a budget of m nodes keeps.

    Args:
        reader: the drafter.
        prompt: its ids.
        output: the n generated ids.
        limits: how far trees grow.

    Returns:
        The trees, and the drafter's logits [n, vocabulary] before every output token.
    """
    scratch = (
        _TREES_AT_ONCE * _WAVE * limits.nodes
    )  # every wave reads at least one node that stays in the tree
    logits = reader.read_text(prompt, output, scratch)
    ids, probabilities = best_candidates(logits, limits.width)
    start = len(prompt) + len(output) - 1  # behind the text; every group of trees begins anew
    grown: list[_Growing] = []
    for first in range(0, len(output), _TREES_AT_ONCE):
        trees = []
        for position in range(first, min(first + _TREES_AT_ONCE, len(output))):
            tree = _Growing(
                root=len(prompt) - 1 + position, truth=output[position : position + limits.depth]
            )
            tree.slots[0] = [tree.root]
            tree.add_children(0, ids[position], probabilities[position])
            trees.append(tree)
        _grow(reader, trees, start, limits)
        grown += trees
    return _stored(grown, limits), logits


def _grow(reader: TextReader, trees: list[_Growing], start: int, limits: ExpansionLimits) -> None:
    """Read wave after wave of nodes of all trees together until none is missing, into the slots
    from `start` on.
    """
    while True:
        wave = [(tree, node) for tree in trees for node in tree.frontier(limits)]
        if not wave:
            return
        batch = _batch(wave, start)
        ids, probabilities = best_candidates(reader.read_nodes(batch), limits.width)
        for row, (tree, node) in enumerate(wave):
            tree.slots[node] = [*tree.slots[tree.parents[node]], start + row]
            tree.add_children(node, ids[row], probabilities[row])
        start += len(wave)


def _batch(wave: list[tuple[_Growing, int]], start: int) -> NodeBatch:
    """Nodes of a wave, in the slots from `start` on; a node sees the text up to its tree's root,
    the path to its parent, and itself.
    """
    mask = torch.zeros(len(wave), start + len(wave), dtype=torch.bool)
    for row, (tree, node) in enumerate(wave):
        mask[row, : tree.root + 1] = True
        mask[row, [*tree.slots[tree.parents[node]], start + row]] = True
    roots = torch.tensor([tree.root for tree, _ in wave])
    return NodeBatch(
        tokens=torch.tensor([tree.tokens[node] for tree, node in wave]),
        roots=roots,
        parents=torch.tensor([tree.slots[tree.parents[node]][-1] for tree, node in wave]),
        positions=roots + torch.tensor([tree.levels[node] for tree, node in wave]),
        start=start,
        mask=mask,
    )


def _stored(trees: list[_Growing], limits: ExpansionLimits) -> Expansions:
    parents, ranks, own, true, sizes = [], [], [], [], []
    for tree in trees:
        best = tree.best(limits.nodes)
        place = {0: -1} | {node: index for index, node in enumerate(best)}
        parents += [place[tree.parents[node]] for node in best]
        ranks += [tree.ranks[node] for node in best]
        own += [tree.own[node] for node in best]
        true += [tree.true[node] for node in best]
        sizes.append(len(best))
    return Expansions(
        offsets=np.cumsum([0, *sizes], dtype=np.int64),
        parents=np.array(parents, dtype=np.int16),
        rank=np.array(ranks, dtype=np.int8),
        draft_prob=np.array(own, dtype=np.float16),
        on_path=np.array(true, dtype=np.bool_),
        nodes=limits.nodes,
        depth=limits.depth,
        width=limits.width,
    )
