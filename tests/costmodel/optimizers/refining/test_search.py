"""The search over policies of masked decoding answers as each policy alone, and marks what it
cannot answer."""

from dataclasses import replace

import pytest

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.laws.own_pace import own_pace
from costmodel.laws.refined_method import method_policy
from costmodel.method_library import load_method
from costmodel.optimizers.refining.grid import policy_grid, threshold_values
from costmodel.optimizers.refining.search import anchors_by_cache, search_policies
from hardware_profiles.errors import InputError
from tests.traces.toy_masked import toy_trace
from traces.kinds.refine_policy import COMMIT_RULES, RefinePolicy

OWN = method_policy(load_method("fast-dllm"))
QUESTION = DecodingConfiguration(
    deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm"), method="fast-dllm"
)


@pytest.fixture(scope="module")
def recorded():
    def trace(cache):
        at = {"block_tokens": 16, "cache": cache}
        rules = [("static", {}), ("threshold", {"confidence": 0.7})]
        return toy_trace(
            [RefinePolicy(commit=rule, at=values, **at) for rule, values in rules],
            prompts=6,
            length=64,
        )

    return anchors_by_cache([trace("none"), trace("dual")])


@pytest.fixture(scope="module")
def found(recorded):
    policies = policy_grid(OWN, recorded)
    return search_policies(
        QUESTION, recorded, policies, batches=[1, 32], contexts=[0, 900], floor=0.8
    )


def test_the_usual_grid_has_the_blocks_and_caches_that_can_be_answered(recorded):
    policies = policy_grid(OWN, recorded)
    assert {each.block_tokens for each in policies if each.cache == "none"} == {4, 8, 16, 32, 64}
    assert {each.block_tokens for each in policies if each.cache == "dual"} == {16}
    assert {each.cache for each in policies} == {"none", "dual"} and {
        each.commit for each in policies
    } == {"threshold"}


@pytest.mark.parametrize("rule", sorted(COMMIT_RULES))
def test_usual_thresholds_are_in_range(rule):
    for threshold in COMMIT_RULES[rule].at.values():
        values = threshold_values(threshold)
        assert values and all(threshold.lowest <= each <= threshold.highest for each in values)
        assert len(set(values)) == len(values)


def test_every_point_is_what_its_policy_costs_alone(found):
    for point in found.points[::17]:
        assert point.answered
        setting = build_setting(point.configuration)
        pace = own_pace(setting.drafter.method, point.played.replay.tokens_per_step)
        alone = estimate(setting, pace, batch=point.batch, context=point.context)
        assert point.tokens_per_s == pytest.approx(float(alone.tokens_per_s))
        assert point.speedup == pytest.approx(float(alone.speedup))
        twin = build_setting(replace(QUESTION, method="plain-decoding"))
        plain = estimate(twin, geometric(0.0, 0), batch=point.batch, context=point.context)
        assert point.twin_tokens_per_s == pytest.approx(float(plain.tokens_per_s), rel=0.02)


def test_the_winner_meets_the_floor_and_nothing_that_does_is_faster(found):
    for batch in (1, 32):
        for context in (0, 900):
            rows = found.at(batch, context)
            winner = found.winner(batch, context)
            meeting = [each for each in rows if each.meets]
            assert winner is rows[0] and winner.played.agreement >= 0.8
            assert winner.tokens_per_s == max(each.tokens_per_s for each in meeting)


def test_nothing_is_as_fast_and_agrees_more_than_the_front(found):
    rows = found.at(32, 900)
    front = [each for each in rows if each.on_front]
    for point in rows:
        ahead = [
            f
            for f in front
            if f.tokens_per_s >= point.tokens_per_s and f.played.agreement >= point.played.agreement
        ]
        assert ahead
    speeds = [(each.tokens_per_s, each.played.agreement) for each in front]
    for one in speeds:
        assert not any(
            other[0] >= one[0] and other[1] >= one[1] and other != one for other in speeds
        )


def test_a_floor_that_nothing_reaches_has_no_winner(recorded):
    bold = [
        RefinePolicy(commit="threshold", at={"confidence": 0.0}, block_tokens=block)
        for block in (16, 64)
    ]
    found = search_policies(QUESTION, recorded, bold, batches=[1], contexts=[100], floor=1.0)
    assert found.winner(1, 100) is None and all(
        each.answered and not each.meets for each in found.points
    )


def test_what_cannot_be_played_is_marked_and_alone_it_is_refused(recorded):
    able = RefinePolicy(commit="threshold", block_tokens=16)
    marked = {
        RefinePolicy(commit="threshold", block_tokens=24): "divide the canvas of 64",
        RefinePolicy(
            commit="threshold", block_tokens=16, cache="prefix"
        ): "no trace was recorded with this cache",
        RefinePolicy(commit="threshold", block_tokens=32, cache="dual"): "as recorded",
        RefinePolicy(commit="entropy_bound", block_tokens=16): "recordings of its own",
    }
    found = search_policies(
        QUESTION, recorded, [able, *marked], batches=[1], contexts=[100], floor=0.5
    )
    reasons = {point.played.policy: point.reason for point in found.points}
    assert not reasons.pop(able)
    for policy, said in marked.items():
        assert said in reasons[policy]
        with pytest.raises(InputError, match=said):
            search_policies(QUESTION, recorded, [policy], batches=[1], contexts=[100], floor=0.5)
    with pytest.raises(InputError, match="quality-floor"):
        search_policies(QUESTION, recorded, [able], batches=[1], contexts=[100], floor=1.5)


def test_what_does_not_fit_is_marked(recorded):
    small = replace(QUESTION, deployment=DeploymentNames(model="llama-3.1-8b", device="l4"))
    found = search_policies(
        small,
        recorded,
        [replace(OWN, block_tokens=16)],
        batches=[1, 4096],
        contexts=[900],
        floor=0.0,
    )
    assert found.winner(1, 900) is not None and found.winner(4096, 900) is None
    assert "memory" in found.at(4096, 900)[0].reason


def test_without_a_run_of_one_token_a_pass_quality_is_unknown(recorded):
    blind = anchors_by_cache(
        [toy_trace([RefinePolicy(commit="threshold", block_tokens=16)], prompts=3, length=64)]
    )
    found = search_policies(
        QUESTION, blind, policy_grid(OWN, blind), batches=[1], contexts=[9], floor=0.0
    )
    assert found.winner(1, 9) is None and all(
        each.played.agreement is None for each in found.points
    )
