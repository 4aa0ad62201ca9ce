"""Regimes found in residuals: they tile the range and hold what they claim on rows that nothing was
fitted to."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.calibration.calibrate import calibrate
from costmodel.calibration.fit import with_constants
from costmodel.calibration.intervals import fitted_residuals, group_labels, interval
from costmodel.calibration.measurements import measurements
from costmodel.calibration.regimes import FEWEST_ROWS, LEAST_ROWS, regimes
from costmodel.calibration.timing import timed, timings
from costmodel.passes.kernels.regimes import Place, holds, log_bounds
from costmodel.passes.kernels.timing import Timing
from hardware_profiles.fitted.residuals import MOST_REGIMES, Regimes, Residuals
from hardware_profiles.loader import load_device
from tests.property_examples import examples

pytestmark = pytest.mark.heavy

H100 = load_device("h100-sxm")


def places(generator, count):
    """Rows scattered over both shares and one size."""
    axes = {name: generator.uniform(0, 1, count) for name in ("launch", "compute")}
    return Place(axes | {"context": 2.0 ** generator.integers(0, 16, count)}, (count,))


def rows_of(count, seed):
    """Rows whose error is small where launches are few, and large and one-sided where they are
    many."""
    generator = np.random.default_rng(seed)
    where, noise = places(generator, count), generator.standard_normal(count)
    return where, np.where(where.axes["launch"] < 0.6, 0.01 * noise, 0.2 * np.abs(noise))


@given(seed=st.integers(0, 10_000), count=st.integers(FEWEST_ROWS, 400))
@settings(max_examples=examples(10), deadline=None)
def test_regimes_tile_the_range(seed, count):
    where, error = rows_of(count, seed)
    found = regimes(where, error, 5)
    assert 1 <= len(found) <= min(MOST_REGIMES, count // LEAST_ROWS)
    inside = holds(Regimes(found), places(np.random.default_rng(seed), 200))
    assert (inside.sum(axis=0) == 1).all()
    assert (holds(Regimes(found), where).sum(axis=1) >= LEAST_ROWS).all()
    assert all(each.low_ratio <= 0 <= each.high_ratio for each in found)


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 5))]
)
def test_intervals_hold_four_fifths_of_fresh_rows_where_errors_differ(seed):
    residuals = Residuals({"gemm": 0.3}, {"gemm": regimes(*rows_of(800, seed), 5)})
    where, error = rows_of(20_000, seed + 100)
    low, high = log_bounds(residuals, "gemm", where)
    inside = (error >= low) & (error <= high)
    calm = where.axes["launch"] < 0.55
    assert inside[calm].mean() == pytest.approx(0.8, abs=0.07)
    assert np.median((high - low)[calm]) == pytest.approx(2 * 1.2816 * 0.01, rel=0.3)
    assert np.quantile(high[~calm], 0.2) > 0.15
    assert inside[~calm].mean() == pytest.approx(0.8, abs=0.08), (
        "errors of one sign are held on one side alone"
    )


@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
def test_sizes_separate_errors_that_shares_do_not(seed):
    generator = np.random.default_rng(seed)
    where = places(generator, 600)
    spread = np.where(where.axes["context"] < 256, 0.01, 0.1)
    found = regimes(where, spread * generator.standard_normal(600), 5)
    assert {"context"} <= {name for each in found for name in each.sizes}
    fresh = places(generator, 5000)
    low, high = log_bounds(Residuals({"gemm": 0.3}, {"gemm": found}), "gemm", fresh)
    short = fresh.axes["context"] < 256
    assert np.median((high - low)[short]) < 0.25 * np.median((high - low)[~short])


@given(seed=st.integers(0, 10_000), offset=st.floats(-0.3, 0.3))
@settings(max_examples=examples(20), deadline=None)
def test_an_interval_holds_its_point_and_four_fifths(seed, offset):
    """Even where the form is off to one side everywhere."""
    generator = np.random.default_rng(seed)
    nothing = Place({"launch": np.zeros(400), "compute": np.zeros(400)}, (400,))
    error = offset + 0.02 * generator.standard_normal(400)
    (only,) = regimes(nothing, error, 0)
    assert only.low_ratio <= 0.0 <= only.high_ratio
    ratio = np.expm1(error)
    assert np.mean((ratio >= only.low_ratio) & (ratio <= only.high_ratio)) == pytest.approx(
        0.8, abs=0.01
    )


def test_few_rows_have_no_regimes():
    where, error = rows_of(FEWEST_ROWS - 1, 0)
    assert regimes(where, error, 5) == ()


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 4))]
)
def test_noise_alone_is_hardly_split(seed):
    generator = np.random.default_rng(seed)
    assert len(regimes(places(generator, 800), 0.05 * generator.standard_normal(800), 5)) <= 3


def reductions(count=12):
    columns = {"bytes": np.geomspace(1e3, 1e6, count), "devices": 8.0, "graphs": 1.0}
    return measurements("allreduce", columns, np.ones(count), file="made.csv", part="vllm")


def test_residuals_come_from_the_rows_behind_a_fit_with_their_freedom():
    rows = reductions()
    timing = timings(H100, rows)[0]
    error = 0.05 * np.where(np.arange(12) % 2 == 0, 1.0, -1.0)
    noisy = replace(rows, seconds=timing.seconds * np.exp(error))
    found = fitted_residuals(H100.constants.residuals, noisy, timing, "split", {"allreduce"})
    assert found["allreduce"] == pytest.approx(np.expm1(0.05 * np.sqrt(12 / 7)), rel=1e-3), (
        "five constants of twelve rows"
    )
    assert found["gemm"] == H100.constants.residual_ratio["gemm"]
    few = fitted_residuals(
        H100.constants.residuals,
        noisy.select(np.arange(12) < 5),
        timings(H100, rows.select(np.arange(12) < 5))[0],
        "split",
        {"allreduce"},
    )
    assert few["allreduce"] == H100.constants.residual_ratio["allreduce"], (
        "five rows do not tell five constants"
    )


def test_large_messages_have_the_residual_of_the_ring():
    rows = reductions()
    large = replace(rows, columns=rows.columns | {"bytes": np.full(12, 2.0**25)})
    assert set(group_labels(rows, "split")) == {"allreduce"}
    assert set(group_labels(large, "split")) == {"nccl"}


@given(low=st.floats(0.0, 0.5), high=st.floats(0.0, 0.5))
def test_coverage_counts_what_lies_inside(low, high):
    error = np.linspace(-1.0, 1.0, 201)
    timing = Timing(np.full(201, 1e-5), np.zeros(201), np.zeros(201), np.zeros(201))
    found = interval(
        1e-5 * np.exp(error),
        timing,
        (np.full(201, -low), np.full(201, high)),
        np.ones(201, dtype=bool),
    )
    assert found.coverage == pytest.approx((low + high) / 2.0, abs=0.02)
    assert found.width == pytest.approx(np.exp(high) - np.exp(-low))
    assert np.isnan(
        interval(
            np.ones(0), Timing(*np.zeros((4, 0))), (np.zeros(0), np.zeros(0)), np.ones(0, bool)
        ).width
    )


def test_a_fit_states_intervals_that_hold_on_the_other_rows():
    generator = np.random.default_rng(3)
    count = 2000
    n, k = 64.0 * generator.integers(64, 512, (2, count))
    sizes = {"rows": generator.choice([1.0, 16.0, 256.0, 1024.0], count), "outputs": n, "inputs": k}
    rows = measurements("gemm", sizes, np.ones(count), file="made.csv", dtype="bf16")
    spread = np.where(sizes["rows"] > 100, 0.08, 0.01) * generator.standard_normal(count)
    truth = with_constants(H100, {"gemm.launch_s": 6e-6})
    rows = replace(rows, seconds=timed(truth, rows)[0] * np.exp(spread))
    found = calibrate([rows], H100)
    score = found.scores["gemm"]
    assert 0.75 <= score.coverage <= 0.85
    assert found.device.constants.residuals.regimes["gemm"]
    again = calibrate([rows], found.device, fit=False).scores["gemm"]
    assert (again.coverage, again.width_ratio) == pytest.approx((score.coverage, score.width_ratio))
    flat = replace(
        found.device,
        constants=replace(
            found.device.constants, residual_ratio=dict(found.device.constants.residual_ratio)
        ),
    )
    assert calibrate([rows], flat, fit=False).scores["gemm"].width_ratio > 1.2 * score.width_ratio
