"""A search over policies of masked blocks answers as each policy alone, and says what it cannot
answer for."""

from dataclasses import replace

import pytest

from costmodel.answers.estimate import estimate
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.acceptance import geometric
from costmodel.laws.own_pace import own_pace
from costmodel.laws.refined_method import method_policy
from costmodel.method_library import load_method
from costmodel.optimizers.drafters.sources import prompts_sources
from costmodel.optimizers.policy_front import policy_points
from costmodel.optimizers.recommend import recommend
from costmodel.optimizers.unmet import NothingAllowedError
from hardware_profiles.errors import InputError
from tests.traces.toy_masked import toy_prompts, toy_trace
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.played import recorded_prompts

OWN = method_policy(load_method("fast-dllm"))
QUESTION = DecodingConfiguration(
    deployment=DeploymentNames(model="llama-3.1-8b", device="h100-sxm"), method="fast-dllm"
)
PLACES = [(batch, context) for batch in (1, 32) for context in (0, 900)]


def searched(prompts, policies=None, question=QUESTION, batches=(1,), contexts=(100,), floor=0.5):
    sources = prompts_sources(prompts, "fast-dllm")
    return recommend(
        question, sources, batches=batches, contexts=contexts, policies=policies, floor=floor
    )


def points_at(found, batch, context, floor=0.8):
    return policy_points(found.optimum, batch=batch, context=context, floor=floor)


@pytest.fixture(scope="module")
def recorded():
    return toy_prompts("none", "dual")


@pytest.fixture(scope="module")
def found(recorded):
    return searched(recorded, batches=(1, 32), contexts=(0, 900), floor=0.8)


def test_every_point_is_what_its_policy_costs_alone(found):
    points = [point for place in PLACES for point in points_at(found, *place)]
    for point in points[::17]:
        assert point.fits
        played = point.acceptance.played
        alone = replace(QUESTION, refine=played.policy, canvas_tokens=64)
        setting = build_setting(alone)
        pace = own_pace(setting.drafter.method, played.replay.tokens_per_step)
        where = {"batch": point.batch, "context": point.context}
        priced = estimate(setting, pace, **where)
        assert point.tokens_per_s == pytest.approx(float(priced.tokens_per_s))
        assert point.step_s == pytest.approx(float(priced.step_s))
        speedup = point.tokens_per_s / point.plain_tokens_per_s
        assert speedup == pytest.approx(float(priced.speedup))
        twin = build_setting(replace(QUESTION, method="plain-decoding"))
        plain = estimate(twin, geometric(0.0, 0), **where)
        assert point.plain_tokens_per_s == pytest.approx(float(plain.tokens_per_s), rel=0.02)


def test_the_winner_meets_the_floor_and_nothing_that_does_is_faster(found):
    for batch, context in PLACES:
        rows = points_at(found, batch, context)
        winner = next(
            best for best in found.winners if (best.batch, best.context) == (batch, context)
        )
        meeting = [each for each in rows if each.meets]
        assert winner.acceptance is rows[0].acceptance and winner.acceptance.agreement >= 0.8
        assert winner.configuration.refine == rows[0].acceptance.played.policy
        assert winner.tokens_per_s == max(each.tokens_per_s for each in meeting)


def test_nothing_is_as_fast_and_agrees_more_than_the_front(found):
    rows = points_at(found, 32, 900)
    front = [each for each in rows if each.on_front]
    for point in rows:
        ahead = [
            f
            for f in front
            if f.tokens_per_s >= point.tokens_per_s
            and f.acceptance.agreement >= point.acceptance.agreement
        ]
        assert ahead
    speeds = [(each.tokens_per_s, each.acceptance.agreement) for each in front]
    for one in speeds:
        assert not any(
            other[0] >= one[0] and other[1] >= one[1] and other != one for other in speeds
        )


def test_a_floor_that_nothing_reaches_has_no_winner(recorded):
    bold = [
        RefinePolicy(commit="threshold", at={"confidence": 0.0}, block_tokens=block)
        for block in (16, 64)
    ]
    with pytest.raises(NothingAllowedError, match=r"agrees on 100\.0%") as nothing:
        searched(recorded, bold, floor=1.0)
    assert {unmet.misses for unmet in nothing.value.unmet} == {"quality"}


def test_what_cannot_be_played_is_told_and_alone_it_is_refused(recorded):
    able = RefinePolicy(commit="threshold", block_tokens=16)
    marked = {
        RefinePolicy(commit="threshold", block_tokens=24): "divide the canvas of 64",
        RefinePolicy(
            commit="threshold", block_tokens=16, cache="prefix"
        ): "no trace was recorded with this cache",
        RefinePolicy(commit="threshold", block_tokens=32, cache="dual"): "as recorded",
        RefinePolicy(commit="entropy_bound", block_tokens=16): "recordings of its own",
    }
    reasons = {each.policy: each.reason for each in searched(recorded, [able, *marked]).unplayed}
    assert able not in reasons
    for policy, said in marked.items():
        assert said in reasons[policy]
        with pytest.raises(InputError, match=said):
            searched(recorded, [policy])
    with pytest.raises(InputError, match="quality_floor"):
        searched(recorded, [able], floor=1.5)
    with pytest.raises(InputError, match="one policy at least"):
        searched(recorded, [])


def test_what_does_not_fit_is_unmet(recorded):
    small = replace(QUESTION, deployment=DeploymentNames(model="llama-3.1-8b", device="l4"))
    policies = [replace(OWN, block_tokens=16)]
    found = searched(recorded, policies, small, batches=(1, 4096), contexts=(900,), floor=0.0)
    (winner,), (unmet,) = found.winners, found.optimum.unmet
    assert winner.batch == 1 and (unmet.batch, unmet.misses) == (4096, "memory")
    assert "GiB" in unmet.reason and not any(each.fits for each in points_at(found, 4096, 900))


def test_without_a_run_of_one_token_a_pass_quality_is_unknown():
    blind = recorded_prompts(
        [toy_trace([RefinePolicy(commit="threshold", block_tokens=16)], prompts=3, length=64)]
    )
    with pytest.raises(NothingAllowedError, match="agreement is unknown"):
        searched(blind, floor=0.0)


def test_plain_decoding_is_what_policies_are_set_against_and_never_one_of_them(found):
    assert all(best.topology == "block" for ranked in found.optimum.ranked for best in ranked)
