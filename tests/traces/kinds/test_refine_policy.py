"""Policies: ranges, defaults, and that JSON brings them back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.kinds.refine_policy import COMMIT_RULES, RefinePolicy, policy_of


def numbers(item):
    if item.whole:
        return st.integers(int(item.lowest), int(item.highest))
    return st.floats(item.lowest, item.highest)


@st.composite
def policies(draw):
    commit = draw(st.sampled_from(sorted(COMMIT_RULES)))
    at = {
        key: draw(numbers(item))
        for key, item in COMMIT_RULES[commit].at.items()
        if draw(st.booleans())
    }
    return RefinePolicy(
        commit=commit,
        at=at,
        block_tokens=draw(st.integers(1, 4096)),
        cache=draw(st.sampled_from(["none", "dual"])),
        stop=draw(st.sampled_from(["full", "end_token"])),
        delimiters=tuple(draw(st.lists(st.integers(0, 99)))),
    )


@given(policies())
def test_a_policy_comes_back_from_json(policy):
    again = policy_of(policy.as_json())
    assert again == policy
    assert hash(again) == hash(policy)
    assert set(policy.at) == set(COMMIT_RULES[policy.commit].at)


@pytest.mark.parametrize("commit", sorted(COMMIT_RULES))
def test_thresholds_outside_their_range_are_refused(commit):
    for key, item in COMMIT_RULES[commit].at.items():
        for value in (item.lowest - 1, item.highest + 1, float("nan"), 10**400, "0.5", True):
            with pytest.raises(InputError) as caught:
                RefinePolicy(commit=commit, at={key: value})
            assert caught.value.key == f"at.{key}"


@pytest.mark.parametrize(
    "values",
    [
        None,
        {},
        {"commit": 3},
        {"commit": "guess"},
        {"commit": "static", "at": {"confidence": 0.5}},
        {"commit": "static", "at": 3},
        {"commit": "static", "block_tokens": 0},
        {"commit": "static", "block_tokens": 2.5},
        {"commit": "static", "cache": "some"},
        {"commit": "static", "cache": []},
        {"commit": "static", "delimiters": [-1]},
        {"commit": "static", "delimiters": [True]},
        {"commit": "static", "delimiter_confidence": 1.5},
        {"commit": "static", "further": 1},
    ],
)
def test_bad_policies_are_refused(values):
    with pytest.raises(InputError):
        policy_of(values)


def test_a_block_must_divide_the_canvas():
    with pytest.raises(InputError, match="must divide the canvas of 64"):
        RefinePolicy(commit="static", block_tokens=24).check_canvas(64)
