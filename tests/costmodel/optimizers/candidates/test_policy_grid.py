"""The policies that are tried where none are stated can be answered for, and are in range."""

import pytest

from costmodel.laws.refined_method import method_policy
from costmodel.method_library import load_method
from costmodel.optimizers.candidates.policy_grid import policy_grid, threshold_values
from tests.traces.toy_masked import toy_prompts
from traces.kinds.refine_policy import COMMIT_RULES


def test_the_usual_grid_has_the_blocks_and_caches_that_can_be_answered():
    recorded = {each.cache: each.anchors for each in toy_prompts("none", "dual")}
    policies = policy_grid(method_policy(load_method("fast-dllm")), recorded)
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
