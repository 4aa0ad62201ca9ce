"""CPU time of confidence replay, best of five: a policy over 64 prompts of 64 positions."""

import pytest

from tests.traces.toy_masked import toy_trace
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.anchors import pooled
from traces.replay.confidence.grid import replay_policies
from traces.replay.confidence.walk import replay_policy

PROMPTS, LENGTH, MOST_S, MOST_SEARCH_S = 64, 64, 0.05, 10.0


@pytest.fixture(scope="module")
def trace():
    """Five anchors, as recordings ship."""
    rules = (
        ("static", {}),
        ("threshold", {"confidence": 0.9}),
        ("threshold", {"confidence": 0.5}),
        ("entropy_bound", {"bound": 0.1}),
        ("in_order", {}),
    )
    return toy_trace(
        [RefinePolicy(commit=name, at=at) for name, at in rules], prompts=PROMPTS, length=LENGTH
    )


@pytest.mark.parametrize(
    "policy",
    [
        RefinePolicy(commit="threshold", at={"confidence": 0.8}),
        RefinePolicy(commit="factor"),
        RefinePolicy(commit="neighbours"),
        RefinePolicy(commit="entropy"),
        RefinePolicy(commit="static", at={"tokens": 2}),
    ],
    ids=lambda each: each.commit,
)
def test_a_policy(benchmark, cpu_s, aim, trace, policy):
    anchors = pooled(trace)
    replay = benchmark.pedantic(
        replay_policy, args=(anchors, policy), kwargs={"interval": False}, warmup_rounds=1
    )
    assert replay.tokens.tolist() == [LENGTH] * PROMPTS
    aim("seconds", cpu_s(lambda: replay_policy(anchors, policy, interval=False)), most=MOST_S)
    aim("seconds with its interval", cpu_s(lambda: replay_policy(anchors, policy)), most=3 * MOST_S)


def test_anchors_are_pooled(benchmark, cpu_s, aim, trace):
    anchors = benchmark.pedantic(pooled, args=(trace,), warmup_rounds=1)
    assert len(anchors.prompts) == PROMPTS
    aim("seconds to pool", cpu_s(lambda: pooled(trace)), most=MOST_S)


def test_a_search_over_five_hundred_settings(benchmark, cpu_s, aim, trace):
    """Thresholds times blocks; a tenth of them is timed."""
    anchors = pooled(trace)
    policies = [
        RefinePolicy(commit="threshold", at={"confidence": 0.5 + at / 50}, block_tokens=block)
        for at in range(25)
        for block in (32, 64)
    ]

    def search():
        return [
            replay_policy(anchors, policy, interval=False).tokens_per_step for policy in policies
        ]

    found = benchmark.pedantic(search, rounds=1)
    assert min(found) > 1.0
    aim("seconds for 500", 10 * cpu_s(search, 1), most=MOST_SEARCH_S)


def test_a_search_in_one_call_beside_one_replay_a_setting(benchmark, cpu_s, aim, trace):
    """The same settings through `replay_policies`; the ratio to one `replay_policy` a setting is
    printed."""
    anchors = pooled(trace)
    policies = [
        RefinePolicy(commit="threshold", at={"confidence": 0.5 + at / 500}, block_tokens=block)
        for at in range(250)
        for block in (32, 64)
    ]
    found = benchmark.pedantic(
        replay_policies, args=(anchors, policies), kwargs={"interval": False}, warmup_rounds=1
    )
    assert all(each.tokens.tolist() == [LENGTH] * PROMPTS for each in found)
    together = cpu_s(lambda: replay_policies(anchors, policies, interval=False))
    alone = 10 * cpu_s(
        lambda: [replay_policy(anchors, each, interval=False) for each in policies[::10]], 1
    )
    aim("seconds for 500 together", together, most=MOST_SEARCH_S / 2)
    aim(
        "seconds for 500 with their intervals",
        cpu_s(lambda: replay_policies(anchors, policies)),
        most=MOST_SEARCH_S,
    )
    aim("ratio of one call to one replay a setting", together / alone, most=1.0)
