"""Which candidates and prompt tokens emit most tokens per step, if every step's tree depends on the
one before?

One tree per state within a budget of candidates and prompt tokens. Policy iteration over the states
(Howard): the worth of a state is what the steps from it on emit more than those from the last
state; given these worths the best tree of a state, prompt tokens included, follows by max-plus
convolutions over levels, siblings and the budget. It ends where no state's tree can be better,
which makes the trees the best of all. The paper fixes the first tree's size and takes prompt tokens
away greedily. Leaves out what a pass costs (`costmodel.optimizers.search` weighs sizes by it).

Reference: Chen et al. 2024, "Hardware-Aware Parallel Prompt Decoding" (arXiv:2405.18628), section
4.2; Howard, Dynamic Programming and Markov Processes (1960).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.laws.prompt_states import StateLaw, state_law
from costmodel.optimizers.acceptance_vectors import AcceptanceVectors, acceptance_levels
from costmodel.optimizers.trees.certificate import EXACT, Certificate
from costmodel.optimizers.trees.max_plus import INFEASIBLE, Values, best_share, max_plus
from hardware_profiles.errors import InfeasibleError, InputError
from traces.kinds.state_trees import StateTrees
from traces.kinds.tree import Tree

MOST_SIZE = 1024
MOST_LEVELS = 16
_MOST_ROUNDS = 100
_EQUAL = 1e-12  # tokens per step


@dataclass(frozen=True, kw_only=True, slots=True)
class StateChoice:
    """Trees for every state, their law, and how far they can be from the best ones."""

    states: StateTrees
    law: StateLaw
    certificate: Certificate


@dataclass(frozen=True, kw_only=True, slots=True)
class _Level:
    """Best subtrees whose top lies on one level, by the tokens that they use.

    Args:
        by_prompts: value if the top carries 1, 2, .. m prompt tokens, shape [m, size + 1].
        forests: per number of prompt tokens of the top the best siblings below it from each rank
            on; empty at the end.
    """

    by_prompts: Values
    forests: tuple[tuple[Values, ...], ...]

    @property
    def best(self) -> Values:
        """Value whatever prompt tokens the top carries."""
        return np.asarray(self.by_prompts.max(axis=0))


def best_state_trees(acceptance: AcceptanceVectors, size: int, levels: int) -> StateChoice:
    """The trees of all states that emit most tokens per step in the long run.

    Example:
        >>> found = best_state_trees([[0.6, 0.2], [0.4, 0.1]], size=6, levels=2)
        >>> found.states.sizes, round(found.law.tokens_per_step, 3)
        ((6, 6), 1.933)

    Args:
        acceptance: sibling vector, or one vector per level; probabilities in [0, 1], each vector's
            sum at most 1.
        size: most candidates of a tree and prompt tokens behind them, 2..1024; the root and its own
            left out.
        levels: prompt tokens m behind the root, and most behind a candidate, 1..16; fewer where
            fewer vectors are known.

    Raises:
        InputError: a value out of range.
    """
    if not 1 <= levels <= MOST_LEVELS:
        raise InputError(f"must lie in 1..{MOST_LEVELS}", key="levels", value=levels)
    if not 2 <= size <= MOST_SIZE:
        rule = f"a candidate and its prompt token are two query tokens: must lie in 2..{MOST_SIZE}"
        raise InputError(rule, key="size", value=size)
    vectors = acceptance_levels(acceptance, levels + 1)[0]
    gain, worth = -np.inf, np.zeros(len(vectors))
    for _ in range(_MOST_ROUNDS):
        states, law = _improved(vectors, worth, size, ties=0.0)
        if np.all(
            law.emitted + law.moves @ worth - worth <= gain + _EQUAL
        ):  # no state's tree is better than before
            fewest, same = _improved(vectors, worth, size, ties=_EQUAL)
            if same.tokens_per_step >= law.tokens_per_step - _EQUAL:
                states, law = fewest, same
            return StateChoice(states=states, law=law, certificate=EXACT)
        gain, worth = _worth(law)
    raise InfeasibleError(
        "no best trees were found: acceptance leaves states apart", key="acceptance"
    )


def _improved(
    vectors: Sequence[Values], worth: Values, size: int, *, ties: float
) -> tuple[StateTrees, StateLaw]:
    """Every state's best tree at these worths, the smallest of those within `ties` tokens per step,
    and their law.
    """
    best = [_best_tree(vectors[:state], worth, size, ties) for state in range(1, len(vectors) + 1)]
    states = StateTrees(
        trees=tuple(tree for tree, _ in best), prompt_tokens=tuple(prompts for _, prompts in best)
    )
    return states, state_law(states, vectors)


def _worth(law: StateLaw) -> tuple[float, Values]:
    """Tokens per step, and what the steps from each state on emit more than those from the last
    one.
    """
    count = len(law.emitted)
    equations = np.column_stack([np.ones(count), (np.eye(count) - law.moves)[:, :-1]])
    gain, *others = np.linalg.lstsq(equations, law.emitted, rcond=None)[0].tolist()
    return gain, np.array([*others, 0.0])


def _best_tree(
    vectors: Sequence[Values], worth: Values, size: int, ties: float
) -> tuple[Tree, tuple[int, ...]]:
    """A state's best tree with at least one candidate, and the prompt tokens behind each
    candidate.
    """
    tables: list[_Level] = []
    for vector in [*vectors[1:], None][::-1]:
        tables.append(_level(vector, tables[-1].best if tables else None, worth, size))
    tables.reverse()
    roots = _forests(
        vectors[0], tables[0].best, 0.0, size
    )  # the root leads to the last state, which is worth nothing
    values = roots[0][1:]
    used = 1 + int(np.argmax(values >= values.max() - ties))
    return _grow(vectors, tables, roots, worth, used)


def _level(vector: Values | None, below: Values | None, worth: Values, size: int) -> _Level:
    """Subtrees with their top on a level; `vector` and `below` are of the level beneath, None at
    the last.
    """
    by_prompts = np.full((worth.size, size + 1), INFEASIBLE)
    forests = []
    for prompts, value in enumerate(worth.tolist(), 1):
        rows = () if vector is None or below is None else _forests(vector, below, value, size)
        children = rows[0] if rows else np.concatenate([[0.0], np.full(size, INFEASIBLE)])
        by_prompts[prompts - 1, 1 + prompts :] = 1.0 + value + children[: max(size - prompts, 0)]
        forests.append(rows)
    return _Level(by_prompts=by_prompts, forests=tuple(forests))


def _forests(vector: Values, subtrees: Values, worth: float, size: int) -> tuple[Values, ...]:
    """Best value of siblings b, b + 1, ... that use exactly n tokens: row b of width + 1, column n
    <= size.

    `worth` is that of the state in which the step would end at their parent.
    """
    nothing = np.full(size + 1, INFEASIBLE)
    nothing[0] = 0.0
    rows = [nothing]
    for probability in vector[::-1]:
        row = max_plus(rows[-1], _gains(probability, subtrees, worth))
        row[0] = 0.0
        rows.append(row)
    return tuple(rows[::-1])


def _gains(probability: float, subtrees: Values, worth: float) -> Values:
    """What a child adds by the tokens that its subtree uses."""
    gains = np.full(subtrees.size, INFEASIBLE)
    possible = subtrees > INFEASIBLE
    gains[possible] = probability * (subtrees[possible] - worth)
    return gains


def _grow(
    vectors: Sequence[Values],
    tables: Sequence[_Level],
    roots: tuple[Values, ...],
    worth: Values,
    used: int,
) -> tuple[Tree, tuple[int, ...]]:
    """Read a tree back in level order: at every node a best share for each child in turn, then its
    prompt tokens.
    """
    parents, ranks, prompts = [-1], [0], [0]
    waiting = [(0, used, roots, 0.0)]  # level, tokens below, their table, worth of ending here
    for node, (level, tokens, rows, value) in enumerate(waiting):
        left, rank = tokens, 0
        while left:
            share = best_share(
                rows[rank + 1], _gains(vectors[level][rank], tables[level].best, value), left
            )
            chosen = 1 + int(np.argmax(tables[level].by_prompts[:, share]))
            parents.append(node)
            ranks.append(rank)
            prompts.append(chosen)
            below = tables[level].forests[chosen - 1]
            waiting.append((level + 1, share - 1 - chosen, below, float(worth[chosen - 1])))
            left, rank = left - share, rank + 1
    return Tree(parents=tuple(parents), ranks=tuple(ranks)), tuple(prompts[1:])
