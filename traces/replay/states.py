"""How many tokens do steps emit whose tree depends on where the step before ended?

Walks recorded ranks with one tree per state: as many levels as prompt tokens stood behind the last
accepted token. Leaves out what such a pass costs (`costmodel`) and acceptance without positions
(`costmodel.laws.prompt_states`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.state_trees import StateTrees
from traces.kinds.tree import Tree
from traces.replay.walk import Replay

Whole = NDArray[np.int64]


def state_steps(trace: AcceptanceTrace, states: StateTrees) -> tuple[Whole, Whole]:
    """What a step from every position and in every state emits, and the state that it leads to.

    Args:
        trace: level 2 or more.
        states: the trees.

    Returns:
        Tokens, int64[m, n], at most what is left of the text; and states 1..m, int64[m, n].

    Raises:
        InputError: no ranks; trees that use ranks or levels that were not recorded.
    """
    trace.require(2, "replaying trees of prompt tokens")
    if trace.depth is not None and states.levels > trace.depth:
        rule = f"trees may have at most the {trace.depth} draft levels recorded"
        raise InputError(rule, file=trace.file, key="depth", value=states.levels)
    left = np.repeat(trace.offsets[1:], trace.output_tokens) - np.arange(trace.positions)
    emitted, following = [], []
    for state, tree in enumerate(states.trees, 1):
        node, accepted = _last_accepted(trace, tree, left)
        emitted.append(np.minimum(accepted + 1, left))
        following.append(np.asarray(states.following(state), dtype=np.int64)[node])
    return np.stack(emitted), np.stack(following)


def replay_states(trace: AcceptanceTrace, states: StateTrees) -> tuple[Replay, Whole]:
    """Decode the recorded text again with a tree for every state; every text begins in the last
    one, behind its prompt.

    Args:
        trace: level 2 or more.
        states: the trees.

    Returns:
        Counts per request, whose draft tokens are candidates and the prompt tokens behind them; and
        how many steps were taken in each state, int64[m].

    Raises:
        InputError: as `state_steps`.
    """
    emitted, following = (column.tolist() for column in state_steps(trace, states))
    sizes, first = states.sizes, trace.first_step_position
    steps, drafted = np.zeros(trace.requests, np.int64), np.zeros(trace.requests, np.int64)
    visits = np.zeros(states.levels, np.int64)
    for request, (begin, end) in enumerate(
        zip(trace.offsets[:-1].tolist(), trace.offsets[1:].tolist(), strict=True)
    ):
        place, state = begin + first, states.levels
        while place < end:
            steps[request] += 1
            drafted[request] += sizes[state - 1]
            visits[state - 1] += 1
            place, state = place + emitted[state - 1][place], following[state - 1][place]
    tokens = np.maximum(trace.output_tokens - first, 0)
    replay = Replay(
        draft_tokens=max(sizes),
        tokens=tokens,
        steps=steps,
        proposed_steps=steps,
        drafted_tokens=drafted,
    )
    return replay, visits


def _last_accepted(trace: AcceptanceTrace, tree: Tree, left: Whole) -> tuple[Whole, Whole]:
    """The last accepted node of a step from every position, and the accepted tokens."""
    assert trace.rank is not None
    # rank -1: none
    children = np.pad(tree.child_table(trace.rank_width), ((0, 0), (0, 1)), constant_values=-1)
    place = np.arange(trace.positions)
    node, accepted = np.zeros(trace.positions, np.int64), np.zeros(trace.positions, np.int64)
    going = np.ones(trace.positions, bool)
    for level in range(tree.depth - 1):
        if trace.rank.ndim == 1:
            rank = trace.rank[np.minimum(place + level, trace.positions - 1)]
        else:
            rank = trace.rank[:, level]
        child = children[node, rank]
        going &= (child >= 0) & (left > level)
        if trace.drafted is not None:
            going &= trace.drafted > level
        node = np.where(going, child, node)
        accepted += going
    return node, accepted
