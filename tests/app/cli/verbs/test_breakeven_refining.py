"""`breakeven` of masked blocks: the pace from which they beat the same model decoded token by
token."""

import json

import numpy as np
import pytest

import rooftree as python_door
from costmodel.answers.estimate import estimate
from costmodel.answers.refine_breakeven import needed_pace
from costmodel.answers.settings import build_setting
from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.own_pace import own_pace
from traces.kinds.refine_policy import CACHES, RefinePolicy


def setting(policy=None, method="fast-dllm"):
    where = DeploymentNames(model="llada-8b", device="h100-sxm", engine="none")
    return build_setting(DecodingConfiguration(deployment=where, method=method, refine=policy))


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("batch", [1, 3])
def test_the_needed_pace_is_where_both_are_as_fast(cache, batch):
    made = setting(RefinePolicy(commit="threshold", cache=cache))
    needed = needed_pace(made, batch=batch, context=500, generator=np.random.default_rng(0))
    low, high = needed.bounds
    assert (
        1.0 < needed.tokens_per_pass < needed.most == 32.0 and low <= needed.tokens_per_pass <= high
    )

    def speedup(tokens):
        result = estimate(made, own_pace(made.drafter.method, tokens), batch=batch, context=500)
        assert needed.twin_tokens_per_s == pytest.approx(batch / float(result.plain.total_s))
        return float(result.speedup)

    assert speedup(needed.tokens_per_pass) == pytest.approx(1.0, rel=1e-4)
    assert speedup(needed.tokens_per_pass * 0.95) < 1.0 < speedup(needed.tokens_per_pass * 1.05)


def test_caches_lower_the_needed_pace_and_batches_raise_it():
    def pace(cache, batch):
        made = setting(RefinePolicy(commit="threshold", cache=cache))
        return needed_pace(
            made, batch=batch, context=500, generator=np.random.default_rng(0)
        ).tokens_per_pass

    assert pace("dual", 1) < pace("prefix", 1) < pace("none", 1)
    assert pace("dual", 1) < pace("dual", 4)
    assert (
        pace("none", 64) is None
    )  # nothing that a block commits pays for prompt and canvas in every pass


def breakeven(rooftree, *options):
    return rooftree(
        "breakeven",
        "--model",
        "llada-8b",
        "--device",
        "h100-sxm",
        "--method",
        "fast-dllm",
        *options,
    )


def test_the_screen_and_the_object_say_from_which_pace_and_up_to_which_batch(rooftree):
    found = json.loads(breakeven(rooftree, "--batch", "1,64", "--context", "500", "--json").out)
    one, many = found["points"]
    assert (
        one["verdict"] == "on"
        and one["pays"]
        and one["tokens_per_step"] == 2.77 > one["least_tokens_per_step"]
    )
    assert many["verdict"] == "never" and many["least_tokens_per_step"] is None
    (pays,) = found["batches"]
    assert pays["ranges"][0][0] == 1 and 1 <= pays["last_batch"] < 64
    said = breakeven(rooftree, "--batch", "1,64", "--context", "500").out
    assert "beats the twin at batch 1" in said and "never" in said and "KV cache" in said


def test_a_policy_without_a_known_pace_has_its_needed_one(rooftree):
    done = breakeven(
        rooftree, "--commit", "threshold:0.8", "--block", "8", "--batch", "1", "--json"
    )
    (point,) = json.loads(done.out)["points"]
    assert (
        point["block_tokens"] == 8
        and "speedup" not in point
        and point["most_tokens_per_step"] == 8.0
    )


@pytest.mark.parametrize(
    "options", [("--draft-tokens", "4"), ("--exit-layer", "3"), ("--block", "8,16")]
)
def test_drafts_and_several_policies_are_refused(rooftree, options):
    assert breakeven(rooftree, *options).code == 2


def test_the_needed_pace_is_drawn_over_batches():
    asked = {"model": "llada-8b", "device": "h100-sxm", "method": "fast-dllm", "context": 500}
    drawn = python_door.breakeven(batch=[1, 2, 4], **asked).plot()
    (line,) = [each for each in drawn.data if each.mode == "lines+markers"]
    assert list(line.x) == [1, 2, 4] and list(line.y) == sorted(line.y)


def test_a_context_beyond_the_positions_of_the_model_is_refused_as_for_drafts(rooftree):
    asked = ("breakeven", "--model", "gpt2", "--batch", "1", "--context", "2000", "--method")
    for method in ("fast-dllm", "n-gram"):
        done = rooftree(*asked, method)
        assert done.code == 2 and "1,024 positions that gpt2 has learned" in done.err
