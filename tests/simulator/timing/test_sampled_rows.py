"""Passes timed at some rows stand for all of them: within a block times hardly bend."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.engine_library import load_engine
from costmodel.passes.deployment import Deployment
from costmodel.passes.precision import Precision
from hardware_profiles.loader import load_device
from simulator.closed_loop.serve import timer_for
from simulator.timing import cost_timer
from simulator.timing.cost_timer import TableSize
from simulator.timing.sampled_rows import at_every_row, sampled_rows

MOST = st.integers(1, 20_000)


@given(most=MOST)
def test_rows_rise_from_one_to_the_most_and_hold_every_tile(most):
    rows = sampled_rows(most)
    assert rows[0] == 1 and rows[-1] == most and (np.diff(rows) > 0).all()
    assert set(range(1, min(most, 2048) + 1)) <= set(rows)
    assert set(range(128, most + 1, 128)) <= set(rows)


@given(most=MOST, slope=st.floats(0.0, 1.0))
def test_a_line_is_met_at_every_row(most, slope):
    rows = sampled_rows(most)
    seconds = at_every_row(rows, 1.0 + slope * rows)
    assert seconds == pytest.approx(1.0 + slope * np.arange(1.0, most + 1.0))


@pytest.mark.parametrize(
    ("model", "device", "precision"),
    [
        ("llama-3.1-8b", "h100-sxm", Precision()),
        ("deepseek-v3", "b200-sxm", Precision(weights="fp8", activations="fp8")),
    ],
)
def test_every_row_of_a_pass_is_within_one_percent(monkeypatch, model, device, precision):
    gpu = load_device(device)
    deployment = Deployment(
        architecture=load_model(model), device=gpu, precision=precision, tensor_parallel=8
    )
    size = TableSize(rows=16384, requests=8, context_tokens=1024, query_tokens=1)
    some = timer_for(deployment, load_engine("sglang").on(gpu)).tables(size, drafts=False)
    monkeypatch.setattr(cost_timer, "sampled_rows", lambda most: np.arange(1.0, most + 1.0))
    every = timer_for(deployment, load_engine("sglang").on(gpu)).tables(size, drafts=False)
    assert some.row_s == pytest.approx(every.row_s, rel=0.01)
