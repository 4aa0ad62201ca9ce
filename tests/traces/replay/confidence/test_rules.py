"""Commit rules: what loops over sorted lists commit, and what holds for every rule."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from tests.property_examples import examples
from tests.traces.toy_masked import EVERY_RULE, MASK, chosen
from traces.kinds.refine_policy import COMMIT_RULES, RefinePolicy
from traces.replay.confidence.rules import closed_form_passes, committed, random_priority
from traces.replay.confidence.state import Confidence

BY_CONFIDENCE = [policy for policy in EVERY_RULE if policy.stop == "full"]


def state_of(cells, block, step, length):
    """One canvas as the rules see it."""
    masked = np.isin(np.arange(length), list(cells))
    values = np.zeros((3, length), dtype=np.float32)
    for place, said in cells.items():
        values[:, place] = said[1:]
    return Confidence(
        masked=masked[None],
        open=(masked & np.isin(np.arange(length), list(block)))[None],
        doubt=values[:1],
        entropy=values[1:2],
        logit_gap=values[2:],
        pass_of_block=np.array([step]),
        block_confidence=np.array([np.nan]),
        priority=np.arange(length, dtype=np.float64)[None],
        ids=np.array([[cells[p][0] if p in cells else -1 for p in range(length)]]),
        start=np.array([block[0]]),
    )


@st.composite
def canvases(draw, length=16):
    """Cells of some masked positions, coarse enough for ties; one at least lies in the block."""
    block = range(8 * draw(st.integers(0, 1)), 16)[:8]
    held = draw(st.sets(st.integers(0, length - 1)))
    places = sorted({draw(st.sampled_from(block)), *(set(range(length)) - held)})
    value = st.integers(0, 8).map(lambda n: float(np.float16(n / 8)))
    cells = {p: (p, draw(value), draw(value), 8 * draw(value)) for p in places}
    return cells, block, draw(st.integers(0, 4))


@pytest.mark.parametrize("policy", BY_CONFIDENCE, ids=lambda each: each.name)
@settings(max_examples=examples(60))
@given(canvas=canvases())
def test_a_rule_commits_what_its_loop_commits(policy, canvas):
    cells, block, step = canvas
    step = 0 if policy.rule.remembers else step
    found = committed(policy, state_of(cells, block, step, 16))
    assert np.flatnonzero(found[0]).tolist() == sorted(chosen(policy, cells, block, step, 16))


@pytest.mark.parametrize("commit", sorted(COMMIT_RULES))
@settings(max_examples=examples(40))
@given(canvas=canvases(), data=st.data())
def test_every_rule_moves_on_and_commits_masked_positions_alone(commit, canvas, data):
    at = {}
    for key, item in COMMIT_RULES[commit].at.items():
        whole = st.integers(int(item.lowest), min(int(item.highest), 20))
        at[key] = data.draw(whole if item.whole else st.floats(item.lowest, min(item.highest, 4.0)))
    policy = RefinePolicy(commit=commit, at=at)
    state = state_of(*canvas, 16)
    found = committed(policy, state)
    assert found.any() and not (found & ~state.masked).any()
    if commit != "gap":
        assert not (found & ~state.open).any()


def test_a_canvas_without_open_positions_stays():
    state = state_of({3: (3, 0.1, 0.1, 0.1)}, range(8, 16), 0, 16)
    for policy in EVERY_RULE:
        assert not committed(policy, state).any()


@given(canvas=canvases(), low=st.floats(0, 1), high=st.floats(0, 1))
def test_a_lower_threshold_commits_no_less(canvas, low, high):
    state = state_of(*canvas, 16)
    low, high = sorted((low, high))
    more, less = (
        committed(RefinePolicy(commit="threshold", at={"confidence": each}), state)
        for each in (low, high)
    )
    sure = state.open & (state.doubt <= np.float32(np.float16(1 - high)))
    assert not (sure & ~more).any() and not (sure & ~less).any()


def test_the_running_mean_follows_what_the_block_holds():
    policy = RefinePolicy(commit="running_mean", at={"least": 0.5, "most": 0.9})
    cells = {0: (0, 0.2, 0, 0), 1: (1, 0.35, 0, 0), 2: (2, 0.05, 0, 0)}
    for mean, wanted in ((np.nan, [2]), (0.99, [2]), (0.75, [0, 2]), (0.1, [0, 1, 2])):
        state = state_of(cells, range(8), 0, 16)
        state.block_confidence[0] = mean
        assert np.flatnonzero(committed(policy, state)[0]).tolist() == wanted


@given(
    st.sampled_from([1, 2, 4, 8, 16, 32]),
    st.integers(1, 40),
    st.sampled_from(["static", "doubling", "random"]),
)
def test_passes_of_rules_by_count_are_those_of_a_block_times_blocks(blocks, tokens, commit):
    block = 32 // blocks
    policy = RefinePolicy(commit=commit, at={"tokens": tokens}, block_tokens=block)
    left, passes = block, 0
    while left > 0:
        left -= tokens * 2**passes if commit == "doubling" else tokens
        passes += 1
    assert closed_form_passes(policy, 32) == passes * blocks


def test_rules_by_confidence_have_no_closed_form():
    assert closed_form_passes(RefinePolicy(commit="threshold"), 64) is None
    assert closed_form_passes(RefinePolicy(commit="static", stop="end_token"), 64) is None
    with pytest.raises(InputError, match="must divide"):
        closed_form_passes(RefinePolicy(commit="static", block_tokens=24), 64)


def test_a_random_order_depends_on_seed_and_prompt_alone():
    first = random_priority(RefinePolicy(commit="random"), ("a", "b"), 32)
    again = random_priority(RefinePolicy(commit="random"), ("b",), 32)
    other = random_priority(RefinePolicy(commit="random", at={"seed": 1}), ("b",), 32)
    assert sorted(first[0]) == list(range(32)) and not np.array_equal(first[0], first[1])
    assert np.array_equal(first[1], again[0]) and not np.array_equal(again, other)
    assert random_priority(RefinePolicy(commit="static"), ("a",), MASK) is None
