"""Trees by state: what they must hold, and what follows from them."""

import pytest

from hardware_profiles.errors import InputError
from traces.kinds.state_trees import StateTrees
from traces.kinds.tree import Tree

ONE, TWO = Tree.from_paths([(0,), (1,)]), Tree.from_paths([(0,), (0, 0), (1,)])


def test_sizes_rows_and_the_states_that_follow():
    states = StateTrees(trees=(ONE, TWO), prompt_tokens=((2, 1), (1, 2, 1)))
    assert (states.levels, states.sizes, states.rows) == (2, (5, 7), (8, 10))
    assert states.following(1) == (2, 2, 1) and states.following(2) == (2, 1, 2, 1)
    first, second = states.to_json()
    assert first["prompt_tokens"] == [2, 1] and Tree.from_json(second) == TWO


@pytest.mark.parametrize(
    ("trees", "prompts", "key"),
    [
        ((), (), "prompt_tokens"),
        ((ONE,), ((1, 1), (1,)), "prompt_tokens"),
        ((TWO, TWO), ((1, 1, 1), (1, 1, 1)), "trees"),
        ((ONE, ONE), ((1, 1), (1,)), "prompt_tokens"),
        ((ONE, ONE), ((1, 3), (1, 1)), "prompt_tokens"),
        ((ONE, ONE), ((1, 0), (1, 1)), "prompt_tokens"),
        ((Tree(parents=(-1,), ranks=(0,)),), ((),), "trees"),
    ],
)
def test_what_does_not_fit_together_is_refused(trees, prompts, key):
    with pytest.raises(InputError, match=key):
        StateTrees(trees=trees, prompt_tokens=prompts)
