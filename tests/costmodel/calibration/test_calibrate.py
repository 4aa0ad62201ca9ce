"""Fits recover the constants that made a table; scores are scale-free; nothing scored was
fitted."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.calibration.calibrate import (
    COLD_RATIO,
    anchors,
    calibrate,
    expert_matrices,
    part_labels,
    set_aside,
    usable,
)
from costmodel.calibration.fit import search, with_constants
from costmodel.calibration.measurements import Measurements, measurements, together
from costmodel.calibration.parameters import GROUPS
from costmodel.calibration.timing import timed
from hardware_profiles.errors import InputError, UnknownNameError
from hardware_profiles.loader import load_device
from hardware_profiles.writer import write_device
from tests.property_examples import examples

pytestmark = pytest.mark.heavy

H100 = load_device("h100-sxm")
TRUE_GEMM = {
    "gemm.launch_s": 7e-6,
    "gemm.compute_efficiency": 0.7,
    "gemm.bandwidth_efficiency": 0.65,
}


def products(count=400, seed=3, least=4096):
    generator = np.random.default_rng(seed)
    sizes = {
        "rows": generator.choice([1, 4, 16, 64, 128, 256, 512, 1024], count).astype(float),
        "outputs": generator.integers(least // 64, 512, count) * 64.0,
        "inputs": generator.integers(least // 64, 512, count) * 64.0,
    }
    return measurements("gemm", sizes, np.ones(count), file="made.csv", dtype="bf16")


def timed_by(device, rows, noise=0.0, seed=5):
    spread = np.exp(noise * np.random.default_rng(seed).standard_normal(len(rows)))
    return replace(rows, seconds=timed(device, rows)[0] * spread)


@pytest.fixture(scope="module")
def rows():
    """A noisy table of a device with other constants."""
    return timed_by(with_constants(H100, TRUE_GEMM), products(), noise=0.02)


@pytest.fixture(scope="module")
def found(rows):
    return calibrate([rows], H100)


def test_a_fit_recovers_the_constants_behind_a_noisy_table(rows, found):
    for name, value in TRUE_GEMM.items():
        assert found.device.constants.number(name) == pytest.approx(value, rel=0.1), name
    score = found.scores["gemm"]
    assert score.median < 0.02 and score.p90 < 0.05
    before = calibrate([rows], H100, fit=False).scores["gemm"]
    assert before.median > 5 * score.median
    assert (before.rows_scored, before.rows_used) == (score.rows_scored, score.rows_used)


@pytest.mark.parametrize(
    ("operation", "truth"),
    [
        (
            "attention_generation",
            {"attention.launch_s": 5e-6, "attention.bandwidth_efficiency": 0.6},
        ),
        ("attention_verify", {"unsplit.tile_s": 2e-6, "unsplit.unit_s": 5e-6}),
        ("mla_generation", {"mla.launch_s": 20e-6, "mla.bandwidth_efficiency": 0.5}),
    ],
)
def test_attention_constants_are_recovered(operation, truth):
    generator = np.random.default_rng(1)
    count = 300
    sizes = {
        "requests": 2.0 ** generator.integers(4, 9, count),
        "query_tokens": 1.0,
        "context": 2.0 ** generator.integers(10, 16, count),
        "heads": 32.0,
        "kv_heads": 8.0,
        "head_dim": 128.0,
        "beside_requests": 0.0,
        "beside_context": 0.0,
    }
    if (
        operation == "mla_generation"
    ):  # with one number of heads, rereads and the bandwidth cannot be told apart
        sizes["heads"] = 2.0 ** generator.integers(3, 8, count)
    if operation == "attention_verify":
        sizes |= {
            "requests": 1.0,
            "query_tokens": 64.0 * generator.integers(1, 17, count),
            "beside_requests": 1.0,
        }
    rows = measurements(operation, sizes, np.ones(count), file="made.csv")
    target = with_constants(H100, truth)
    seconds = timed(target, rows, verify="unsplit")[0]
    found = calibrate([replace(rows, seconds=seconds)], H100)
    assert found.scores[operation].p90 < 0.03
    for name, value in truth.items():
        assert found.device.constants.number(name) == pytest.approx(value, rel=0.15), name


@given(scale=st.floats(0.2, 5.0), seed=st.integers(0, 20))
@settings(max_examples=examples(20))
def test_errors_are_ratios(scale, seed):
    """Times and predictions that are both scaled leave the same errors; so does any common
    clock."""
    rows = timed_by(H100, products(60, seed), noise=0.1, seed=seed)
    c = H100.constants
    slower = replace(
        with_constants(H100, {"gemm.launch_s": c.gemm.launch_s * scale}),
        bandwidth_bytes_per_s=H100.bandwidth_bytes_per_s / scale,
        peak_flops_per_s={"bf16": H100.peak("bf16") / scale},
    )
    one = calibrate([rows], H100, fit=False).scores["gemm"]
    other = calibrate([replace(rows, seconds=rows.seconds * scale)], slower, fit=False).scores[
        "gemm"
    ]
    assert other.median == pytest.approx(one.median, rel=1e-9)
    assert other.p90 == pytest.approx(one.p90, rel=1e-9)


@given(seed=st.integers(0, 1000), count=st.integers(8, 200))
def test_a_quarter_is_set_aside_and_the_same_one_every_time(seed, count):
    rows = products(count)
    chosen = set_aside(rows, seed)
    assert chosen.sum() == round(count / 4)
    assert (chosen == set_aside(rows, seed)).all()


def test_nothing_scored_was_fitted(rows, found):
    """Spoiling every scored row leaves the fitted constants as they were."""
    kept = usable(H100, rows)
    aside = np.zeros(len(rows), dtype=bool)
    aside[np.flatnonzero(kept)[set_aside(rows.select(kept), 0)]] = True
    spoilt = replace(rows, seconds=np.where(aside, rows.seconds, rows.seconds * 3.0))
    other = calibrate([spoilt], H100)
    for name in TRUE_GEMM:
        assert other.device.constants.number(name) == found.device.constants.number(name)
    assert other.scores["gemm"].median > 0.5 > found.scores["gemm"].median


def test_warm_rows_are_left_out_and_counted():
    rows = timed_by(H100, products(200, least=256))
    touched = timed(H100, rows)[1]
    kept = usable(H100, rows)
    assert (kept == (touched >= COLD_RATIO * H100.cache_bytes)).all()
    assert 0 < kept.sum() < len(rows)
    score = calibrate([rows], H100, fit=False).scores["gemm"]
    assert (score.rows, score.rows_used) == (200, int(kept.sum()))
    assert not usable(H100, replace(rows, cold=np.zeros(200, dtype=bool))).any()


def test_the_noise_floor_and_other_formats_are_left_out():
    rows = timed_by(H100, products(50))
    assert usable(H100, rows).all()
    assert not usable(H100, replace(rows, resolution_s=1.0)).any(), (
        "five steps of the clock at least"
    )
    assert not usable(H100, replace(rows, dtype=np.full(50, "fp8"))).any()
    assert usable(H100, replace(rows, dtype=np.full(50, "fp16"))).all()


def test_anchors_are_warm_small_and_never_scored():
    rows = timed_by(H100, products(300, least=64))
    small = anchors(H100, rows, dtype="bf16", count=10, seed=0)
    assert 0 < small.sum() <= 10
    assert not (small & usable(H100, rows)).any()
    touched = timed(H100, rows)[1][small]
    assert (touched / H100.bandwidth_bytes_per_s <= 0.1 * rows.seconds[small]).all()


def experts(pace, seed=0, count=40):
    """Balanced expert layers whose time is that of three matrices at `pace` times the bandwidth."""
    tokens = np.random.default_rng(seed).integers(64, 128, count).astype(float)
    sizes = {
        "tokens": tokens,
        "hidden": 4096.0,
        "width": 2048.0,
        "experts": 64.0,
        "experts_per_token": 8.0,
        "visited": 64.0,
        "padded_rows": 64 * 16.0,
        "least_padded_rows": 64 * 16.0,
    }
    seconds = np.full(count, 3 * 4096 * 2048 * 2.0 * 64 / H100.bandwidth_bytes_per_s / pace)
    return measurements("moe", sizes, seconds, file="made.csv", dtype="bf16", part="balanced")


@pytest.mark.parametrize(("pace", "matrices"), [(0.8, 3.0), (1.0, 3.0), (1.3, 2.0)])
def test_a_layer_faster_than_its_memory_has_two_matrices(pace, matrices):
    assert (expert_matrices(H100, experts(pace)) == matrices).all()
    assert expert_matrices(H100, products(5)) is None


def reductions(device, noise=0.0):
    steps = np.arange(8, 30, 0.5)
    columns = {
        "bytes": np.tile(np.floor(2.0**steps), 6),
        "devices": np.repeat([2.0, 4.0, 8.0] * 2, len(steps)),
        "graphs": np.repeat([1.0, 1.0, 1.0, 0.0, 0.0, 0.0], len(steps)),
    }
    sizes = columns["bytes"]
    rows = measurements("allreduce", columns, np.ones(len(sizes)), file="made.csv", part="vllm")
    return timed_by(device, rows, noise=noise)


def test_allreduce_constants_by_library_and_size():
    truth = {
        "allreduce.launch_s": 7e-6,
        "allreduce.one_shot_efficiency": 0.4,
        "nccl.efficiency": 0.5,
    }
    rows = reductions(with_constants(H100, truth), noise=0.01)
    found = calibrate([rows], H100)
    assert set(found.scores["allreduce"].parts) == {
        "vllm",
        "vllm large",
        "vllm eager",
        "vllm eager large",
    }
    assert found.scores["allreduce"].median < 0.05
    for name, value in truth.items():
        assert found.device.constants.number(name) == pytest.approx(value, rel=0.2), name
    assert set(part_labels(rows)) == set(found.scores["allreduce"].parts)


def test_a_fitted_profile_is_written_and_scores_the_same(rows, found, tmp_path):
    write_device(found.device, tmp_path / "mine.toml")
    copy = load_device(tmp_path / "mine.toml")
    again = calibrate([rows], copy, fit=False).scores["gemm"]
    assert again.median == pytest.approx(found.scores["gemm"].median, rel=1e-9)
    origin = copy.provenance["constants.gemm.launch_s"]
    assert (
        origin.kind == "measured"
        and "made.csv" in origin.source
        and "on the other rows" in origin.source
    )
    assert copy.constants.residual_ratio["gemm"] == found.device.constants.residual_ratio["gemm"]
    assert copy.constants.residuals.regimes == found.device.constants.residuals.regimes
    assert copy.constants.residual_ratio["moe"] == H100.constants.residual_ratio["moe"]


def test_too_few_rows_change_nothing():
    rows = timed_by(with_constants(H100, TRUE_GEMM), products(20))
    found = calibrate([rows], H100)
    assert found.device == H100
    assert found.scores["gemm"].rows_fitted == 0


def test_without_usable_rows_there_is_no_error_to_state():
    rows = replace(products(20), dtype=np.full(20, "fp8"))
    score = calibrate([rows], H100).scores["gemm"]
    assert (score.rows, score.rows_used, score.rows_scored) == (20, 0, 0)
    assert np.isnan(score.median) and np.isnan(score.p90)


def test_a_search_stays_within_its_bounds():
    rows = replace(products(60), seconds=np.full(60, 1e3))
    values, cost = search(H100, GROUPS["gemm"], rows.seconds, lambda d: timed(d, rows)[0])
    for parameter in GROUPS["gemm"]:
        assert parameter.low <= values[parameter.name] <= parameter.high
    assert cost > 0.3


def test_unknown_formats_and_operations_are_refused():
    with pytest.raises(UnknownNameError, match="bf61"):
        calibrate([products(10)], H100, dtype="bf61")
    with pytest.raises(InputError, match="no such peak"):
        calibrate([products(10)], load_device("a100-sxm-80"), dtype="fp8")
    with pytest.raises(InputError, match="must be one of gemm"):
        measurements("sorting", {}, [1.0], file="x.csv")
    with pytest.raises(InputError, match="needs the columns inputs"):
        measurements("gemm", {"rows": [1.0], "outputs": [1.0]}, [1.0], file="x.csv")
    with pytest.raises(InputError, match="one value per row"):
        replace(products(4), dtype=np.array(["bf16"]))


def test_tables_of_one_operation_are_joined():
    both = together([products(10), products(7), experts(0.9)])
    assert {name: len(rows) for name, rows in both.items()} == {"gemm": 17, "moe": 40}
    assert isinstance(both["gemm"], Measurements) and both["gemm"].file == "made.csv"


def test_narrow_products_are_fitted_beside_those_of_sixteen_bits():
    b200 = load_device("b200-sxm")
    truth = {"gemm.launch_s": 6e-6, "gemm.bandwidth_efficiency": 0.7}
    rows = products(least=16_384)
    rows = replace(
        rows, dtype=np.full(400, "fp8"), columns={**rows.columns, "converts": np.ones(400)}
    )
    seconds = timed(with_constants(b200.in_format("fp8"), truth), rows, dtype="fp8")[0]
    found = calibrate([replace(rows, seconds=seconds)], b200, dtype="fp8").device
    for name, value in truth.items():
        fitted = found.in_format("fp8").constants.number(name)
        assert fitted == pytest.approx(value, rel=0.1), name
    assert found.formats["fp8"]["moe"] == b200.formats["fp8"]["moe"]
    assert found.constants == b200.constants
    assert found.provenance["formats.fp8.gemm.launch_s"].source.startswith("fitted to")
    assert found.provenance["constants.gemm.launch_s"] == b200.provenance["constants.gemm.launch_s"]
    assert calibrate([rows], b200, dtype="fp8", fit=False).device == b200


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0])
def test_a_share_leaves_rows_on_both_sides(share):
    with pytest.raises(InputError, match="share"):
        calibrate([products(60)], H100, share=share)
