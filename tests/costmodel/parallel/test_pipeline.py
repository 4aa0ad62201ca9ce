"""Stages one after another: latency and interval."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.parallel.pipeline import pipeline_time, prompt_time, round_time

STAGES = st.lists(st.floats(1e-4, 1.0), min_size=1, max_size=8)


@given(stages=STAGES, hop=st.floats(0.0, 1.0))
def test_a_batch_passes_every_stage_and_hop(stages, hop):
    time = pipeline_time(stages, hop)
    assert time.latency_s == pytest.approx(sum(stages) + (len(stages) - 1) * hop)
    assert time.interval_s == pytest.approx(max([*stages, hop] if len(stages) > 1 else stages))


def test_one_stage_is_no_pipeline():
    time = pipeline_time([0.25], 9.0)
    assert time.latency_s == time.interval_s == 0.25
    assert round_time(time, 1) == 0.25


@given(stages=STAGES, batches=st.integers(1, 32))
def test_a_prompt_in_pieces_equals_an_event_walk(stages, batches):
    """A stage starts a piece when it and the stage before are done with it."""
    done = np.zeros(len(stages))
    for _ in range(batches):
        for stage, seconds in enumerate(stages):
            ready = done[stage - 1] if stage else 0.0
            done[stage] = max(done[stage], ready) + seconds
    assert prompt_time(pipeline_time(stages), batches) == pytest.approx(done[-1])


@given(stages=STAGES, batches=st.integers(1, 12))
def test_rounds_equal_an_event_walk_in_the_long_run(stages, batches):
    """Batches circulate: each starts its next token when its last is out; first come, first
    served."""
    free, out, rounds = np.zeros(len(stages)), np.zeros(batches), 60
    history = []
    for _ in range(rounds):
        for batch in range(batches):
            now = out[batch]
            for stage, seconds in enumerate(stages):
                now = max(now, free[stage]) + seconds
                free[stage] = now
            out[batch] = now
        history.append(out[-1])
    mean = (history[-1] - history[19]) / (rounds - 20)
    assert round_time(pipeline_time(stages), batches) == pytest.approx(mean, rel=0.02)


def test_arrays_broadcast():
    time = pipeline_time([np.array([1.0, 2.0]), 1.5], 0.1)
    assert time.latency_s == pytest.approx([2.6, 3.6])
    assert time.interval_s == pytest.approx([1.5, 2.0])
    assert round_time(time, np.array([[1], [4]])).shape == (2, 2)
