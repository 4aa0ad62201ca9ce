"""States of recordings: the bits say which cells there are, and memory follows cells and passes,
not the canvas."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from tests.property_examples import examples
from tests.traces.toy_masked import ANCHORS, EVERY_RULE, STATIC, toy_trace
from traces.kinds import confidence
from traces.kinds.confidence import ConfidenceTrace
from traces.kinds.refine_policy import RefinePolicy
from traces.replay.confidence import walk
from traces.replay.confidence.anchors import pooled
from traces.replay.confidence.walk import replay_policy
from traces.storage.confidence_file import read_confidence, write_confidence

BETWEEN = RefinePolicy(commit="threshold", at={"confidence": 0.7}, block_tokens=8)


@settings(max_examples=examples(20))
@given(
    st.sets(st.sampled_from(EVERY_RULE), min_size=1, max_size=3),
    st.integers(1, 4),
    st.sampled_from([16, 80]),
)
def test_states_have_the_cells_of_their_passes(policies, prompts, length):
    """Cells are numbered as the trace has them, whatever the order of states."""
    trace = toy_trace(sorted(policies, key=lambda each: each.name), prompts=prompts, length=length)
    states = pooled(trace)
    _, step, position = trace.cells()
    expected = np.full((len(trace.forward), length), -1)
    expected[step, position] = np.arange(len(step))
    prompt_of_run = np.array([states.prompts.index(name) for name in trace.request_ids])
    run_of_step = np.repeat(np.arange(trace.runs), trace.steps)
    order = np.lexsort((trace.policy_of_run[run_of_step], prompt_of_run[run_of_step]))
    assert np.array_equal(states.cells(np.arange(len(order))), expected[order])
    assert np.array_equal(states.run_of_row, run_of_step[order])


@pytest.mark.parametrize("size", [1, 40])
def test_groups_change_nothing(monkeypatch, size):
    trace = toy_trace(ANCHORS, prompts=7)
    whole = replay_policy(trace, BETWEEN)
    monkeypatch.setattr(confidence, "GROUP_POSITIONS", size)
    monkeypatch.setattr(walk, "GROUP_POSITIONS", size)
    parts = replay_policy(pooled(trace), BETWEEN)
    for name in ("steps", "lower", "upper", "tokens", "full_steps"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name)), name
    assert np.array_equal(whole.agreement.estimate, parts.agreement.estimate)


def test_memory_follows_cells_and_passes(monkeypatch):
    """A cache that computes blocks of 8 in a canvas of 2048: 2 million positions of passes, 9
    thousand cells."""
    monkeypatch.setattr(confidence, "GROUP_POSITIONS", 1 << 14)
    trace = block_recording(2048)
    tracemalloc.start()
    states = pooled(trace)
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    passes, cells = len(trace.forward), trace.top_ids.size
    most = 20 * cells + passes * (2 * trace.canvas_tokens / 8 + 100) + 4 * trace.final_ids.size
    assert held < most + 50_000 and peak < most + 40 * confidence.GROUP_POSITIONS
    assert states.cells(np.arange(3)).max() == 8 + 7 + 6 - 1


def block_recording(length):
    """One token a pass, of blocks of which each pass computes one alone; every token is 0."""
    place = np.arange(length)
    left = 8 - place % 8
    start = place // 8 * 8
    return ConfidenceTrace(
        vocabulary=4,
        mask_id=3,
        canvas_tokens=length,
        policies=(RefinePolicy(commit="static", block_tokens=8, cache="dual"),),
        request_ids=("one",),
        policy_of_run=np.zeros(1, int),
        prompt_ids=np.array([1]),
        prompt_offsets=np.array([0, 1]),
        final_ids=np.zeros((1, length), int),
        committed_at=place[None],
        step_offsets=np.array([0, length]),
        forward=np.full(length, 2),
        block_start=start,
        block_end=start + 8,
        computed_tokens=np.full(length, 8),
        cached_tokens=np.full(length, 8),
        top_ids=np.zeros(left.sum(), int),
        doubt=np.full(left.sum(), 0.5),
    )


def test_a_refusal_names_the_recording(tmp_path):
    path = tmp_path / "c.parquet"
    write_confidence(toy_trace([STATIC], entropy=None), path)
    for policy, key in (
        (RefinePolicy(commit="entropy", block_tokens=8), "entropy"),
        (RefinePolicy(commit="threshold", block_tokens=6), "block_tokens"),
    ):
        with pytest.raises(InputError) as caught:
            replay_policy(read_confidence(path), policy)
        assert (caught.value.file, caught.value.key) == (str(path), key)
