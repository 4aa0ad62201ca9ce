"""Which is the best tree that an engine can run, and what is lost against the best of all trees?

Engines take fewer trees than there are: chains; the same number of children at every node of a
level (vLLM's token trees keep nothing else); the likeliest nodes of a beam (EAGLE-2, EAGLE-3,
SGLang and TensorRT-LLM: `topk`, steps and draft tokens). The best of each form is exact for sibling
vectors. A beam ranks nodes by what the drafter says at a step, here by the vectors, as if all steps
were alike: its tree is the one that the engine draws at the average step.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from costmodel.optimizers.acceptance_vectors import AcceptanceVectors, acceptance_levels
from costmodel.optimizers.trees.max_plus import INFEASIBLE
from hardware_profiles.errors import InputError
from traces.kinds.tree import Tree, chain_tree

Vector = NDArray[np.float64]
Whole = NDArray[np.int64]
MOST_TOP_K = 32
_EQUAL = 1e-12  # tokens per step


@dataclass(frozen=True, kw_only=True, slots=True)
class RuntimeTree:
    """The best tree of one form.

    Attributes:
        form: `chain`, `level_uniform` or `beam`.
        settings: options of the engine: draft tokens of a chain; children per level; `topk`,
            `steps` and `draft_tokens` of a beam. Draft tokens leave the root out.
        tree: its shape.
        tokens_per_step: expected emitted tokens, bonus included.
    """

    form: str
    settings: Mapping[str, int | list[int]] = field(default_factory=dict)
    tree: Tree
    tokens_per_step: float


def runtime_trees(acceptance: AcceptanceVectors, nodes: int, depth: int) -> list[RuntimeTree]:
    """The best tree of every form within a budget.

    Example:
        >>> [(found.form, found.settings) for found in runtime_trees([0.6, 0.3], nodes=7, depth=4)]
        ... # doctest: +NORMALIZE_WHITESPACE
        [('chain', {'draft_tokens': 3}), ('level_uniform', {'children': [2, 1, 1]}),
         ('beam', {'topk': 2, 'steps': 3, 'draft_tokens': 6})]

    Args:
        acceptance: sibling vector, or one vector per draft depth.
        nodes: most nodes, root included, at least 1.
        depth: most levels, root included, at least 1.

    Returns:
        In the order above; none where the budget leaves the root alone.

    Raises:
        InputError: a value out of range.
    """
    if nodes < 1 or depth < 1:
        raise InputError("must be at least 1", key="nodes, depth", value=[nodes, depth])
    vectors, _ = acceptance_levels(acceptance, min(depth, nodes))
    if not vectors:
        return []
    return [_chain(vectors), level_uniform(vectors, nodes), best_beam(vectors, nodes)]


def expected_tokens(tree: Tree, vectors: Sequence[Vector]) -> float:
    """Tokens per step of a tree: the sum over its nodes of the probability that their path is
    accepted.

    Args:
        tree: any tree; what lies beyond the vectors is never accepted.
        vectors: sibling vector of every draft depth.
    """
    values, levels = [1.0], [0]
    for parent, rank in zip(tree.parents[1:], tree.ranks[1:], strict=True):
        level = levels[parent]
        is_listed = level < len(vectors) and rank < vectors[level].size
        values.append(values[parent] * float(vectors[level][rank]) if is_listed else 0.0)
        levels.append(level + 1)
    return float(np.sum(values))


def _chain(vectors: Sequence[Vector]) -> RuntimeTree:
    """As long as it may be: a longer chain never emits less."""
    tree = chain_tree(len(vectors))
    return RuntimeTree(
        form="chain",
        settings={"draft_tokens": len(vectors)},
        tree=tree,
        tokens_per_step=expected_tokens(tree, vectors),
    )


def level_uniform(vectors: Sequence[Vector], nodes: int) -> RuntimeTree:
    """The best tree of at most `nodes` nodes in which all nodes of a level have as many children.

    W(l, s), the most that s descendants below a node of level l add, is max over b of S_l(b) (1 +
    W(l + 1, s / b - 1)) with the sum S_l(b) of the first b siblings: exact, in O(depth n log n).

    Args:
        vectors: sibling vector of every draft depth, at least one.
        nodes: root included, at least 1.
    """
    below = np.full(nodes, INFEASIBLE)
    below[0] = 0.0
    choices = []
    for vector in reversed(vectors):
        possible = below > INFEASIBLE
        deeper = np.where(possible, 1.0 + np.where(possible, below, 0.0), 0.0)
        worth, chosen = np.full(nodes, INFEASIBLE), np.zeros(nodes, dtype=np.int64)
        worth[0] = 0.0
        for children, sure in enumerate(np.cumsum(vector)[: nodes - 1].tolist(), 1):
            sizes = children * np.arange(1, (nodes - 1) // children + 1)
            gains = sure * deeper[: sizes.size]
            better = possible[: sizes.size] & (gains > worth[sizes])
            worth[sizes[better]], chosen[sizes[better]] = gains[better], children
        below = worth
        choices.append(chosen)
    left, children_by_level = int(np.argmax(below)), []
    for chosen in reversed(choices):
        if left == 0:
            break
        children_by_level.append(int(chosen[left]))
        left = left // children_by_level[-1] - 1
    tree = uniform_tree(children_by_level)
    return RuntimeTree(
        form="level_uniform",
        settings={"children": children_by_level},
        tree=tree,
        tokens_per_step=expected_tokens(tree, vectors),
    )


def uniform_tree(children_by_level: Sequence[int]) -> Tree:
    """The tree whose nodes have so many children at each level, from the root on."""
    parents, ranks, level = [-1], [0], [0]
    for children in children_by_level:
        level = [_add(parents, ranks, node, rank) for node in level for rank in range(children)]
    return Tree(parents=tuple(parents), ranks=tuple(ranks))


def best_beam(
    vectors: Sequence[Vector], nodes: int, *, most_top_k: int = MOST_TOP_K
) -> RuntimeTree:
    """The best of the trees that a beam draws with at most `nodes` nodes, over `topk` and the
    number of steps.

    Args:
        vectors: sibling vector of every draft depth, at least one.
        nodes: root included.
        most_top_k: widest beam that is tried.
    """
    best, settings, drawn = -np.inf, (0, 0), _Pool.of_root()
    widest = max(vector.size for vector in vectors)
    for top_k in range(1, min(most_top_k, widest) + 1):
        for steps, pool in enumerate(_pools(vectors, top_k), 1):
            value = pool.most(nodes - 1)
            if value > best + _EQUAL:
                best, settings, drawn = value, (top_k, steps), pool
    tree = drawn.tree(nodes - 1)
    return RuntimeTree(
        form="beam",
        settings={"topk": settings[0], "steps": settings[1], "draft_tokens": tree.draft_tokens},
        tree=tree,
        tokens_per_step=best,
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Pool:
    """All candidates of a beam in the order in which they were drafted; node 0 is the root."""

    parents: Whole
    ranks: Whole
    values: Vector

    @classmethod
    def of_root(cls) -> "_Pool":
        return cls(parents=np.array([-1]), ranks=np.array([0]), values=np.ones(1))

    def most(self, draft_tokens: int) -> float:
        """What the likeliest candidates emit, the bonus token included."""
        candidates = self.values[1:]
        if candidates.size > draft_tokens:
            candidates = np.partition(candidates, candidates.size - draft_tokens)[
                candidates.size - draft_tokens :
            ]
        return 1.0 + float(candidates.sum())

    def tree(self, draft_tokens: int) -> Tree:
        """The likeliest candidates; a node is never likelier than its parent, which stands before
        it.
        """
        taken = np.sort(1 + np.argsort(-self.values[1:], kind="stable")[:draft_tokens])
        place = np.zeros(self.values.size, dtype=np.int64)
        place[taken] = np.arange(1, taken.size + 1)
        parents = place[self.parents[taken]]
        return Tree(parents=(-1, *parents.tolist()), ranks=(0, *self.ranks[taken].tolist()))


def _pools(vectors: Sequence[Vector], top_k: int) -> Iterator[_Pool]:
    """Candidates after every step: each reads the `top_k` likeliest nodes of the level before."""
    pool, beam = _Pool.of_root(), np.zeros(1, dtype=np.int64)
    for vector in vectors:
        siblings = vector[:top_k]
        values = (pool.values[beam][:, None] * siblings).reshape(-1)
        first = pool.values.size
        pool = _Pool(
            parents=np.concatenate([pool.parents, np.repeat(beam, siblings.size)]),
            ranks=np.concatenate([pool.ranks, np.tile(np.arange(siblings.size), beam.size)]),
            values=np.concatenate([pool.values, values]),
        )
        beam = first + np.argsort(-values, kind="stable")[:top_k]
        yield pool


def _add(parents: list[int], ranks: list[int], parent: int, rank: int) -> int:
    parents.append(parent)
    ranks.append(rank)
    return len(parents) - 1
