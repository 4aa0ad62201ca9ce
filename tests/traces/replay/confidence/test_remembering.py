"""Rules that read earlier passes: what loops over positions commit, pass after pass, and what
memory is for."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property_examples import examples
from tests.traces.toy_masked import ANCHORS, Toy, chosen, decoded, toy_trace
from traces.kinds.refine_policy import COMMIT_RULES, RefinePolicy
from traces.replay.confidence.rules import committed
from traces.replay.confidence.state import Confidence
from traces.replay.confidence.walk import replay_policy

REMEMBERING = sorted(name for name, rule in COMMIT_RULES.items() if rule.remembers)
LENGTH = 12


@st.composite
def policies(draw):
    commit = draw(st.sampled_from(REMEMBERING))
    share = st.integers(0, 10).map(lambda n: n / 10)
    at = {"confidence": draw(share)}
    if commit == "credit":
        at |= {
            "weight": draw(st.sampled_from([0.0, 0.7, 2.0])),
            "decay": draw(share),
            "power": draw(share),
        }
    elif commit == "history":
        at["passes"] = draw(st.integers(1, 5))
    else:
        at |= {
            "passes": draw(st.integers(1, 4)),
            "window": draw(st.integers(1, 4)),
            "reach_confidence": draw(share),
            "spread": draw(st.sampled_from([0.0, 1.0, 3.0])),
        }
    return RefinePolicy(commit=commit, at=at, block_tokens=draw(st.sampled_from([4, 12])))


@settings(max_examples=examples(150))
@given(policies(), st.integers(0, 2**32 - 1))
def test_many_canvases_commit_what_loops_over_each_commit(policy, seed):
    """Three canvases of drawn probabilities and tokens that change from pass to pass, each at a
    block of its own."""
    draw = np.random.default_rng(seed)
    block, canvases = policy.block_tokens, 3
    masked = np.ones((canvases, LENGTH), dtype=bool)
    memory, mine = {}, [{} for _ in range(canvases)]
    start, passes = np.zeros(canvases, dtype=np.int64), np.zeros(canvases, dtype=np.int64)
    for _ in range(2 * LENGTH):
        if not masked.any():
            break
        doubt = draw.integers(0, 9, masked.shape).astype(np.float32) / 8
        ids = draw.integers(0, 2, masked.shape).astype(np.int32)
        place = np.arange(LENGTH)
        inside = masked & (place >= start[:, None]) & (place < start[:, None] + block)
        found = committed(
            policy,
            Confidence(
                masked=masked,
                open=inside,
                doubt=doubt,
                pass_of_block=passes.copy(),
                ids=ids,
                start=start.copy(),
                block_confidence=np.full(canvases, np.nan),
                memory=memory,
            ),
        )
        for row in range(canvases):
            if not masked[row].any():
                assert not found[row].any()
                continue
            cells = {
                p: (int(ids[row, p]), float(doubt[row, p]), 0.0, 0.0)
                for p in np.flatnonzero(masked[row])
            }
            here = range(start[row], start[row] + block)
            wanted = chosen(policy, cells, here, passes[row], LENGTH, mine[row])
            assert np.flatnonzero(found[row]).tolist() == sorted(wanted)
            passes[row] += 1
            if not (masked & ~found)[row, here[0] : here[-1] + 1].any():
                start[row], passes[row], mine[row] = start[row] + block, 0, {}
        masked = masked & ~found
    assert not masked.any()


@pytest.mark.parametrize(
    "policy",
    [
        RefinePolicy(commit="credit", at={"weight": 0.0, "confidence": 0.7}, block_tokens=8),
        RefinePolicy(commit="history", at={"passes": 1, "confidence": 0.7}, block_tokens=8),
    ],
)
def test_without_memory_both_are_thresholds(policy):
    trace = toy_trace(ANCHORS, prompts=8)
    threshold = RefinePolicy(commit="threshold", at={"confidence": 0.7}, block_tokens=8)
    assert (
        replay_policy(trace, policy).steps.tolist()
        == replay_policy(trace, threshold).steps.tolist()
    )


@settings(max_examples=examples(15))
@given(st.floats(0.3, 0.99), st.integers(0, 9))
def test_credit_never_takes_more_passes_where_tokens_never_change(confidence, seed):
    """A toy whose tokens are fixed: credit raises every probability, so each pass commits all that
    a threshold does."""
    toy = Toy(seed, 16)
    toy.other = toy.ids
    plain, raised = (
        RefinePolicy(commit=commit, at={"confidence": confidence}, block_tokens=16)
        for commit in ("threshold", "credit")
    )
    assert len(decoded(toy, raised)[0]) <= len(decoded(toy, plain)[0])


def test_slow_passes_come_first_and_spans_grow_from_the_left():
    policy = RefinePolicy(commit="phases", at={"passes": 2}, block_tokens=16)
    passes, _ = decoded(Toy(3, 16), policy)
    assert all(len(picked) >= 1 for _, picked, _ in passes)
    trace = toy_trace([policy, *ANCHORS], prompts=6)
    replay = replay_policy(trace, policy)
    assert replay.is_exact and replay.tokens.tolist() == [16] * 6


def test_unrecorded_they_come_near_live_decoding():
    """Over 40 toys; slow and fast phases, which leave the blocks' order of commits, are not among
    them."""
    trace = toy_trace(ANCHORS, prompts=40, length=32)
    for commit in ("credit", "history"):
        policy = RefinePolicy(commit=commit, at={"confidence": 0.8}, block_tokens=8)
        replay = replay_policy(trace, policy)
        steps = np.array([len(decoded(Toy(seed, 32), policy)[0]) for seed in range(40)])
        assert replay.how == "nearest state"
        assert abs(replay.steps.sum() / steps.sum() - 1) < 0.1, policy.name
        again = replay_policy(trace, dataclasses.replace(policy, at={**policy.at}))
        assert again.steps.tolist() == replay.steps.tolist()
