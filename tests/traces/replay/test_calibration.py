"""What a recording says of its drafter's probabilities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from traces.kinds.acceptance import AcceptanceTrace
from traces.library import trace_file
from traces.replay.calibration import calibrated
from traces.storage.acceptance_file import read_acceptance


def said_and_right(said, right):
    n = len(said)
    wide = np.asarray(said, np.float16)[:, None]
    return AcceptanceTrace(
        offsets=[0, n],
        emitted=np.ones(n, np.int16),
        rank=np.where(right, 0, -1).astype(np.int8),
        rank_width=1,
        depth_invariant=True,
        draft_ids=np.zeros((n, 1), np.int32),
        draft_probs=wide,
        target_probs=wide,
        emitted_target_prob=wide[:, 0],
        residual_mass=np.zeros(n),
    )


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=300))
def test_shares_never_fall_and_are_as_many_as_were_right(tokens):
    said, right = np.array([x / 20 for x, _ in tokens]), np.array([x for _, x in tokens])
    found = calibrated(said_and_right(said, right))
    assert all(a < b for a, b in zip(found.shares, found.shares[1:], strict=False))
    assert all(a <= b for a, b in zip(found.probabilities, found.probabilities[1:], strict=False))
    assert found.shares[0] > 0.0 and found.shares[-1] < 1.0
    mean = found.accepted(said).mean()
    assert mean == pytest.approx(right.mean(), abs=0.15 + 1.0 / len(tokens))


def test_a_drafter_that_is_too_sure_is_corrected():
    rng = np.random.default_rng(1)
    said = rng.random(40_000)
    found = calibrated(said_and_right(said, rng.random(40_000) < said**2))
    for probability in (0.2, 0.5, 0.8):
        assert found.accepted(np.array([probability]))[0] == pytest.approx(probability**2, abs=0.02)


@pytest.mark.parametrize("drafter", ["early-exit", "medusa-heads"])
def test_recorded_drafters_are_right_as_often_as_their_calibration_says(drafter):
    trace = read_acceptance(trace_file(f"level-3/smollm2-135m--{drafter}--greedy"))
    found = calibrated(trace)
    first = trace.rank if trace.depth is None else trace.rank[:, 0]
    sure = trace.draft_probs[:, 0].astype(np.float64)
    share = found.accepted(sure).mean()
    assert share == pytest.approx(np.mean(first == 0), rel=0.1), "deeper heads count as well"


def test_lower_levels_tell_nothing():
    with pytest.raises(InputError, match="calibrating"):
        calibrated(read_acceptance(trace_file("smollm2-135m--early-exit--greedy")))
