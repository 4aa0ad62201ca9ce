"""Shipped confidence traces: what replay says of policies that were also run live."""

import pytest

from costmodel.laws.replayed_refining import replayed_refining
from costmodel.method_library import load_method
from traces.library import trace_file
from traces.replay.confidence.anchors import pooled
from traces.replay.confidence.errors import replay_errors
from traces.replay.confidence.walk import replay_policy
from traces.storage.confidence_file import read_confidence


def shipped(name):
    return read_confidence(trace_file(f"confidence/{name}"))


@pytest.fixture(scope="module")
def anchors():
    return pooled(shipped("masked-names--plain"))


@pytest.mark.parametrize("name", ["masked-names--plain", "masked-names--dual-cache"])
def test_every_shipped_anchor_is_replayed_exactly(name):
    trace = shipped(name)
    states = pooled(trace)
    for place, policy in enumerate(trace.policies):
        replay = replay_policy(states, policy)
        assert replay.how == "recorded"
        assert replay.steps.tolist() == trace.steps[trace.policy_of_run == place].tolist()


def test_live_runs_within_the_anchors_are_met(anchors):
    """Passes within 2 % over all prompts and 5 % per prompt, of rules that commit no more a pass than an anchor."""
    live = [shipped(f"masked-names-{name}--plain") for name in ("live", "live-sure")]
    errors = [error for trace in live for error in replay_errors(anchors, trace)]
    within = [error for error in errors if not error.is_beyond_anchors]
    assert {error.policy.commit for error in within} == {"threshold", "factor", "entropy", "neighbours"}
    for error in within:
        assert error.how == "nearest state" and error.prompts == 32
        assert abs(error.signed) < 0.02, error.policy.name
        assert error.per_prompt < 0.05, error.policy.name


def test_bolder_rules_than_any_anchor_are_called_so_and_are_further_off(anchors):
    beyond = [e for e in replay_errors(anchors, shipped("masked-names-live--plain")) if e.is_beyond_anchors]
    assert {error.policy.commit for error in beyond} == {"threshold", "factor", "neighbours"}
    assert max(abs(error.signed) for error in beyond) > 0.02
    assert all(abs(error.signed) < 0.1 for error in beyond)


def test_fast_dllm_is_replayed_on_the_recording_with_its_cache():
    replay = replayed_refining(load_method("fast-dllm"), shipped("masked-names--dual-cache"))
    assert replay.how == "recorded" and 1.0 < replay.tokens_per_step < 1.2
    assert (replay.full_steps == 2).all()
