"""Replay of confidence: exact where it says so, near where it does not, refused where it cannot
be."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from tests.property_examples import examples
from tests.traces.toy_masked import ANCHORS, BOLD, EVERY_RULE, STATIC, SURE, Toy, decoded, toy_trace
from traces.kinds.provenance import Provenance
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence.anchors import packed, pooled
from traces.replay.confidence.walk import replay_policy

pytestmark = pytest.mark.heavy

BETWEEN = RefinePolicy(commit="threshold", at={"confidence": 0.75}, block_tokens=8)


def live(policy, names, length):
    """Passes of plain decoding of the toys, and their tokens."""
    runs = [decoded(Toy(int(name.split("-")[1]), length), policy) for name in names]
    return np.array([len(passes) for passes, _ in runs]), np.array([tokens for _, tokens in runs])


@pytest.mark.parametrize("policy", EVERY_RULE, ids=lambda each: each.name)
def test_a_recorded_policy_is_replayed_exactly_among_any_others(policy):
    trace = toy_trace(dict.fromkeys([BOLD, policy, STATIC]), prompts=6)
    replay = replay_policy(trace, policy)
    mine = trace.policy_of_run == trace.policies.index(policy)
    assert replay.how == "recorded" and replay.is_exact
    assert (
        replay.steps.tolist()
        == trace.steps[mine].tolist()
        == live(policy, replay.prompts, 16)[0].tolist()
    )
    assert replay.tokens.tolist() == trace.committed_tokens[mine].tolist()
    assert np.array_equal(replay.lower, replay.steps) and np.array_equal(replay.upper, replay.steps)


@settings(max_examples=examples(25))
@given(st.integers(1, 16), st.sampled_from([4, 8, 16]))
def test_rules_by_count_take_the_passes_of_live_decoding(tokens, block):
    policy = RefinePolicy(commit="static", at={"tokens": tokens}, block_tokens=block)
    replay = replay_policy(toy_trace(ANCHORS, prompts=2), policy)
    assert replay.is_exact
    assert replay.steps.tolist() == live(policy, replay.prompts, 16)[0].tolist()


@pytest.mark.heavy
def test_unrecorded_policies_come_near_live_decoding():
    """Over 40 toys, whose confidence moves with every commit nearby: less near than with a trained
    model."""
    anchors = pooled(toy_trace(ANCHORS, prompts=40, length=32))
    policies = [
        BETWEEN,
        RefinePolicy(commit="factor", at={"factor": 0.7}, block_tokens=8),
        RefinePolicy(
            commit="neighbours",
            at={"confidence": 0.8, "near_confidence": 0.6, "tokens": 2},
            block_tokens=8,
        ),
        RefinePolicy(commit="entropy", at={"entropy": 0.7}, block_tokens=8),
    ]
    for policy in policies:
        replay = replay_policy(anchors, policy)
        steps, tokens = live(policy, replay.prompts, 32)
        assert replay.how == "nearest state" and not replay.is_exact
        assert abs(replay.steps.sum() / steps.sum() - 1) < 0.1, policy.name
        assert np.mean(np.abs(replay.steps - steps) / steps) < 0.1, policy.name
        static = live(dataclasses.replace(STATIC, block_tokens=8), replay.prompts, 32)[1]
        assert abs(replay.agreement.mean - (tokens == static).mean()) < 0.05
        low, high = replay.tokens_per_step_interval
        assert low <= replay.tokens_per_step <= high


def test_more_anchors_come_nearer():
    names, trace = [f"toy-{n}" for n in range(40)], toy_trace(ANCHORS, prompts=40, length=32)
    steps = live(BETWEEN, names, 32)[0]
    few = replay_policy(toy_trace([STATIC], prompts=40, length=32), BETWEEN).steps
    many = replay_policy(trace, BETWEEN).steps
    assert np.abs(many - steps).sum() < np.abs(few - steps).sum()


@pytest.mark.parametrize("drafts", [1, 2, 4, 8])
def test_confirmed_drafts_take_the_passes_of_live_drafting(drafts):
    """Live: the drafts of a state are looked up in the toy, state by state."""
    policy = RefinePolicy(commit="self_verified", at={"drafts": drafts}, block_tokens=8)
    replay = replay_policy(toy_trace(ANCHORS, prompts=8), policy)
    assert replay.how == "confirmed drafts" and replay.agreement.estimate.tolist() == [1.0] * 8
    assert replay.steps.tolist() == [drafted_passes(name, drafts) for name in replay.prompts]
    assert drafts > 1 or replay.steps.tolist() == [16] * 8


def drafted_passes(name, drafts, block=8, length=16):
    toy = Toy(int(name.split("-")[1]), length)
    tokens, passes = [31] * length, 1

    def best(tokens, start):
        cells = toy.says(tokens)
        return sorted((cells[p][1], p, cells[p][0]) for p in cells if start <= p < start + block)

    while 31 in tokens:
        start = (length - tokens.count(31)) // block * block
        surest = best(tokens, start)[:drafts]
        tokens[surest[0][1]] = surest[0][2]
        if 31 not in tokens:
            break
        passes += 1
        for _, place, token in surest[1:]:
            right = best(tokens, start)[0]
            if right[1:] != (place, token):
                break
            tokens[place] = token
    return passes


def test_a_rule_with_delimiters_and_one_of_the_whole_canvas_are_replayed():
    ends = RefinePolicy(
        commit="threshold",
        at={"confidence": 0.9},
        block_tokens=8,
        delimiters=tuple(range(0, 30, 3)),
    )
    replay = replay_policy(toy_trace(ANCHORS, prompts=5), ends)
    assert replay.tokens.tolist() == [16] * 5 and (replay.steps >= 2).all()
    sure = RefinePolicy(commit="gap", at={"early": 0, "middle": 0, "late": 0}, block_tokens=8)
    assert replay_policy(toy_trace(ANCHORS, prompts=5), sure).steps.tolist() == [1] * 5


def test_what_cannot_be_replayed_is_refused_by_name():
    trace = toy_trace(ANCHORS)
    bound = RefinePolicy(commit="entropy_bound", block_tokens=8)
    without = dataclasses.replace(trace, entropy=None)
    for key, given_traces, policy in (
        ("commit", trace, bound),
        ("entropy", without, RefinePolicy(commit="entropy", block_tokens=8)),
        ("block_tokens", trace, RefinePolicy(commit="threshold", block_tokens=6)),
        ("cache", trace, dataclasses.replace(BETWEEN, cache="dual")),
        ("commit", toy_trace([SURE]), RefinePolicy(commit="self_verified", block_tokens=8)),
        ("mask_id", [trace, dataclasses.replace(trace, vocabulary=33)], None),
        ("request_ids", [trace, trace], BETWEEN),
        (
            "model",
            [trace, dataclasses.replace(trace, provenance=Provenance(model="other"))],
            BETWEEN,
        ),
        ("traces", [], BETWEEN),
    ):
        with pytest.raises(InputError) as caught:
            replay_policy(given_traces, policy or BETWEEN)
        assert caught.value.key == (key if policy else "vocabulary")
    own = dataclasses.replace(bound, at={"bound": 0.4})
    assert replay_policy(toy_trace([*ANCHORS, own]), bound).how == "nearest state"


def test_another_mask_is_refused():
    trace, masks = toy_trace([STATIC]), toy_trace([SURE])
    changed = dataclasses.replace(
        masks,
        mask_id=29,
        final_ids=np.where(masks.final_ids == 29, 28, masks.final_ids),
        top_ids=np.where(masks.top_ids == 29, 28, masks.top_ids),
    )
    with pytest.raises(InputError) as caught:
        replay_policy([trace, changed], BETWEEN)
    assert caught.value.key == "mask_id"


def test_a_recording_that_its_own_policy_contradicts_is_refused():
    trace = toy_trace([SURE])
    with pytest.raises(InputError, match="contradicts its policy"):
        replay_policy(dataclasses.replace(trace, policies=(BOLD,)), BOLD)


@given(st.lists(st.lists(st.booleans(), min_size=70, max_size=70), min_size=1, max_size=4))
def test_flags_are_bits_of_little_end_words(rows):
    bits = packed(np.array(rows))
    for row, words in zip(rows, bits, strict=True):
        assert [bool(int(words[i // 64]) >> (i % 64) & 1) for i in range(70)] == row
