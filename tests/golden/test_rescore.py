"""Kept passes are scored again by the present model: right on what it made, worse when it is
wrong."""

import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")

from costmodel.architectures.library import load_model
from costmodel.passes.deployment import Deployment
from costmodel.passes.forward import pass_cost
from costmodel.passes.precision import Precision
from hardware_profiles.errors import InputError
from hardware_profiles.loader import load_device
from real_runs.validation.own_loop.passes_file import PASSES, keep_passes
from real_runs.validation.runs import Run
from tests.golden.rescore import as_json, rescore
from traces.storage.kernels import KernelProvenance, KernelRow, KernelTrace, write_kernels

DEPLOYMENT = Deployment(
    architecture=load_model("smollm2-135m"),
    device=load_device("cpu-generic"),
    precision=Precision(weights="fp32", activations="fp32", kv="fp32"),
)
SIZES = [(b, n, c) for b in (1, 4) for n in (1, 3, 6) for c in (100, 700)]


def seconds(b, n, c):
    return float(pass_cost(DEPLOYMENT, batch=b, query_tokens=n, context=c).total_s)


def run(factor):
    return Run(
        cell="c",
        configuration="x",
        round=0,
        prompts=("a",),
        tokens=1,
        steps=1,
        request_steps=1,
        drafted_tokens=0,
        decode_s=1.0,
        cpu_s=1.0,
        draft_s=0.0,
        verify_s=1.0,
        output_sha256="",
        passes=tuple((b, n, c, factor * seconds(b, n, c)) for b, n, c in SIZES),
    )


def reported(folder, factor, verify):
    folder.mkdir(exist_ok=True)
    about = {
        "profile": "cpu-generic",
        "dtype": "float32",
        "model": "smollm2-135m",
        "fidelity": "calibrated",
    }
    (folder / "validation.json").write_text(
        json.dumps({"about": about, "costs": {"verify": verify}})
    )
    keep_passes([("chain", False, run(factor)), ("tree", True, run(factor))], folder)
    return folder


def test_passes_are_scored_with_the_loop_costs_of_their_report(tmp_path):
    right = {"chain": [float(np.log(1.5)), 0.0], "tree": [float(np.log(1.5)), 0.0]}
    (found,) = rescore(reported(tmp_path / "a", 1.5, right))
    assert found.rows == 2 * len(SIZES) and found.p90 == pytest.approx(0.0, abs=1e-9)
    (found,) = rescore(reported(tmp_path / "b", 1.5, {}))
    assert found.median == pytest.approx(1 / 3)
    assert as_json([found])["validation passes, calibrated"]["rows"] == 2 * len(SIZES)


def test_whole_passes_of_a_shipped_profile_are_scored(tmp_path):
    rows = tuple(
        KernelRow(
            operation="step",
            implementation="eager",
            dtype="fp32",
            mask="causal",
            requests=b,
            query_tokens=n,
            context=c,
            model="smollm2-135m",
            layers=30,
            median_s=seconds(b, n, c) * 1.25,
            low_s=seconds(b, n, c),
            high_s=seconds(b, n, c) * 2,
            repeats=3,
            cold=True,
            graph=False,
            flops=1.0,
            bytes=1.0,
        )
        for b, n, c in SIZES
    )
    write_kernels(
        KernelTrace(rows=rows, provenance=KernelProvenance(profile="cpu-generic")),
        tmp_path / "kernels.parquet",
    )
    (found,) = rescore(tmp_path)
    assert found.what == "whole passes in fp32, calibrated" and found.median == pytest.approx(0.2)
    write_kernels(
        KernelTrace(rows=rows, provenance=KernelProvenance(profile="gone")),
        tmp_path / "kernels.parquet",
    )
    assert rescore(tmp_path) == []


def test_foreign_reports_are_refused(tmp_path):
    reported(tmp_path, 1.0, {})
    (tmp_path / "validation.json").write_text("[]")
    with pytest.raises(InputError, match="report of a validation"):
        rescore(tmp_path)
    (tmp_path / PASSES).unlink()
    assert rescore(tmp_path) == []


def test_steps_of_a_server_are_scored_with_the_calibration_beside_them(tmp_path):
    from costmodel.answers.settings import build_setting
    from costmodel.configuration import DecodingConfiguration, DeploymentNames
    from hardware_profiles.writer import write_device
    from real_runs.validation.servers.steps import drawn_path, group_steps
    from real_runs.validation.servers.steps_file import keep_steps, rate

    write_device(load_device("cpu-generic"), tmp_path / "own.toml")
    (tmp_path / "engine.toml").write_text(
        'like = "llama.cpp"\n[overheads."*"]\nstep_us = 100.0\nspread_ratio = 0.1\nsource ='
        ' "test"\n'
    )
    names = DeploymentNames(
        model="smollm2-135m",
        device=str(tmp_path / "own.toml"),
        engine=str(tmp_path / "engine.toml"),
        dtype="fp32",
    )
    setting = build_setting(DecodingConfiguration(deployment=names, method="n-gram"))
    steps = group_steps([drawn_path([0.5], 64, 16, np.random.default_rng(0))])
    foretold = rate(setting, 0, [steps], draft_tokens=1)
    about = {
        "profile": "own",
        "model": "smollm2-135m",
        "fidelity": "calibrated",
        "weights": "fp32",
        "draft_layers": 0,
    }
    point = {"drafter": "n-gram", "draft_tokens": 1, "measured": {"tokens_per_s": foretold / 1.25}}
    (tmp_path / "validation.json").write_text(
        json.dumps({"about": about, "costs": {}, "points": [point]})
    )
    keep_steps([(0, steps)], tmp_path)
    (found,) = rescore(tmp_path)
    assert found.rows == 1 and found.median == pytest.approx(0.25)
