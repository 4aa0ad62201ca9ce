"""Many policies in one call answer as each of them alone does."""

from dataclasses import replace

import numpy as np
import pytest

from hardware_profiles.errors import InputError
from tests.traces.toy_masked import toy_trace
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.anchors import pooled
from traces.replay.confidence.grid import replay_policies
from traces.replay.confidence.walk import replay_policy

ANCHORS = [
    RefinePolicy(commit="static", block_tokens=16),
    RefinePolicy(commit="threshold", at={"confidence": 0.7}, block_tokens=16),
    RefinePolicy(commit="entropy_bound", at={"bound": 0.4}, block_tokens=16),
]
RULES = [
    ("threshold", {"confidence": 0.5}),
    ("threshold", {"confidence": 0.0}),
    ("threshold", {"confidence": 1.0}),
    ("factor", {"factor": 0.0}),
    ("factor", {"factor": 1.7}),
    ("factor", {"factor": 64.0}),
    ("capped", {"confidence": 0.3, "tokens": 1}),
    ("capped", {"confidence": 0.3, "tokens": 3}),
    ("neighbours", {"confidence": 0.7, "near_confidence": 0.2, "tokens": 2}),
    ("neighbours", {}),
    ("entropy", {"entropy": 0.6}),
    ("entropy", {"entropy": 20.0}),
    ("in_order", {"entropy": 1.2, "per_token": 0.1}),
    ("entropy_bound", {"bound": 1.5}),
    ("entropy_bound", {"bound": 0.0}),
    ("running_mean", {}),
    ("gap", {}),
    ("static", {"tokens": 3}),
    ("doubling", {}),
    ("self_verified", {}),
    ("random", {"seed": 4}),
]


def same(one, other):
    names = ("tokens", "steps", "full_steps", "lower", "upper")
    assert all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)
    for name in ("estimate", "lower", "upper"):
        np.testing.assert_array_equal(getattr(one.agreement, name), getattr(other.agreement, name))
    assert (one.policy, one.how, one.boldest, one.prompts) == (
        other.policy,
        other.how,
        other.boldest,
        other.prompts,
    )


@pytest.mark.heavy
@pytest.mark.parametrize("block", [4, 16, 40])
@pytest.mark.parametrize("cache", ["none", "dual"])
def test_a_grid_answers_as_each_policy_alone(block, cache):
    anchors = pooled(
        toy_trace([replace(each, cache=cache) for each in ANCHORS], prompts=3, length=80)
        if cache == "none"
        else toy_trace(
            [replace(each, cache=cache, block_tokens=block) for each in ANCHORS],
            prompts=3,
            length=80,
        )
    )
    policies = [
        RefinePolicy(commit=rule, at=at, block_tokens=block, cache=cache) for rule, at in RULES
    ]
    found = replay_policies(anchors, policies)
    assert len(found) == len(policies)
    for policy, answer in zip(policies, found, strict=True):
        try:
            expected = replay_policy(anchors, policy)
        except InputError as error:
            assert str(answer) == str(error)
            continue
        same(answer, expected)


def test_what_cannot_be_answered_has_its_reason_in_its_place():
    anchors = pooled(toy_trace(ANCHORS[:2], prompts=3, length=64))
    policies = [
        RefinePolicy(commit="threshold", block_tokens=24),
        RefinePolicy(commit="threshold", block_tokens=32, cache="prefix"),
        RefinePolicy(commit="entropy_bound", block_tokens=32),
        RefinePolicy(commit="threshold", block_tokens=32),
        RefinePolicy(commit="threshold", block_tokens=32),
    ]
    divides, cached, own, able, again = replay_policies(anchors, policies, interval=False)
    assert (
        "divide the canvas of 64" in str(divides)
        and "as recorded" in str(cached)
        and "its own" in str(own).replace("of its own alone", "its own")
    )
    assert able is again and np.array_equal(able.lower, able.upper)
