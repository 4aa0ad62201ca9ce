"""The walk over trees by state against a walk written out step by step."""

import numpy as np
import pytest

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.kinds.arrays import leading_hits
from traces.kinds.state_trees import StateTrees
from traces.kinds.tree import Tree
from traces.replay.states import replay_states, state_steps

STATES = StateTrees(
    trees=(Tree.from_paths([(0,), (1,)]), Tree.from_paths([(0,), (1,), (0, 0), (0, 1), (1, 0)])),
    prompt_tokens=((1, 2), (1, 1, 2, 1, 2)),
)


def recorded(seed, invariant, lengths=(40, 1, 63)):
    generator = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    shape = offsets[-1] if invariant else (offsets[-1], 2)
    rank = generator.choice([-1, 0, 1, 2], size=shape, p=[0.2, 0.45, 0.25, 0.1])
    return AcceptanceTrace(
        offsets=offsets,
        emitted=1 + leading_hits(rank, offsets),
        rank=rank,
        rank_width=3,
        depth_invariant=invariant,
    )


def walked(trace, first, end):
    """(state, tokens) of every step of one text: the longest path of right candidates, from the
    last state on."""
    place, state, found = first, STATES.levels, []
    while place < end:
        tree, path = STATES.trees[state - 1], ()
        while place + len(path) < end:
            level = len(path)
            rank = (
                trace.rank[place + level]
                if trace.rank.ndim == 1
                else trace.rank[place, min(level, 1)]
            )
            if (*path, rank) not in tree.paths():
                break
            path = (*path, int(rank))
        found.append((state, min(len(path) + 1, end - place)))
        place += found[-1][1]
        state = STATES.prompt_tokens[state - 1][tree.paths().index(path)] if path else STATES.levels
    return found


@pytest.mark.parametrize("invariant", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_the_walk_takes_the_steps_that_are_written_out(seed, invariant):
    trace = recorded(seed, invariant)
    replay, visits = replay_states(trace, STATES)
    steps = [
        walked(trace, first, end)
        for first, end in zip(trace.offsets[:-1], trace.offsets[1:], strict=True)
    ]
    assert replay.steps.tolist() == [len(each) for each in steps]
    assert replay.tokens.tolist() == [sum(tokens for _, tokens in each) for each in steps]
    assert visits.tolist() == [
        sum(state == one for each in steps for state, _ in each) for one in (1, 2)
    ]
    assert replay.drafted_tokens.tolist() == [
        sum(STATES.sizes[state - 1] for state, _ in each) for each in steps
    ]


def test_no_step_emits_beyond_its_text():
    trace = recorded(7, True)
    emitted, following = state_steps(trace, STATES)
    left = np.repeat(trace.offsets[1:], trace.output_tokens) - np.arange(trace.positions)
    assert np.all(emitted >= 1) and np.all(emitted <= left)
    assert set(np.unique(following)) <= {1, 2}


def test_levels_and_ranks_that_were_not_recorded_are_refused():
    shallow = recorded(0, False)
    with pytest.raises(InputError, match="depth"):
        replay_states(
            shallow,
            StateTrees(trees=STATES.trees[:1] * 3, prompt_tokens=STATES.prompt_tokens[:1] * 3),
        )
    with pytest.raises(InputError, match="level"):
        lengths = AcceptanceTrace(offsets=np.array([0, 2]), emitted=np.ones(2, np.int16))
        replay_states(lengths, STATES)
