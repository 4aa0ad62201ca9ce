"""Scenarios that name a confidence trace: which blocks are walked along, and what such a scenario
cannot have."""

import json

import numpy as np
import pytest

from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.refined_method import method_policy, refined_method
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError
from simulator.engine import simulate
from simulator.scenario.build import prepare
from simulator.scenario.configured import sections_of
from simulator.scenario.file import checked_scenario
from traces.kinds.refine_policy import RefinePolicy

DUAL, PLAIN = "confidence/masked-names--dual-cache", "confidence/masked-names--plain"
ACCEPTANCE = "smollm2-135m--prompt-lookup--greedy"
TRAFFIC = {"users": 3, "count": 6, "prompt_tokens": 40, "output_tokens": 96}
WHERE = {"model": "llama-3.1-8b", "device": "h100-sxm"}
WALKED = {"trace": DUAL, "method": "fast-dllm"}


def prepared(speculation, **parts):
    return prepare(
        checked_scenario(
            {"requests": TRAFFIC, "deployment": WHERE, "speculation": speculation} | parts
        )
    )


@pytest.mark.heavy
def test_the_method_s_own_policy_is_walked_on_the_recorded_canvas():
    made = prepared(WALKED)
    blocks = made.refined.blocks
    assert made.refined.policy == method_policy(load_method("fast-dllm"))
    assert blocks.method == refined_method(
        load_method("fast-dllm"), made.refined.policy, canvas_tokens=64
    )
    assert made.setting.drafter.method == blocks.method and made.scenario(3).blocks is blocks
    assert "recorded" in made.notes[0] and any("wait for the others" in note for note in made.notes)
    result = simulate(made.scenario(1))
    assert result.finished.all() and result.counters["emitted"] == 6 * 96
    assert (
        result.counters["prompt_tokens_computed"] == 0
    )  # a block's first pass computes prompt and canvas


def test_a_policy_goes_over_the_method_s_own_key_by_key():
    changed = {"at": {"confidence": 0.5}}
    assert prepared({**WALKED, "refine": changed}).refined.policy.at["confidence"] == 0.5
    other = {
        "trace": PLAIN,
        "method": "fast-dllm",
        "refine": {"commit": "factor", "cache": "none", "block_tokens": 16},
    }
    made = prepared({**other, "canvas_tokens": 128, "ragged": "split"})
    assert made.refined.policy == RefinePolicy(commit="factor", cache="none", block_tokens=16)
    assert made.refined.blocks.canvas_tokens == 128 and made.refined.blocks.held_sequences == 0
    assert not any("wait for the others" in note for note in made.notes)


def test_a_configuration_with_a_policy_is_simulated():
    policy = RefinePolicy(commit="threshold", at={"confidence": 0.5}, cache="dual")
    chosen = DecodingConfiguration(
        deployment=DeploymentNames(**WHERE),
        method="fast-dllm",
        trace=DUAL,
        refine=policy,
        canvas_tokens=64,
    )
    again = DecodingConfiguration.from_json(json.loads(json.dumps(chosen.to_json())))
    made = prepare(checked_scenario({"requests": TRAFFIC, **sections_of(again)}))
    assert made.refined.policy == policy and made.refined.blocks.canvas_tokens == 64
    stated = prepared({**WALKED, "refine": {"at": {"confidence": 0.5}}})
    one, two = (simulate(each.scenario(2)).last_token_s for each in (made, stated))
    np.testing.assert_array_equal(one, two)
    bare = DecodingConfiguration(
        deployment=DeploymentNames(**WHERE), method="fast-dllm", refine=policy
    )
    with pytest.raises(InputError, match="confidence trace") as caught:
        sections_of(bare)
    assert caught.value.key == "trace"


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"draft_tokens": 3}, "draft_tokens"),
        ({"draft_tokens": 0}, "draft_tokens"),
        ({"match_rate": 0.5}, "match_rate"),
        ({"draft": "llama-3.2-1b"}, "draft"),
        ({"shape": "dynamic:4"}, "shape"),
        ({"schedule": [[1, 4, 2]]}, "schedule"),
        ({"stop": "ema"}, "stop"),
        ({"overlap": "pearl"}, "overlap"),
        ({"group_requests": 4}, "group_requests"),
        ({"ragged": "regroup"}, "ragged"),
        ({"method": None}, "method"),
        ({"refine": {"commit": "thresold"}}, "refine"),
        ({"refine": {"at": {"confidence": 2}}}, "refine.at.confidence"),
        ({"refine": {"at": 3}}, "refine"),
    ],
)
def test_what_belongs_to_drafts_is_refused_by_its_key(keys, key):
    with pytest.raises(InputError) as caught:
        prepared({**WALKED, **keys})
    assert caught.value.key == f"speculation.{key}"


@pytest.mark.parametrize(
    ("parts", "key"),
    [
        ({"feed_forward": {}}, "feed_forward"),
        ({"disaggregation": {}}, "disaggregation"),
        ({"deployment": WHERE | {"pipeline_parallel": 2}}, "deployment"),
        ({"scheduler": {"prefix_cache": True}}, "scheduler.prefix_cache"),
        ({"scheduler": {"pass_tokens": 64}}, "scheduler.pass_tokens"),
        ({"deployment": WHERE | {"shared_prefix_tokens": 16}}, "deployment.shared_prefix_tokens"),
    ],
)
def test_parts_that_masked_blocks_are_not_timed_with_are_refused(parts, key):
    with pytest.raises(InputError) as caught:
        prepared(WALKED, **parts)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("speculation", "said"),
    [
        ({**WALKED, "trace": PLAIN}, "as recorded"),
        ({**WALKED, "method": "medusa"}, "masked blocks"),
        ({**WALKED, "method": "learn2pd"}, "needs more than"),
        ({**WALKED, "method": "nothing"}, "nothing"),
        ({**WALKED, "refine": {"block_tokens": 24}}, "divide"),
        ({**WALKED, "canvas_tokens": 48}, "divide"),
        ({**WALKED, "refine": {"commit": "entropy_bound"}}, "recordings of its own"),
        (
            {
                "method": "fast-dllm",
                "refine": {"block_tokens": 32},
                "acceptance": 0.5,
                "draft_tokens": 2,
            },
            "a confidence",
        ),
        ({"method": "fast-dllm", "trace": ACCEPTANCE, "draft_tokens": 2}, "confidence trace"),
    ],
)
def test_what_the_trace_cannot_answer_is_said(speculation, said):
    with pytest.raises(InputError, match=said):
        prepared(speculation)
