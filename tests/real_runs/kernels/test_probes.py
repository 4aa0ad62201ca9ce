"""Probes find what is planted, and a probe that fails or hangs is a finding of its own."""

import pytest

torch = pytest.importorskip("torch")

from dataclasses import replace  # noqa: E402

from hardware_profiles.loader import load_device  # noqa: E402
from real_runs import gpu_doctor  # noqa: E402
from real_runs.kernels import machine as machines  # noqa: E402
from real_runs.kernels import probes  # noqa: E402
from real_runs.kernels.attention_forms import FORMS, PreparedCall  # noqa: E402

CPU = torch.device("cpu")


def test_attention_that_answers_wrong_is_named(monkeypatch):
    assert probes.attention(CPU).state == "ok"
    right = FORMS["sdpa"]

    def shifted(operands):
        made = right.prepare(operands)
        return PreparedCall(call=made.call, answer=lambda found: made.answer(found) + 0.1)

    monkeypatch.setattr(probes, "FORMS", {"sdpa": right, "broken": replace(right, prepare=shifted)})
    monkeypatch.setattr("real_runs.kernels.attention.FORMS", probes.FORMS)
    found = probes.attention(CPU)
    assert found.state == "wrong" and found.detail.startswith("broken: wrong: relative error")
    assert "right: sdpa" in found.detail


@pytest.mark.parametrize(("share", "state"), [(0.85, "ok"), (0.4, "slow"), (1.3, "wrong")])
def test_roofs_are_compared_with_the_datasheet(monkeypatch, share, state):
    h100 = load_device("h100-sxm")
    here = machines.Machine(
        device=CPU,
        title="",
        profile="h100-sxm",
        cache_bytes=1,
        memory_bytes=1,
        threads=1,
        copy_bytes_per_s=share * h100.bandwidth_bytes_per_s,
        gemm_flops_per_s=0.8 * h100.peak("bf16"),
    )
    monkeypatch.setattr(probes, "machine", lambda device, dtype: here)
    found = probes.roofs(CPU)
    assert (
        found.state == state
        and f"{share:.0%}" in found.detail
        and bool(found.advice) == (state != "ok")
    )


def test_a_pass_that_differs_is_wrong(monkeypatch):
    tiny = replace(probes.load_model("smollm2-135m").with_layers(2), vocab=64)
    monkeypatch.setattr(probes, "load_model", lambda name: tiny)
    monkeypatch.setattr(type(tiny), "with_layers", lambda self, layers: self)
    assert probes.passes(CPU).state == "ok"
    replay = probes.StaticPass.replay
    monkeypatch.setattr(probes.StaticPass, "replay", lambda self: 1.1 * replay(self))
    assert probes.passes(CPU).state == "wrong"


def test_what_a_probe_raises_is_its_finding(monkeypatch):
    monkeypatch.setitem(probes.PROBES, "roofs", lambda place: 1 / 0)
    found = probes.probed("roofs", "cpu")
    assert (found.probe, found.state, found.detail) == (
        "roofs",
        "wrong",
        "ZeroDivisionError: division by zero",
    )
    assert probes.probed("identity", "cuda:99").state == "wrong"


def test_each_probe_runs_in_a_process_of_its_own_and_within_its_limit(monkeypatch):
    """A limit that torch cannot even be imported in stands for a device that hangs."""
    seen = []
    found = gpu_doctor.examine("cpu", probes=["identity"], progress=seen.append)
    assert found == seen and found[0].probe == "identity" and "CPU" in found[0].detail
    late = gpu_doctor.examine("cpu", probes=["identity"], limit_s=0.01)[0]
    assert late.state == "wrong" and late.detail == "did not end within 0.01 s"
    unknown = gpu_doctor.examine("cpu", probes=["nonsense"])[0]
    assert unknown.state == "wrong"
