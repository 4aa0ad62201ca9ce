"""A device's constants are found again from rows that they made, and its profile can be loaded."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import yaml

pytest.importorskip("torch")
pytest.importorskip("scipy")

from costmodel.architectures.library import load_model
from costmodel.calibration.fit import with_constants
from costmodel.passes import kernels, ops
from costmodel.passes.forward import pass_cost
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from real_runs.calibration import device
from real_runs.calibration.device import calibration_jobs, fit_results
from real_runs.calibration.operations import fit_operations
from real_runs.calibration.passes import fit_passes, pass_rows, predicted_passes
from real_runs.calibration.profile_names import profile_name
from real_runs.campaigns.file import Campaign
from real_runs.campaigns.results import read_results
from real_runs.kernels.attention_forms import FORMS
from traces.storage.kernels import (
    KernelProvenance,
    KernelRow,
    KernelTrace,
    read_kernels,
    write_kernels,
)

TITLE = "CPU: AMD EPYC 9999 12-Core Processor"
PEAK, BANDWIDTH = 9e10, 2.4e10
SHAPES = ((960, 576), (576, 576), (3072, 576), (576, 1536), (49152, 576))


@pytest.fixture(scope="module")
def truth():
    device = load_device("cpu-generic")
    return with_constants(
        replace(
            device,
            bandwidth_bytes_per_s=BANDWIDTH,
            processors=1,
            peak_flops_per_s={"fp32": PEAK, "bf16": PEAK},
        ),
        {
            "gemm.launch_s": 6e-6,
            "gemm.compute_efficiency": 0.8,
            "gemm.bandwidth_efficiency": 0.7,
            "gemm.norm": 2.0,
            "gemm.output_efficiency": 0.7,
            "gemm.tile_ratio": 0.0,
            "gemm.wave_ratio": 0.0,
            "verify.launch_s": 3e-5,
            "verify.wave_s": 4e-6,
            "verify.tile_s": 0.0,
            "verify.combine_s": 0.0,
            "verify.wave_ratio": 0.0,
            "attention.launch_s": 2e-5,
            "attention.wave_s": 3e-6,
            "attention.short_wave_s": 3e-6,
            "attention.tile_s": 0.0,
            "attention.combine_s": 0.0,
            "attention.wave_ratio": 0.0,
            "attention.bandwidth_efficiency": 0.5,
            "attention.compute_efficiency": 0.9,
            "verify.bandwidth_efficiency": 0.6,
            "verify.compute_efficiency": 0.5,
            "elementwise.kernel_s": 2e-5,
            "elementwise.bandwidth_efficiency": 0.4,
            "sampler.launch_s": 4e-4,
            "sampler.row_s": 6e-5,
        },
    )


def row(operation, seconds, **fields):
    values = {
        "operation": operation,
        "implementation": "x",
        "dtype": "fp32",
        "median_s": seconds,
        "low_s": seconds,
        "high_s": seconds,
        "repeats": 5,
        "cold": True,
        "graph": False,
        "flops": 1.0,
        "bytes": 1.0,
    }
    return KernelRow(**(values | fields))


@pytest.fixture(scope="module")
def trace(truth):
    generator = np.random.default_rng(0)

    def noisy(seconds):
        return float(seconds) * float(np.exp(0.01 * generator.standard_normal()))

    rows = [row("copy", 64e6 / BANDWIDTH, bytes=64e6)]
    for m in (1, 2, 4, 8, 16, 64, 256):
        for outputs, inputs in SHAPES:
            work = ops.gemm(m, outputs, inputs, weight_bytes=4, activation_bytes=4)
            seconds = noisy(kernels.gemm(truth, work, m, "fp32", outputs=outputs).seconds)
            flops = float(work.flops) if m < 256 else PEAK * seconds
            rows.append(row("gemm", seconds, rows=m, outputs=outputs, inputs=inputs, flops=flops))
    heads = {"heads": 9, "kv_heads": 3, "head_dim": 64}
    for b, n, c in product((1, 2, 4), (1, 2, 4, 8, 16, 32), (64, 160, 416, 800, 1500)):
        shape = {"requests": b, "query_tokens": n, "context": c, **heads}
        work = ops.attention(**shape, window=None, kv_bytes=4, activation_bytes=4)
        timing = kernels.split_attention(truth, work, dtype="fp32", **shape)
        rows.append(row("attention", noisy(timing.seconds), mask="causal", **shape))
    sizes = product((10, 30), (1, 4), (1, 2, 4, 8, 16), (32, 416))
    passes = [
        row(
            "step",
            1.0,
            mask="causal",
            model="smollm2-135m",
            layers=layers,
            requests=b,
            query_tokens=n,
            context=c,
        )
        for layers, b, n, c in sizes
    ]
    seconds = predicted_passes(truth, passes, dtype="fp32")
    for each, predicted in zip(passes, seconds, strict=True):
        took = noisy(predicted)
        rows.append(replace(each, median_s=took, low_s=took, high_s=took))
    return KernelTrace(
        rows=tuple(rows), provenance=KernelProvenance(device=TITLE, threads=1, cache_bytes=1 << 25)
    )


def test_the_profile_times_passes_as_the_machine_did(trace, truth, tmp_path):
    write_kernels(trace, tmp_path / "kernels.parquet")
    found = fit_results(tmp_path)
    assert found.passes.median < 0.03 and found.passes.rows_scored >= 10
    assert found.scores["gemm"].median < 0.02 and found.scores["gemm"].rows_fitted >= 12
    assert found.scores["attention_verify"].median < 0.05
    again = load_device(found.profile)
    assert (
        again.name == "cpu-amd-epyc-9999--1-thread"
        and again.vendor == "AMD"
        and again.kind == "cpu"
    )
    assert (
        again.calibrated and again.processors == 1 and again.cache_bytes == pytest.approx(1 << 25)
    )
    assert again.bandwidth_bytes_per_s == pytest.approx(BANDWIDTH)
    assert again.provenance["constants.gemm.launch_s"].kind == "measured"
    assert read_kernels(found.trace).provenance.profile == again.name
    launches = ("gemm.launch_s", "attention.launch_s", "verify.launch_s", "elementwise.kernel_s")
    assert all(1e-6 <= again.constants.number(name) <= 5e-5 for name in launches)
    assert again.host_link_bytes_per_s < again.bandwidth_bytes_per_s
    assert again.calibrated == found.device.calibrated
    rows = [r for r in trace.rows if r.operation == "step"]
    predicted = predicted_passes(again, rows, dtype="fp32")
    assert np.median(np.abs(predicted / np.array([r.median_s for r in rows]) - 1)) < 0.03
    assert read_results(tmp_path).rows == trace.rows


def test_a_profile_names_its_processor_and_no_machine():
    assert profile_name("CPU: AMD EPYC", 1) == "cpu-amd-epyc--1-thread"
    assert profile_name("CPU: Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", 4) == (
        "cpu-intel-xeon-platinum-8481c--4-threads"
    )
    assert profile_name("NVIDIA H200", 8) == "nvidia-h200"


def test_too_little_is_said(trace, tmp_path):
    few = replace(trace, rows=tuple(r for r in trace.rows if r.operation != "step"))
    write_kernels(few, tmp_path / "kernels.parquet")
    with pytest.raises(InputError, match="too little was measured: 0 whole passes"):
        fit_results(tmp_path)
    bare = tmp_path / "bare"
    bare.mkdir()
    with pytest.raises(InputError, match="holds no measured rows"):
        fit_results(bare)
    without = replace(trace, rows=tuple(r for r in trace.rows if r.operation != "copy"))
    write_kernels(without, bare / "kernels.parquet")
    with pytest.raises(InputError, match="neither copies nor matrix products"):
        fit_results(bare)


def test_few_rows_leave_constants_as_they_were(trace, truth):
    from costmodel.calibration.own_trace import trace_measurements

    few = replace(trace, rows=tuple(r for r in trace.rows if r.operation == "gemm")[:5])
    assert few.rows
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "k.parquet"
        write_kernels(few, place)
        device, scores = fit_operations(trace_measurements(place), truth, dtype="fp32")
    assert device.constants.gemm.launch_s == truth.constants.gemm.launch_s
    assert (
        device.constants.verify.launch_s == truth.constants.attention.launch_s
    )  # timed as decoding
    assert scores["gemm"].rows_fitted == 0 and scores["gemm"].median < 0.05


def test_a_graph_stands_before_plain_launches():
    plain = row(
        "step",
        2.0,
        mask="causal",
        model="smollm2-135m",
        layers=30,
        requests=1,
        query_tokens=1,
        context=8,
    )
    graph = replace(plain, graph=True, median_s=3.0, high_s=3.0)
    assert pass_rows([plain, graph], dtype="fp32") == [graph]
    assert pass_rows([plain], dtype="bf16") == []


def test_the_jobs_are_a_campaign_that_fits_its_budget():
    for cpu, dtype in ((True, "fp32"), (False, "bf16")):
        jobs = calibration_jobs("smollm2-135m", dtype, 240.0, cpu=cpu)
        campaign = Campaign.model_validate(
            yaml.safe_load(yaml.safe_dump({"schema": 1, "jobs": jobs}))
        )
        assert sum(job.estimate_s for job in campaign.jobs) < 240.0
        first = [job.name for job in campaign.by_priority()][:4]
        assert first == ["copy", "gemm", "passes", "attention"]


def test_a_budget_that_cannot_do_is_refused_before_it_is_spent(tmp_path):
    """Two minutes went by, and copies and products were left out for want of time."""
    out = tmp_path / "out"
    with pytest.raises(InputError, match="budget: must be 60s or more"):
        device.calibrate_device(out=out, budget_s=device.LEAST_BUDGET_S - 1)
    assert not out.exists()


def test_a_gpu_is_calibrated_on_shapes_that_are_served_and_forms_that_need_no_compiler(
    tmp_path, monkeypatch
):
    """FlexAttention would compile anew for every shape, and a small model's shapes time launches
    alone."""
    asked = {}

    def ran(plan, **_):
        asked.update(yaml.safe_load(plan.read_text()))
        raise InterruptedError

    monkeypatch.setattr(device, "run_campaign", ran)
    monkeypatch.setattr(device, "checked_device", lambda name: name)
    monkeypatch.setattr(device, "device_title", lambda place: "NVIDIA H100 80GB HBM3")
    monkeypatch.setattr(device, "profile_here", lambda place: "h100-sxm")
    with pytest.raises(InterruptedError):
        device.calibrate_device(out=tmp_path / "out", device="cuda")
    jobs = asked["jobs"]
    assert {job["model"] for job in jobs if "model" in job} == {"llama-3.1-8b"}
    forms = [job["implementations"] for job in jobs if job["kind"] == "attention"]
    assert forms and all(form in FORMS and form != "flex" for each in forms for form in each)


def test_a_card_without_a_profile_is_calibrated_only_from_one_that_was_named(tmp_path, monkeypatch):
    monkeypatch.setattr(device, "checked_device", lambda name: name)
    monkeypatch.setattr(device, "device_title", lambda place: "NVIDIA A100 80GB PCIe")
    monkeypatch.setattr(device, "profile_here", lambda place: "")
    with pytest.raises(
        InputError, match=r"base: must name the nearest shipped profile.*A100 80GB PCIe"
    ):
        device.calibrate_device(out=tmp_path / "out", device="cuda")
    assert not (tmp_path / "out").exists()


def test_a_fit_of_passes_scores_rows_that_it_did_not_see(trace, truth):
    rows = [r for r in trace.rows if r.operation == "step"]
    found = fit_passes(truth, rows, dtype="fp32")
    assert found.score.rows_fitted + found.score.rows_scored == found.score.rows_used == len(rows)
    assert found.score.p90 < 0.05
    model = load_model("smollm2-135m")
    assert float(pass_cost_of(found.device, model).total_s) > 0


def pass_cost_of(device, model):
    from costmodel.passes.deployment import Deployment
    from costmodel.passes.precision import precision

    deployment = Deployment(architecture=model, device=device, precision=precision("fp32", "fp32"))
    return pass_cost(deployment, batch=1, query_tokens=1, context=64)
