"""What followed the end of this text where it stands in a store of other texts?

The longest end of the known text that the store holds is looked up among the store's suffixes,
which lie in order; what followed it there, all occurrences together, makes a tree of draft tokens,
each with the number of occurrences behind it. Leaves out stores that grow while they serve, and
where the texts come from.

Reference: He et al., REST, arXiv 2311.08252, sec. 3.1 (longest match, exact) and 3.2 (a trie of
what followed, its most frequent prefixes drafted); Manber and Myers, Suffix arrays, 1993.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from real_runs.decoding.sampling import Sampler
from real_runs.decoding.speculative import DraftedTokens, SpeculativeRun, decode, matching
from real_runs.decoding.tree import TreeLayout
from real_runs.models.cache import KVCache
from real_runs.models.llama import Llama
from traces.kinds.expansions import Expansions

LONGEST_MATCH = 16
LEAST_MATCH = 2
TREE_NODES = 64
TREE_DEPTH = 10
_MOST_OCCURRENCES = 4096
_END = -1  # stands behind every text of the store; no match and no draft goes over it


@dataclass(frozen=True, kw_only=True, slots=True)
class RetrievedTree:
    """What followed a match, the most frequent first.

    Attributes:
        tokens: of the draft nodes, root excluded.
        parents: of every node, counted among them, -1 the root; parents come first.
        counts: occurrences that go on to the node.
        occurrences: of the match.
    """

    tokens: tuple[int, ...] = ()
    parents: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    occurrences: int = 0

    def ranks(self) -> list[int]:
        """Place of every node among its siblings, 0 the most frequent."""
        siblings: dict[int, int] = {}
        ranks = []
        for parent in self.parents:
            ranks.append(siblings.get(parent, 0))
            siblings[parent] = ranks[-1] + 1
        return ranks

    def shares(self) -> list[float]:
        """Share of its parent's occurrences that go on to every node, in (0, 1]."""
        above = [self.occurrences, *self.counts]
        return [
            count / above[parent + 1]
            for count, parent in zip(self.counts, self.parents, strict=True)
        ]

    def true_nodes(self, truth: Sequence[int]) -> list[int]:
        """The nodes that spell the ids after the root, from the root down; [] where none does."""
        path: list[int] = []
        for token in truth:
            here = path[-1] if path else -1
            below = (
                node
                for node, parent in enumerate(self.parents)
                if parent == here and self.tokens[node] == token
            )
            child = next(below, None)
            if child is None:
                break
            path.append(child)
        return path

    def likeliest_chain(self) -> list[int]:
        """Tokens of the chain that goes to the most frequent child at every level."""
        chain: list[int] = []
        here = -1
        for node, parent in enumerate(
            self.parents
        ):  # of a node's children the most frequent comes first
            if parent == here:
                chain.append(self.tokens[node])
                here = node
        return chain


class TextStore:
    """Texts whose places are in order of what stands there.

    Args:
        texts: token ids >= 0 of every text.
        least_match: shortest end of a text that is looked up.
        longest_match: longest one; places are in order of so many tokens.

    Raises:
        InputError: no token, an id below 0, or matches out of order.

    Example:
        >>> store = TextStore([[1, 2, 3], [1, 2, 4], [1, 2, 3, 5]])
        >>> tree = store.retrieve([9, 1, 2], nodes=2, depth=4)
        >>> tree.tokens, tree.counts
        ((3, 4), (2, 1))
    """

    def __init__(
        self,
        texts: Sequence[Sequence[int]],
        *,
        least_match: int = LEAST_MATCH,
        longest_match: int = LONGEST_MATCH,
    ) -> None:
        if not 1 <= least_match <= longest_match:
            raise InputError(
                f"must lie in 1..{longest_match}", key="least_match", value=least_match
            )
        parts = [np.append(np.asarray(text, dtype=np.int32), np.int32(_END)) for text in texts]
        self.tokens: NDArray[np.int32] = (
            np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)
        )
        if (
            self.tokens.size <= len(parts)
            or (self.tokens == _END).sum() > len(parts)
            or self.tokens.min() < _END
        ):
            raise InputError("must hold tokens, all >= 0", key="texts", value=len(parts))
        self._least, self._longest = least_match, longest_match
        padded = np.append(self.tokens, np.full(longest_match, _END, dtype=np.int32))
        columns = [
            padded[place : place + self.tokens.size] for place in reversed(range(longest_match))
        ]
        self._order: NDArray[np.int64] = np.lexsort(columns)

    def __len__(self) -> int:
        """Tokens of all texts."""
        return int((self.tokens != _END).sum())

    def retrieve(
        self, prefix: Sequence[int], *, nodes: int = TREE_NODES, depth: int = TREE_DEPTH
    ) -> RetrievedTree:
        """What followed the longest end of a text that the store goes on from.

        Args:
            prefix: the text, its last token the root of the tree.
            nodes: most draft tokens, the most frequent ones.
            depth: most levels.

        Returns:
            The tree; empty where no end of `least_match` tokens or more is in the store.
        """
        for length in range(min(self._longest, len(prefix)), self._least - 1, -1):
            after = self._places(tuple(prefix[len(prefix) - length :])) + length
            tree = self._tree(after[self.tokens[after] != _END], nodes, depth)
            if tree.tokens:
                return tree
        return RetrievedTree()

    def _places(self, pattern: tuple[int, ...]) -> NDArray[np.int64]:
        """Where a pattern stands, evenly chosen 4096 places of them at most."""

        def here(place: int) -> tuple[int, ...]:
            return tuple(self.tokens[place : place + len(pattern)].tolist())

        first = bisect_left(self._order, pattern, key=here)
        stop = bisect_right(self._order, pattern, lo=first, key=here)
        step = max(1, -(-(stop - first) // _MOST_OCCURRENCES))
        return self._order[first:stop:step]

    def _tree(self, places: NDArray[np.int64], nodes: int, depth: int) -> RetrievedTree:
        """The most frequent prefixes of what stands at some places."""
        counts: dict[tuple[int, ...], int] = {}
        for place in places.tolist():
            path: tuple[int, ...] = ()
            for token in self.tokens[place : place + depth].tolist():
                if token == _END:
                    break
                path = (*path, token)
                counts[path] = counts.get(path, 0) + 1
        best = sorted(counts, key=lambda path: (-counts[path], len(path), path))[:nodes]
        node = {(): -1} | {path: index for index, path in enumerate(best)}
        return RetrievedTree(
            tokens=tuple(path[-1] for path in best),
            parents=tuple(node[path[:-1]] for path in best),
            counts=tuple(counts[path] for path in best),
            occurrences=len(places),
        )


class RetrievedChain:
    """Proposes the most frequent chain of the tree that a store holds after the text: the form
    `speculate` calls.
    """

    def __init__(self, store: TextStore) -> None:
        self._store = store

    def __call__(self, prefix: Sequence[int], cache: object, most: int) -> list[int]:
        """Up to `most` tokens."""
        return self._store.retrieve(prefix).likeliest_chain()[:most]


def speculate_retrieved(
    model: Llama,
    prompt: Sequence[int],
    store: TextStore,
    sampler: Sampler,
    *,
    max_new_tokens: int,
    nodes: int = TREE_NODES,
    depth: int = TREE_DEPTH,
) -> SpeculativeRun:
    """Decode one request by verifying what the store holds after the text, a tree made anew in
    every step.

    Args:
        model: the target.
        prompt: its ids, at least one.
        store: texts.
        sampler: greedy or seeded sampling.
        max_new_tokens: length limit, >= 1.
        nodes: most draft tokens of a step.
        depth: most levels.

    Raises:
        InputError: a prompt that does not fit.
    """

    def draft(prefix: Sequence[int], cache: KVCache) -> DraftedTokens:
        tree = store.retrieve(prefix, nodes=nodes, depth=depth)
        layout = TreeLayout(
            [-1, *(parent + 1 for parent in tree.parents)], len(prefix) - 1, model.device
        )
        return DraftedTokens(tokens=[prefix[-1], *tree.tokens], layout=layout)

    return decode(
        model, prompt, draft, matching(sampler), slots=nodes, max_new_tokens=max_new_tokens
    )


def retrieved_arrays(
    store: TextStore,
    prompt: Sequence[int],
    output: Sequence[int],
    *,
    nodes: int = TREE_NODES,
    depth: int = TREE_DEPTH,
) -> dict[str, NDArray[np.int16] | Expansions]:
    """What the store holds at every position of a finished text.

    Args:
        store: texts.
        prompt: its ids.
        output: the n generated ids.
        nodes: most draft tokens of a tree.
        depth: most levels.

    Returns:
        `emitted` and `drafted`, int16[n], of the most frequent chain, and `expansions`, the trees:
        the probability of a node is the share of its parent's occurrences.
    """
    prefix, n = list(prompt), len(output)
    drafted, emitted = np.zeros(n, dtype=np.int16), np.ones(n, dtype=np.int16)
    trees = []
    on_path: list[bool] = []
    for position, token in enumerate(output):
        tree, left = store.retrieve(prefix, nodes=nodes, depth=depth), output[position:]
        chain, true = tree.likeliest_chain(), tree.true_nodes(left)
        run = 0
        while run < min(len(chain), len(left)) and chain[run] == left[run]:
            run += 1
        drafted[position], emitted[position] = len(chain), min(run + 1, len(left))
        on_path += [node in true for node in range(len(tree.tokens))]
        trees.append(tree)
        prefix.append(token)
    return {
        "emitted": emitted,
        "drafted": drafted,
        "expansions": Expansions(
            offsets=np.cumsum([0, *(len(tree.tokens) for tree in trees)], dtype=np.int64),
            parents=np.array([parent for tree in trees for parent in tree.parents], dtype=np.int16),
            rank=np.array([rank for tree in trees for rank in tree.ranks()], dtype=np.int8),
            draft_prob=np.array(
                [share for tree in trees for share in tree.shares()], dtype=np.float16
            ),
            on_path=np.array(on_path, dtype=np.bool_),
            nodes=nodes,
            depth=depth,
            width=nodes,
        ),
    }
