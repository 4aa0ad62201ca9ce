"""Corrections found in residuals: smooth errors are learnt, noise and empty corners are not."""

from dataclasses import replace

import numpy as np
import pytest

from costmodel.calibration.calibrate import calibrate
from costmodel.calibration.corrections import AXES, ROWS_PER_NODE, correction
from costmodel.calibration.measurements import measurements
from costmodel.calibration.timing import timed, timings
from hardware_profiles.loader import load_device

pytestmark = pytest.mark.heavy

BARE = load_device("h100-sxm")
BARE = replace(BARE, constants=replace(BARE.constants, corrections={}))


def products(count, seed, error, noise=0.01):
    generator = np.random.default_rng(seed)
    sizes = {
        "rows": 2.0 ** generator.integers(0, 11, count),
        "outputs": 2.0 ** generator.integers(12, 17, count),
        "inputs": 2.0 ** generator.integers(13, 17, count),
    }
    rows = measurements("gemm", sizes, np.ones(count), file="made.csv", dtype="bf16")
    spread = error * np.sign(np.log2(sizes["outputs"]) - 13.5) + noise * generator.standard_normal(
        count
    )
    return replace(rows, seconds=timed(BARE, rows)[0] * np.exp(spread))


def test_a_smooth_error_is_learnt():
    before = correction("gemm", products(800, 0, 0.08), timings(BARE, products(800, 0, 0.08))[0])
    table = np.reshape(before.values, [len(axis) for axis in AXES["gemm"]])
    assert table[:, 1, 2:].mean() < -0.04 < 0.04 < table[:, 4, 2:].mean()
    fresh = products(2000, 1, 0.08)
    device = replace(BARE, constants=replace(BARE.constants, corrections={"gemm": before}))
    errors = [np.abs(timed(d, fresh)[0] / fresh.seconds - 1.0) for d in (BARE, device)]
    assert np.median(errors[1]) < 0.4 * np.median(errors[0])


def test_noise_is_hardly_learnt():
    rows = products(800, 2, 0.0, noise=0.05)
    found = correction("gemm", rows, timings(BARE, rows)[0])
    assert np.median(np.abs(found.values)) < 0.03


def test_nodes_without_rows_stay_at_nothing():
    rows = products(800, 3, 0.08)
    found = correction("gemm", rows, timings(BARE, rows)[0])
    table = np.reshape(found.values, [len(axis) for axis in AXES["gemm"]])
    assert (table[:, 0, :] == 0.0).all(), "no product is as narrow"


def test_few_rows_and_other_operations_have_none():
    few = ROWS_PER_NODE * 100 - 1
    rows = products(few, 4, 0.08)
    assert correction("gemm", rows, timings(BARE, rows)[0]) is None
    assert correction("mla", rows, timings(BARE, rows)[0]) is None


def test_a_fit_states_its_correction_and_scores_with_it():
    found = calibrate([products(2400, 5, 0.1)], BARE)
    assert found.device.constants.corrections["gemm"].axes == AXES["gemm"]
    assert found.scores["gemm"].median < 0.03
    assert 0.7 <= found.scores["gemm"].coverage <= 0.9
    again = calibrate([products(2400, 5, 0.1)], found.device).device.constants
    assert again.gemm.launch_s == pytest.approx(
        found.device.constants.gemm.launch_s, rel=0.05, abs=2e-7
    )
