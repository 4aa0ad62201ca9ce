"""`predict --trace` of a confidence trace: tokens per pass are those of the replay, and costs those of the entry."""

import dataclasses
import json

import pytest

from costmodel.laws.replayed_refining import method_policy, replayed_refining
from costmodel.method_library import load_method
from hardware_profiles.errors import InputError
from tests.traces.toy_masked import ANCHORS, toy_trace
from traces.storage.confidence_file import read_confidence, write_confidence


@pytest.fixture
def trace(tmp_path):
    anchors = [dataclasses.replace(policy, block_tokens=32, cache="dual") for policy in ANCHORS]
    write_confidence(toy_trace(anchors, prompts=8, length=64), tmp_path / "conf.parquet")
    return tmp_path / "conf.parquet"


def predict(rooftree, *options):
    return rooftree(
        "predict", "--model", "llama-3.1-8b", "--device", "h100-sxm", "--context", "128", *options, "--json"
    )


def test_a_masked_method_takes_its_pace_from_the_trace(rooftree, trace):
    done = predict(rooftree, "--method", "fast-dllm", "--trace", trace)
    assert done.code == 0, done.err
    row = json.loads(done.out)["predictions"][-1]
    replay = replayed_refining(load_method("fast-dllm"), read_confidence(trace))
    assert replay.how == "recorded" and replay.tokens_per_step > 1.2
    assert row["tokens_per_step"] == pytest.approx(replay.tokens_per_step, rel=1e-3)
    stated = predict(rooftree, "--method", "fast-dllm", "--tokens-per-step", str(replay.tokens_per_step))
    assert json.loads(stated.out)["predictions"][-1]["step_s"] == pytest.approx(row["step_s"], rel=1e-3)


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


def test_entries_say_the_policies_that_their_rules_are():
    assert method_policy(load_method("fast-dllm")).cache == "dual"
    assert method_policy(load_method("fast-dllm-prefix")).cache == "prefix"
    assert method_policy(load_method("localleap")).commit == "neighbours"
    assert method_policy(load_method("prophet")).commit == "gap"
    assert method_policy(load_method("freedave")).rule.exact
    with pytest.raises(InputError, match="does not decode masked blocks"):
        method_policy(load_method("plain-decoding"))
