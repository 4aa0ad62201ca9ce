"""`predict --trace` of a confidence trace: tokens per pass are those of the replay, and costs those
of the entry."""

import dataclasses
import json

import pytest

from costmodel.configuration import DecodingConfiguration, DeploymentNames
from costmodel.laws.refined_method import method_policy
from costmodel.laws.replayed_refining import replayed_refining
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError
from tests.traces.toy_masked import ANCHORS, toy_trace
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.walk import replay_policy
from traces.storage.confidence_file import read_confidence, write_confidence


@pytest.fixture
def trace(tmp_path):
    anchors = [dataclasses.replace(policy, block_tokens=32, cache="dual") for policy in ANCHORS]
    write_confidence(toy_trace(anchors, prompts=8, length=64), tmp_path / "conf.parquet")
    return tmp_path / "conf.parquet"


def predict(rooftree, *options):
    return rooftree(
        "predict",
        "--model",
        "llama-3.1-8b",
        "--device",
        "h100-sxm",
        "--context",
        "128",
        *options,
        "--json",
    )


def test_a_masked_method_takes_its_pace_from_the_trace(rooftree, trace):
    done = predict(rooftree, "--method", "fast-dllm", "--trace", trace)
    assert done.code == 0, done.err
    row = json.loads(done.out)["predictions"][-1]
    replay = replayed_refining(load_method("fast-dllm"), read_confidence(trace))
    assert replay.how == "recorded" and replay.tokens_per_step > 1.2
    assert row["tokens_per_step"] == pytest.approx(replay.tokens_per_step, rel=1e-3)
    pace = ("--tokens-per-step", str(replay.tokens_per_step), "--canvas", "64")
    stated = predict(rooftree, "--method", "fast-dllm", *pace)
    assert json.loads(stated.out)["predictions"][-1]["step_s"] == pytest.approx(
        row["step_s"], rel=1e-3
    )


def test_what_a_trace_cannot_answer_is_refused(rooftree, trace):
    for method, said in (
        ("fast-dllm-prefix", "as recorded"),
        ("learn2pd", "needs more than"),
        ("medusa", "masked blocks"),
    ):
        done = predict(rooftree, "--method", method, "--trace", trace)
        assert done.code == 2 and said in done.err, done.err
    done = predict(rooftree, "--trace", trace)
    assert done.code == 2 and "--method" in done.err


def answer(done):
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_stated_policy_takes_the_place_of_the_entrys(rooftree, trace, tmp_path):
    stated = ("--commit", "threshold:confidence=0.6", "--block", "32", "--cache", "dual")
    found = answer(predict(rooftree, "--method", "fast-dllm", "--trace", trace, *stated))
    policy = RefinePolicy(commit="threshold", at={"confidence": 0.6}, block_tokens=32, cache="dual")
    replay = replay_policy(read_confidence(trace), policy)
    assert found["predictions"][-1]["tokens_per_step"] == pytest.approx(replay.tokens_per_step)
    assert found["inputs"]["refine"] == policy.as_json() and found["inputs"]["canvas_tokens"] == 64
    chosen = DecodingConfiguration(
        deployment=DeploymentNames(model="llama-3.1-8b"),
        method="fast-dllm",
        refine=policy,
        canvas_tokens=64,
        trace=str(trace),
        batch=1,
        context=128,
    )
    (tmp_path / "chosen.json").write_text(json.dumps(chosen.to_json()))
    read = answer(rooftree("predict", "--config", tmp_path / "chosen.json", "--json"))
    assert read["predictions"][-1] == found["predictions"][1]


def test_a_policy_without_a_trace_needs_its_pace(rooftree):
    even = answer(
        predict(
            rooftree,
            "--method",
            "llada",
            "--commit",
            "static:4",
            "--block",
            "16",
            "--cache",
            "dual",
        )
    )
    assert even["predictions"][-1]["tokens_per_step"] == pytest.approx(4.0)
    done = predict(rooftree, "--method", "llada", "--commit", "threshold:0.9")
    assert done.code == 2 and "confidence trace" in done.err
    paced = answer(
        predict(
            rooftree, "--method", "llada", "--commit", "threshold:0.9", "--tokens-per-step", "3"
        )
    )
    assert paced["predictions"][-1]["tokens_per_step"] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--commit", "treshold:0.9"), "nearest: threshold"),
        (("--commit", "threshold:1.5"), "must lie in [0, 1]"),
        (("--commit", "threshold:sure"), "RULE:VALUES"),
        (("--commit", "threshold:0.9,confidence=0.8"), "twice"),
        (("--commit", "threshold:0.9,0.8"), "one policy"),
        (("--block", "24"), "must divide the canvas of 64"),
        (("--block", "0"), "must lie in"),
        (("--cache", "all"), "must be one of none, prefix, dual"),
        (("--cache", "none"), "as recorded"),
        (("--canvas", "48"), "must divide the canvas of 48"),
        (("--match-rate", "0.5"), "no proposals"),
        (("--draft-tokens", "4"), "no draft tokens"),
    ],
)
def test_options_that_a_trace_or_rule_does_not_know_are_refused(rooftree, trace, options, said):
    done = predict(rooftree, "--method", "fast-dllm", "--trace", trace, *options)
    assert done.code == 2 and said in done.err, done.err


def test_a_method_that_refines_nothing_takes_no_policy(rooftree):
    done = predict(
        rooftree, "--method", "eagle-3", "--acceptance", "0.7", "--commit", "threshold:0.9"
    )
    assert done.code == 2 and "refines no masked blocks" in done.err


def test_entries_say_the_policies_that_their_rules_are():
    assert method_policy(load_method("fast-dllm")).cache == "dual"
    assert method_policy(load_method("fast-dllm-prefix")).cache == "prefix"
    assert method_policy(load_method("localleap")).commit == "neighbours"
    assert method_policy(load_method("prophet")).commit == "gap"
    assert method_policy(load_method("freedave")).rule.exact
    with pytest.raises(InputError, match="does not decode masked blocks"):
        method_policy(load_method("plain-decoding"))
