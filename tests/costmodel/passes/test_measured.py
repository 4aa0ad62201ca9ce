"""The fidelity `measured` gives back what was measured, keeps what-ifs, and says where nothing was
measured."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("scipy")

from hypothesis import given
from hypothesis import strategies as st

from costmodel.architectures.library import load_model
from costmodel.passes import measured
from costmodel.passes.deployment import Deployment
from costmodel.passes.forward import pass_cost
from costmodel.passes.measured import (
    add_results,
    add_results_root,
    fit_grids,
    measured_files,
    measured_pass,
    passes_of,
)
from costmodel.passes.precision import Precision, precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from traces.storage.kernels import KernelProvenance, KernelRow, KernelTrace, write_kernels

FP32 = Precision(weights="fp32", activations="fp32", kv="fp32")
DEVICE = load_device("cpu-generic")
MODEL = load_model("smollm2-135m")
TOKENS, BATCHES, CONTEXTS = (1, 2, 4, 8), (1, 4), (32, 416)


def deployed(**changes):
    values = {
        "architecture": MODEL,
        "device": DEVICE,
        "precision": FP32,
        "fidelity": "measured",
    } | changes
    return Deployment(**values)


def factor(n, b, c, layers, mask):
    """How much longer than calibrated the made-up machine takes."""
    return (
        1.5
        + 0.2 * np.log2(n)
        + 0.1 * np.log2(b)
        + 0.001 * c / 32
        + 0.01 * (30 - layers)
        + 0.3 * (mask == "tree")
    )


def row(n, b, c, layers=30, mask="causal", **changes):
    architecture = MODEL if layers == 30 else MODEL.with_layers(layers)
    plain = deployed(architecture=architecture, fidelity="calibrated")
    seconds = float(
        pass_cost(plain, batch=b, query_tokens=n, context=c).total_s * factor(n, b, c, layers, mask)
    )
    values = {
        "operation": "step",
        "implementation": "eager",
        "dtype": "fp32",
        "mask": mask,
        "requests": b,
        "query_tokens": n,
        "context": c,
        "model": "smollm2-135m",
        "layers": layers,
        "median_s": seconds,
        "low_s": seconds,
        "high_s": seconds,
        "repeats": 3,
        "cold": True,
        "graph": False,
        "flops": 1.0,
        "bytes": 1.0,
    } | changes
    return KernelRow(**values)


ROWS = [row(n, b, c) for n in TOKENS for b in BATCHES for c in CONTEXTS]
TREES = [row(n, b, c, mask="tree") for n in TOKENS[1:] for b in BATCHES for c in CONTEXTS]
SHORT = [row(n, b, 416, layers=10) for n in TOKENS for b in BATCHES]


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    folder = tmp_path / "results" / "some-cpu" / "2026-01-01"
    folder.mkdir(parents=True)
    about = KernelProvenance(profile="cpu-generic")
    write_kernels(
        KernelTrace(rows=(*ROWS, *TREES, *SHORT), provenance=about), folder / "kernels.parquet"
    )
    monkeypatch.setattr(measured, "_ROOTS", [])
    add_results_root(tmp_path / "results")
    return folder


def test_measured_points_are_given_back_exactly(shipped):
    for each in (*ROWS, *TREES):
        found = measured_pass(
            deployed(),
            batch=each.requests,
            query_tokens=each.query_tokens,
            context=each.context,
            mask=each.mask,
        )
        assert float(found.total_s) == pytest.approx(each.median_s, rel=1e-9)
    through = pass_cost(deployed(), batch=4, query_tokens=8, context=416)
    parts = sum(float(each.calls * each.timing.seconds) for each in through.operations)
    assert parts == pytest.approx(float(through.total_s))
    wanted = next(
        r.median_s for r in ROWS if (r.requests, r.query_tokens, r.context) == (4, 8, 416)
    )
    assert float(through.total_s) == pytest.approx(wanted)


def test_between_points_it_lies_between_their_ratios_and_outside_it_is_the_edge(shipped):
    passes = passes_of(deployed())
    near = passes.ratio(batch=1, query_tokens=3, context=100, layers=30)
    ends = [
        passes.ratio(batch=1, query_tokens=n, context=c, layers=30)
        for n in (2, 4)
        for c in (32, 416)
    ]
    assert min(ends) < near < max(ends)
    assert passes.ratio(batch=64, query_tokens=512, context=9999, layers=30) == pytest.approx(
        factor(8, 4, 416, 30, "causal"), rel=1e-6
    )
    middle = passes.ratio(batch=1, query_tokens=1, context=416, layers=20)
    tens, thirties = (
        passes.ratio(batch=1, query_tokens=1, context=416, layers=n) for n in (10, 30)
    )
    assert min(tens, thirties) <= middle <= max(tens, thirties)
    assert passes.points == {(b, c) for b in BATCHES for c in CONTEXTS}
    assert 0.0 <= passes.spread_ratio < 0.1


@given(st.integers(1, 64), st.integers(1, 16), st.integers(0, 4000))
def test_ratios_stay_within_what_was_measured(n, b, c):
    passes = fit_grids(ROWS, DEVICE, "smollm2-135m", FP32)
    ratio = float(passes.ratio(batch=b, query_tokens=n, context=c, layers=30))
    every = [factor(r.query_tokens, r.requests, r.context, 30, "causal") for r in ROWS]
    assert min(every) - 1e-9 <= ratio <= max(every) + 1e-9


def test_arrays_broadcast_like_a_calibrated_pass(shipped):
    b, n = np.array([[1.0], [4.0]]), np.array([1.0, 3.0, 8.0])
    found = pass_cost(deployed(), batch=b, query_tokens=n, context=100.0).total_s
    assert found.shape == (2, 3)
    one = pass_cost(deployed(), batch=4, query_tokens=3, context=100).total_s
    assert found[1, 1] == pytest.approx(float(one))


def test_what_ifs_keep_their_effect(shipped):
    slower = load_device("cpu-generic", ["device.bandwidth_bytes_per_s=1e10"])
    at = {"batch": 1, "query_tokens": 1, "context": 100}
    plain = [
        pass_cost(deployed(device=d, fidelity="calibrated"), **at).total_s for d in (DEVICE, slower)
    ]
    told = [pass_cost(deployed(device=d), **at).total_s for d in (DEVICE, slower)]
    assert told[1] / told[0] == pytest.approx(float(plain[1] / plain[0]))


def test_prompts_stay_calibrated_and_missing_measurements_are_said(shipped):
    at = {"batch": 1, "query_tokens": 300, "context": 0, "logits": "last", "prefill": True}
    calibrated = pass_cost(deployed(fidelity="calibrated"), **at)
    assert float(pass_cost(deployed(), **at).total_s) == float(calibrated.total_s)
    with pytest.raises(InputError, match="no passes of smollm2-135m in bf16 were measured"):
        pass_cost(deployed(precision=Precision()), batch=1, query_tokens=1, context=10)
    assert fit_grids([], DEVICE, "smollm2-135m", FP32) is None


def test_files_are_found_by_the_profile_they_name(shipped, tmp_path, monkeypatch):
    assert measured_files("cpu-generic") == [shipped / "kernels.parquet"]
    assert measured_files("h100-sxm") == []
    (shipped / "kernels-2.parquet").write_bytes(b"no parquet")
    assert measured_files("cpu-generic") == [shipped / "kernels.parquet"]
    monkeypatch.setattr(measured, "_ADDED", [])
    own = tmp_path / "own"
    own.mkdir()
    write_kernels(
        KernelTrace(rows=tuple(ROWS[:4]), provenance=KernelProvenance(profile="cpu-generic")),
        own / "kernels.parquet",
    )
    add_results(own)
    add_results(own)
    assert measured_files("cpu-generic")[0] == own / "kernels.parquet"
    with pytest.raises(InputError, match="must be a folder"):
        add_results(tmp_path / "absent")


def test_graphs_stand_before_plain_launches_and_holes_take_their_neighbour():
    plain = [replace(each, median_s=each.median_s * 2, high_s=each.high_s * 2) for each in ROWS]
    both = fit_grids(
        [*plain, *(replace(each, graph=True) for each in ROWS)], DEVICE, "smollm2-135m", FP32
    )
    alone = fit_grids(ROWS, DEVICE, "smollm2-135m", FP32)
    at = {"batch": 1, "query_tokens": 4, "context": 32, "layers": 30}
    assert both.ratio(**at) == pytest.approx(alone.ratio(**at))
    holed = fit_grids(
        [r for r in ROWS if (r.query_tokens, r.requests) != (8, 4)], DEVICE, "smollm2-135m", FP32
    )
    assert float(holed.ratio(batch=4, query_tokens=8, context=32, layers=30)) > 1.0


def test_measured_prompts_come_back_and_without_them_prompts_stay_calibrated():
    plain = deployed(fidelity="calibrated")
    cost = pass_cost(
        plain, batch=1, query_tokens=512, context=0, prefill=True, logits="last"
    ).total_s
    grids = fit_grids(
        [*ROWS, row(512, 1, 0, mask="prompt", median_s=2.0 * float(cost), low_s=1e-9, high_s=1e9)],
        DEVICE,
        "smollm2-135m",
        FP32,
    )
    assert float(
        grids.ratio(batch=1, query_tokens=512, context=0, layers=30, mask="prompt")
    ) == pytest.approx(2.0)
    assert float(grids.ratio(batch=1, query_tokens=1, context=32, layers=30)) == pytest.approx(
        factor(1, 1, 32, 30, "")
    )
    assert "prompt" not in fit_grids(ROWS, DEVICE, "smollm2-135m", FP32).grids


def test_a_prompt_pass_is_measured_where_prompts_were(shipped, tmp_path):
    folder = tmp_path / "prompts"
    folder.mkdir()
    plain = deployed(fidelity="calibrated")
    prompt = {"batch": 1, "query_tokens": 128, "context": 0, "prefill": True, "logits": "last"}
    cost = float(pass_cost(plain, **prompt).total_s)
    assert float(pass_cost(deployed(), **prompt).total_s) == cost
    rows = (*ROWS, row(128, 1, 0, mask="prompt", median_s=3.0 * cost, low_s=1e-9, high_s=1e9))
    write_kernels(
        KernelTrace(rows=rows, provenance=KernelProvenance(profile="cpu-generic")),
        folder / "kernels.parquet",
    )
    add_results(folder)
    assert float(pass_cost(deployed(), **prompt).total_s) == pytest.approx(3.0 * cost)


def test_rows_of_the_main_format_stand_for_files_that_mix_in_others():
    mixed = precision("q4_1:0.79+q8_0:0.21")
    rows = [replace(each, dtype="q4_1") for each in ROWS]
    grids = fit_grids(rows, DEVICE, MODEL, mixed)
    plain = deployed(precision=mixed, fidelity="calibrated")
    cost = float(pass_cost(plain, batch=1, query_tokens=2, context=32).total_s)
    ratio = float(grids.ratio(batch=1, query_tokens=2, context=32, layers=30))
    assert ratio * cost == pytest.approx(rows[2 * 2].median_s)
