"""How many tokens does a step emit whose tree depends on the prompt tokens that the step before
left behind?

States are a Markov chain: a step in state s verifies the tree of s, and the prompt tokens behind
the last accepted node are the next state. Its long-run shares weigh what the trees emit. Leaves out
which trees are best (`costmodel.optimizers.trees.state_trees`) and what a pass costs
(`costmodel.answers.steps.dynamic_step`).

Reference: Chen et al. 2024, "Hardware-Aware Parallel Prompt Decoding" (arXiv:2405.18628), section
4.2 and appendix A. There a step that accepts nothing counts one step without a tree. The published
loop puts all prompt tokens behind the root, and so does this law: such a step leads to the last
state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from costmodel.laws.acceptance import Acceptance, from_replay
from costmodel.laws.draft_lengths import draft_lengths
from costmodel.method import Shape
from costmodel.passes.ops import Array
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.state_trees import StateTrees
from traces.replay.bootstrap import RequestDraws
from traces.replay.states import replay_states

_SQUARINGS = 64


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class StateLaw:
    """What the trees of all states do in the long run.

    Args:
        moves: probability that a step in state s leads to each state, shape [m, m]; rows sum to 1.
        emitted: tokens of a step in each state, the bonus token counted; shape [m].
        shares: long-run share of the steps in each state, shape [m]; sums to 1 and is stationary
            under `moves`.
    """

    moves: Array
    emitted: Array
    shares: Array

    @property
    def tokens_per_step(self) -> float:
        """Emitted over all steps."""
        return float(self.shares @ self.emitted)


def state_law(states: StateTrees, vectors: Sequence[Array]) -> StateLaw:
    """The chain of states where candidates are right by level and rank alone.

    Example:
        >>> from traces.kinds.tree import Tree
        >>> one = Tree.from_paths([(0,)])
        >>> law = state_law(StateTrees(trees=(one, one), prompt_tokens=((1,), (1,))), [np.array([0.5])] * 2)
        >>> law.moves.tolist(), law.shares.tolist(), law.tokens_per_step
        ([[0.5, 0.5], [0.5, 0.5]], [0.5, 0.5], 1.5)

    Args:
        states: the trees.
        vectors: probability that the k-th candidate of a level is the right one, given that those
            above were; one vector per level, at least m.
    """
    moves, emitted = np.zeros((states.levels, states.levels)), np.ones(states.levels)
    for state, tree in enumerate(states.trees, 1):
        reached, level = np.ones(tree.nodes), tree.node_levels()
        for node in range(1, tree.nodes):
            reached[node] = reached[tree.parents[node]] * vectors[level[node] - 1][tree.ranks[node]]
        ends = reached.copy()
        np.subtract.at(ends, np.asarray(tree.parents[1:]), reached[1:])
        np.add.at(moves[state - 1], np.asarray(states.following(state)) - 1, np.maximum(ends, 0.0))
        emitted[state - 1] = reached.sum()
    moves /= moves.sum(axis=1, keepdims=True)
    return StateLaw(moves=moves, emitted=emitted, shares=long_run_shares(moves))


def long_run_shares(moves: Array) -> Array:
    """Long-run share of the steps in each state of a chain that begins in its last one.

    Args:
        moves: probability of every next state by state, shape [m, m]; rows sum to 1.

    >>> long_run_shares(np.array([[0.0, 1.0], [0.5, 0.5]])).round(3).tolist()
    [0.333, 0.667]
    """
    lazy = (
        np.eye(len(moves)) + moves
    ) / 2.0  # stays half of the time, so that no chain alternates for ever
    for _ in range(_SQUARINGS):
        lazy = lazy @ lazy
        lazy /= lazy.sum(axis=1, keepdims=True)
    return np.asarray(lazy[-1])


def state_acceptance(
    states: StateTrees, law: StateLaw, shape: Shape, *, note: str = ""
) -> Acceptance:
    """What steps emit and verify in the long run.

    Args:
        states: the trees.
        law: of these trees.
        shape: of the method, of kind `state_trees`; its nodes are replaced.
        note: a remark on the number.
    """
    emitted = Acceptance(
        draft_tokens=max(states.sizes),
        tokens_per_step=law.tokens_per_step,
        proposed_tokens=0.0,
        note=note,
    )
    return _with_sizes(emitted, states, law.shares, shape)


def recorded_acceptance(
    trace: AcceptanceTrace,
    states: StateTrees,
    draws: RequestDraws | None,
    shape: Shape,
    *,
    note: str = "",
) -> Acceptance:
    """What steps emit and verify on a recording, by replay.

    Args:
        trace: level 2 or more.
        states: the trees.
        draws: of the requests; None: no samples.
        shape: of the method, of kind `state_trees`; its nodes are replaced.
        note: a remark on the number.

    Raises:
        InputError: trees that use ranks or levels that were not recorded.
    """
    replay, visits = replay_states(trace, states)
    return _with_sizes(
        from_replay(replay, draws, note=note), states, visits.astype(np.float64), shape
    )


def _with_sizes(emitted: Acceptance, states: StateTrees, often: Array, shape: Shape) -> Acceptance:
    sizes = np.asarray(states.sizes)
    lengths = draft_lengths(sizes, np.zeros(sizes.size), weights=often)
    return replace(
        emitted,
        proposed_tokens=lengths.mean_tokens,
        lengths=lengths,
        shape=replace(shape, nodes=int(sizes.max())),
    )
