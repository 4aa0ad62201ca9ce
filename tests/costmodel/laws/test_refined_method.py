"""Methods under another policy than their own: the passes that are costed are those that the replay
counts."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.answers.settings import build_setting, configured_method
from costmodel.answers.steps.refine_step import refine_step
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.own_pace import own_pace
from costmodel.laws.refined_method import method_policy, refined_method
from costmodel.laws.refining import pass_counts
from costmodel.method import Refine
from costmodel.method_library import load_method, priced_names
from costmodel.passes.forward import pass_cost
from hardware_profiles.errors import InputError
from tests.traces.toy_masked import toy_trace
from traces.kinds.refine_policy import CACHES, COMMIT_RULES, RefinePolicy
from traces.replay.confidence.walk import replay_policy

pytestmark = pytest.mark.heavy

REFINING = [slug for slug in priced_names() if load_method(slug).refine is not None]


def configuration(policy, canvas=None, slug="fast-dllm"):
    where = DeploymentNames(model="llama-3.1-8b", device="h100-sxm", engine="none")
    return DecodingConfiguration(deployment=where, method=slug, refine=policy, canvas_tokens=canvas)


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("block", [8, 16, 64])
def test_a_policy_costs_the_passes_that_its_replay_counts(cache, block):
    static = RefinePolicy(commit="static", block_tokens=block, cache=cache)
    policy = RefinePolicy(
        commit="threshold", at={"confidence": 0.6}, block_tokens=block, cache=cache
    )
    replay = replay_policy(toy_trace([static, policy], prompts=6, length=64), policy)
    setting = build_setting(configuration(policy, 64))
    pace = own_pace(setting.drafter.method, replay.tokens_per_step)
    assert pace.tokens_per_step == pytest.approx(replay.tokens_per_step)
    step = refine_step(
        setting.deployment,
        setting.drafter,
        setting.overhead,
        tokens_per_step=pace.tokens_per_step,
        batch=1.0,
        context=100.0,
    )
    own = {"none": 164.0, "prefix": (64.0 + block) / 2.0, "dual": float(block)}[cache]
    full = pass_cost(setting.deployment, batch=1.0, query_tokens=164.0, context=0.0, prefill=True)
    part = pass_cost(setting.deployment, batch=1.0, query_tokens=own, context=164.0 - own)
    passes, whole = replay.steps.sum(), replay.full_steps.sum()
    expected = full.total_s * whole + (part.total_s * (passes - whole) if cache != "none" else 0.0)
    assert step.total_s * passes == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("slug", REFINING)
def test_an_entry_under_its_own_policy_is_itself(slug):
    entry = load_method(slug)
    try:
        policy = method_policy(entry)
    except InputError as error:
        assert "confidence trace" in str(error)
        return
    same = refined_method(entry, policy)
    stated = replace(
        same.refine,
        tokens_per_pass=entry.refine.tokens_per_pass,
        reuses=1,
        copies=entry.refine.copies,
    )
    assert stated == entry.refine and same.shape.nodes == entry.shape.nodes


@given(
    cache=st.sampled_from(CACHES),
    rule=st.sampled_from(sorted(COMMIT_RULES)),
    block=st.sampled_from([4, 32, 128]),
)
def test_every_rule_block_and_cache_is_priced(cache, rule, block):
    policy = RefinePolicy(commit=rule, block_tokens=block, cache=cache)
    method = configured_method(configuration(policy))
    assert (
        isinstance(method.refine, Refine)
        and method.refine.commit == rule
        and method.shape.nodes == block
    )
    assert 1.0 <= own_pace(method).tokens_per_step <= block
    counts = pass_counts(method, 4.0)
    assert float(counts["full"] + counts["canvas"] + counts["own"]) == 4.0
    assert float(counts["full"]) == (4.0 if cache == "none" else 1.0)


def test_a_rule_that_commits_by_number_knows_its_pace():
    for rule, at, passes in (("static", {"tokens": 5}, 7), ("doubling", {"tokens": 1}, 6)):
        policy = RefinePolicy(commit=rule, at=at, block_tokens=32, cache="dual")
        assert own_pace(
            refined_method(load_method("llada"), policy)
        ).tokens_per_step == pytest.approx(32 / passes)


def test_a_block_alone_has_no_canvas_beyond_it():
    policy = RefinePolicy(commit="threshold", block_tokens=16, cache="dual")
    method = refined_method(load_method("fast-dllm-v2"), policy, canvas_tokens=256)
    assert method.refine.canvas_tokens == 16 and method.refine.closing_passes == 1
    assert (
        refined_method(method, replace(policy, cache="none")).refine.closing_passes == 0
    )  # nothing is stored


def test_drafts_that_are_confirmed_are_so_many_sequences():
    drafts = RefinePolicy(commit="self_verified", at={"drafts": 8}, block_tokens=32, cache="dual")
    assert refined_method(load_method("freedave"), drafts).refine.copies == 8
    assert (
        refined_method(load_method("freedave"), RefinePolicy(commit="threshold")).refine.copies == 1
    )


@pytest.mark.parametrize(
    ("slug", "policy", "said"),
    [
        ("learn2pd", RefinePolicy(commit="threshold"), "needs more than"),
        ("d2f", RefinePolicy(commit="threshold"), "computes passes"),
        (
            "fast-dllm",
            RefinePolicy(commit="threshold", block_tokens=48),
            "divide the canvas of 256",
        ),
    ],
)
def test_what_no_policy_stands_for_is_refused(slug, policy, said):
    with pytest.raises(InputError, match=said):
        refined_method(load_method(slug), policy)


def test_a_cache_saves_time_and_takes_memory():
    at = {"batch": 1.0, "context": 1000.0, "tokens_per_step": 2.0}
    times = {}
    for cache in CACHES:
        setting = build_setting(configuration(RefinePolicy(commit="threshold", cache=cache)))
        times[cache] = float(
            np.asarray(
                refine_step(setting.deployment, setting.drafter, setting.overhead, **at).total_s
            )
        )
    assert times["dual"] < times["prefix"] < times["none"]
