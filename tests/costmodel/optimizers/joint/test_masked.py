"""Policies of masked blocks compete over placements and batch caps as drafts do."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.answers.estimate import estimate
from costmodel.answers.replicas import computed_tokens
from costmodel.optimizers.joint.comparison import compare_designs
from costmodel.optimizers.joint.evaluation import node_load, under_load
from costmodel.optimizers.joint.search import joint_search, nodes_of
from costmodel.optimizers.layouts import layout_named
from costmodel.optimizers.unmet import NothingAllowedError
from hardware_profiles.errors import InputError
from tests.costmodel.optimizers.joint.joint_questions import masked_question, slo

pytestmark = pytest.mark.heavy


def test_the_best_policy_above_the_floor_is_chosen_on_every_placement():
    asked = masked_question(floor=0.9)
    found = joint_search(asked)
    nodes, _ = nodes_of(asked)
    assert {node.placement for node in nodes} == set(asked.placements)
    best = max(float(under_load(asked, node).value.max()) for node in nodes)
    assert found.ranked[0].value == pytest.approx(best)
    for design in (*found.ranked, *found.front):
        assert design.topology == "block" and design.acceptance.agreement >= 0.9
        assert design.configuration.refine == design.acceptance.played.policy


def test_pruning_leaves_the_answer_alone():
    asked = masked_question(
        floor=0.5,
        slo=slo(tpot_ms=20.0),
        rate_stated=True,
        rate=2.0,
        token_budgets=(4096, 16384),
    )
    pruned, every = (joint_search(asked, ranked=2, prune=prune) for prune in (True, False))
    assert [d.configuration for d in pruned.ranked] == [d.configuration for d in every.ranked]
    assert [d.value for d in pruned.front] == [d.value for d in every.front]


def test_one_request_alone_takes_its_passes_and_nothing_for_a_prompt_that_they_compute():
    asked = masked_question(floor=0.5)
    node = next(node for node in nodes_of(asked)[0] if node.placement.layout.devices == 1)
    policy, load = node.candidates[0], node_load(node, asked.load)
    computed = computed_tokens(node.setting, policy, 256.0)
    assert load.decode_context == asked.load.decode_context - 32 and computed == 256 + 15 / 2
    pass_s = estimate(node.setting, policy, batch=1.0, context=load.decode_context).step_s
    rate = under_load(asked, node).busy.requests_per_s[0, 0, 0]
    assert rate == pytest.approx(policy.tokens_per_step / (computed * float(pass_s)))


def test_a_budget_holds_no_more_passes_over_prompt_and_canvas_than_it_has_tokens():
    asked = masked_question(floor=0.5, token_budgets=(1024, 2500, 16384))
    node = next(node for node in nodes_of(asked)[0] if node.placement.layout.devices == 1)
    held = under_load(asked, node).fits[0] @ np.ones(node.batch.size)
    assert held.tolist() == [0, 1, 2]  # of batch caps 1, 4 and 16, at some 1,200 tokens a pass


def test_what_shares_requests_or_layers_in_another_way_is_refused_in_a_sentence():
    layouts = [layout_named(name) for name in ("tp1", "tp1dp2", "tp1pp2")]
    marked = joint_search(masked_question(floor=0.5, layouts=layouts)).unmet
    assert [str(one.placement.layout) for one in marked] == ["tp1dp2", "tp1pp2"]
    assert all("one tensor-parallel group" in one.reason for one in marked)
    with pytest.raises(InputError, match="one tensor-parallel group"):
        joint_search(masked_question(floor=0.5, layouts=layouts[1:]))


def test_a_floor_that_no_policy_reaches_is_said_with_what_is_reached():
    with pytest.raises(NothingAllowedError, match=r"agrees on 100\.0%.* at most"):
        joint_search(masked_question(floor=1.0, sure=(0.0,), block=64, caches=("none",)))
    with pytest.raises(InputError, match="quality_floor"):
        masked_question(floor=1.01)


def test_designs_of_policies_are_compared_by_the_errors_that_they_share():
    asked = masked_question(floor=0.5)
    ranked = joint_search(asked, ranked=2).ranked[:2]
    compared = compare_designs(asked, ranked)
    assert compared.best_probability.sum() == pytest.approx(1.0)
    twin = compare_designs(asked, [ranked[0], replace(ranked[0], value=ranked[0].value)])
    assert np.corrcoef(twin.draws)[0, 1] > 0.2
