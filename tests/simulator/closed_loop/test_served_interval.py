"""Intervals of what users see hold the point, never narrow as less is known, and shrink to the
point where all is."""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.engine_library import load_engine
from costmodel.passes.forward import Deployment
from costmodel.passes.precision import Precision
from hardware_profiles.loader import load_device
from simulator.closed_loop import serve as front
from simulator.closed_loop.serve import serve, served_interval, timer_for
from simulator.closed_loop.users import Users

H100 = load_device("h100-sxm")
LLAMA = Deployment(architecture=load_model("llama-3.1-8b"), device=H100, precision=Precision())
VLLM = load_engine("vllm").on(H100)
NAMES = tuple(H100.constants.residual_ratio)


@pytest.fixture(scope="module")
def found():
    return serve(LLAMA, VLLM, Users(users=4, prompt_tokens=128, output_tokens=8))


def intervals(found, parts, ttft_s, tpot_s, *, residual, left_out, spread, seed=0):
    """Of a run whose seconds by operation are `parts`, with one residual for all operations."""
    setting = timer_for(LLAMA, VLLM).setting
    constants = replace(H100.constants, residual_ratio=dict.fromkeys(NAMES, residual))
    deployment = replace(setting.deployment, device=replace(H100, constants=constants))
    overhead = replace(setting.plain_overhead, spread_ratio=spread)
    timer = SimpleNamespace(
        setting=replace(setting, deployment=deployment, plain_overhead=overhead)
    )
    seconds = dict(zip(found.seconds, parts, strict=False)) | {"overhead": parts[-1]}
    seconds |= dict.fromkeys(found.seconds.keys() - seconds.keys(), 1e-6)
    at = replace(found, ttft_s=ttft_s, tpot_s=tpot_s, seconds=seconds)
    with patch.object(front, "left_out_ratio", return_value=left_out):
        return served_interval(at, timer, generator=np.random.default_rng(seed))


RUNS = {
    "parts": st.lists(st.floats(1e-4, 10.0), min_size=2, max_size=4),
    "ttft_s": st.floats(1e-3, 60.0),
    "tpot_s": st.floats(1e-4, 1.0),
}
DOUBTS = {
    "residual": st.floats(0.01, 0.5),
    "left_out": st.floats(0.01, 1.0),
    "spread": st.floats(0.01, 1.0),
}


@given(**RUNS, **DOUBTS, seed=st.integers(0, 2**32 - 1))
def test_both_intervals_hold_their_points(
    found, parts, ttft_s, tpot_s, residual, left_out, spread, seed
):
    doubts = {"residual": residual, "left_out": left_out, "spread": spread}
    for value, (low, high) in zip(
        (ttft_s, tpot_s), intervals(found, parts, ttft_s, tpot_s, **doubts, seed=seed), strict=True
    ):
        assert 0 < low <= value <= high


@given(**RUNS, **DOUBTS, more=st.floats(1.5, 4.0))
def test_more_doubt_of_everything_never_narrows_them(
    found, parts, ttft_s, tpot_s, residual, left_out, spread, more
):
    doubts = {"residual": residual, "left_out": left_out, "spread": spread}
    wider = {name: value * more for name, value in doubts.items()}
    one, other = (intervals(found, parts, ttft_s, tpot_s, **each) for each in (doubts, wider))
    for (low, high), (least, most) in zip(one, other, strict=True):
        assert least <= low < high <= most


@given(**RUNS)
def test_without_doubt_they_are_their_points(found, parts, ttft_s, tpot_s):
    sure = intervals(found, parts, ttft_s, tpot_s, residual=1e-4, left_out=0.0, spread=0.0)
    for value, ends in zip((ttft_s, tpot_s), sure, strict=True):
        assert ends == pytest.approx((value, value), rel=2e-4)
